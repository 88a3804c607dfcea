"""Names that others rely on: metrics, log events, settings, topics, ids, rights."""

import ast
import re
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import chain
from typing import Literal, get_args, get_origin, get_type_hints

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol import transactional_ids
from levelwind.assignors.protocol.topics import TOPIC_KINDS, Topics
from levelwind.assignors.registry import OPTIONS, STRATEGIES
from levelwind.daemon.access import role_rights
from levelwind.daemon.cli.access import ROLES
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.gauges.group_gauges import GroupGauges
from levelwind.daemon.kafka.publisher import Publisher
from levelwind.daemon.service.metrics import Metrics, families
from levelwind.daemon.telemetry.log_events import VOCABULARY
from levelwind_testing.control.play import Play
from levelwind_testing.source_tree import source_files, syntax_tree

EVENT = re.compile(r"^member\.[a-z_]+$")
VARIABLE = re.compile(r"LEVELWIND(?:_[A-Z]+)+\b(?!_)")
OWN_METRICS = ("levelwind", "kafka_")
SUFFIXES = {"counter": "_total", "info": "_info"}
AWKWARD_NAMES = (("billing", "worker-1"), ("a/b", "c"), ("a", "b/c"), ("50%", "ü"))


def metrics() -> Iterator[str]:
    """Yield each metric with its type, and each of its labels."""
    registry = Metrics("0", now=time.time).registry
    play = Play()
    play.start()
    facts = facts_about(play.state)
    for family in chain(
        registry._collector_to_names,
        registry.collect(),
        *(families(facts, 0.0, GroupGauges(partitions=each)) for each in (False, True)),
    ):
        name = getattr(family, "name", None) or getattr(family, "_name", "")
        if name.startswith(OWN_METRICS) and hasattr(family, "_labelnames"):
            kind = getattr(family, "type", None) or family._type
            shown = name + SUFFIXES.get(kind, "")
            yield f"{shown} ({kind})"
            yield from (f"{shown} {{{label}}}" for label in family._labelnames)


def log_events() -> Iterator[str]:
    """Yield each event of the daemon, and each of its fields."""
    for event in VOCABULARY:
        yield event.name
        yield from (f"{event.name} {name}" for name in event.fields)


def member_events() -> Iterator[str]:
    """Yield each event of consumers."""
    for module in source_files():
        if module.startswith("levelwind.assignors.clients"):
            for node in ast.walk(syntax_tree(module)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from EVENT.findall(node.value.split(" ")[0])


def variables() -> Iterator[str]:
    """Yield the variables that are no settings: each that the source names."""
    for path in source_files().values():
        yield from VARIABLE.findall(path.read_text())


def setting_choices() -> Iterator[str]:
    """Yield the values of settings that have a closed list of them, and the strategies' options."""
    yield from _choices(Settings, "")
    for strategy in STRATEGIES:
        yield f"strategy {strategy}"
        yield from (f"strategy {strategy} {option}" for option in OPTIONS.get(strategy, ()))


def _choices(section: type, path: str) -> Iterator[str]:
    for name, hint in get_type_hints(section).items():
        for part in (hint, *get_args(hint)):
            if get_origin(part) is Literal:
                yield from (f"{path}{name} = {choice}" for choice in get_args(part))
            elif isinstance(part, type) and is_dataclass(part):
                yield from _choices(part, f"{path}{name}.")
            elif isinstance(part, type) and issubclass(part, Enum):
                yield from (f"{path}{name} = {choice.value}" for choice in part)


def default_timers() -> Iterator[str]:
    """Yield the timers: a member of one release and a daemon of another share the defaults."""
    for timer in fields(Timers):
        yield f"{timer.name} = {timer.default}"


def topics() -> Iterator[str]:
    """Yield the name of each of levelwind's topics."""
    for kind in TOPIC_KINDS:
        yield f"{kind} {Topics().name(kind)} {Topics('east/').name(kind)}"


def ids() -> Iterator[str]:
    """Yield the transactional ids of the planner, and of members with names that need an escape."""
    publisher = Publisher({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, Topics())
    yield f"planner {publisher._id}"
    for group, instance in AWKWARD_NAMES:
        member = transactional_ids.of_member("levelwind.", group, instance)
        yield f"member {group} {instance} {member}"


def rights() -> Iterator[str]:
    """Yield the rights that each role needs, by `levelwind acls`."""
    topics = Settings().topics
    by_role = {
        "daemon": role_rights.daemon_rights(topics, observed=("*",), proxied=("search",)),
        "pipeline": role_rights.pipeline_rights(topics),
        "consumer": role_rights.consumer_rights(topics, "a/b", ("orders",), fencing="none"),
        "subscriber": role_rights.subscriber_rights(topics, "a/b", ("orders",)),
        "operator": role_rights.operator_rights(topics),
        "assess": role_rights.assessment_rights(),
    }
    assert by_role.keys() == set(ROLES)
    by_role["fenced consumer"] = role_rights.consumer_rights(
        topics, "a/b", ("orders",), fencing="broker"
    )
    for role, needed in by_role.items():
        yield from (f"{role}: {right.label}" for right in needed)
