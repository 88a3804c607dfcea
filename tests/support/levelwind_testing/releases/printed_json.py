"""What commands print as JSON: each field with its type."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from click.testing import CliRunner
from msgspec.structs import replace

from levelwind.assignors.protocol.records import DeadLetter
from levelwind.daemon.cli.main import main
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.decisions.encoding import assemble, parts
from levelwind.daemon.decisions.replay import replay
from levelwind.daemon.inspection.dead_letters import ClassifiedLetter, LetterVerdict
from levelwind.daemon.inspection.printed_groups import printed_group, printed_summary
from levelwind.daemon.levers.acting import act
from levelwind.daemon.levers.orders import Operator, OperatorOrder
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.offset_rows import offset_rows
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing.control.play import begun
from levelwind_testing.page.scripted_groups import small_installation
from levelwind_testing.records import assignment, lag, member, skew_trigger, topic

SCALARS = {bool: "boolean", int: "number", float: "number", str: "text"}
Printed = tuple[str, list[Any], frozenset[str]]
"""A command, documents that it prints, and names that are data in them."""
PROBLEM = {
    "id": "p",
    "strategy": "optimal",
    "topics": {"t": {"partitions": 3, "replica_racks": [["a"], ["b"], ["a"]]}},
    "members": {"m0": {"topics": ["t"], "rack": "a"}, "m1": {"topics": "*", "rack": "b"}},
    "lags": {"t": [300, 200, 100]},
}
WITHOUT_BROKERS = {
    "levelwind assign": "assign",
    "levelwind compare": "compare - --format json",
    "levelwind explain": "explain - --partition t/0 --format json",
    "levelwind acls": "acls --format json",
    "levelwind config show": "config show --defaults --format json",
    "levelwind simulate": "simulate --strategy range --partitions 8 --members 2 --hours 0.1"
    " --format json",
}


def fields() -> Iterator[str]:
    """Yield the fields of what commands print with `--format json`, and their types."""
    for command, documents, names in (*_of_groups(), *_of_plans(), *_without_brokers()):
        for document in documents:
            for field, kind in _shape(document, names):
                yield f"{command} {field}"
                if kind is not None:
                    yield f"{command} {field}:{kind}"


def _shape(
    document: Any, names: frozenset[str], path: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Yield each field with its type; None: null, which may stand for any type.

    Args:
        document: a JSON document.
        names: names of groups, topics and the like: a field so named, or with a number, is data.
        path: where the document stands.
    """
    if isinstance(document, Mapping):
        for key, value in document.items():
            is_data = key in names or key.isdecimal()
            yield from _shape(value, names, f"{path}.{'*' if is_data else key}")
    elif isinstance(document, list | tuple):
        for value in document:
            yield from _shape(value, names, f"{path}[]")
    else:
        yield path, SCALARS.get(type(document))


def _of_groups() -> Iterator[Printed]:
    installation = small_installation()
    views = GroupViews()
    for read in installation.first():
        views.apply(read.kind, read.record)
    groups = list(views.groups.values())
    names = {name for view in groups for topic in view.lags for name in (view.name, topic)}
    names |= {instance for view in groups for instance, _ in view.assigned}
    names |= {name for view in groups for record in view.lags.values() for name in record.members}
    data = frozenset(names)
    shown = [ShownGroup(view) for view in groups]
    yield "levelwind groups", [printed_summary(group) for group in shown], data
    yield "levelwind describe", [printed_group(group) for group in shown], data
    rows = [row._asdict() for group in shown for row in offset_rows(group)]
    yield "levelwind groups --partitions", rows, data
    letter = DeadLetter(
        at=1, topic="t", partition=0, offset=1, reason="r", raw_key=None, raw_value=None
    )
    classified = ClassifiedLetter(letter=letter, verdict=LetterVerdict.OUTDATED, reason="r")
    yield "levelwind dead-letters", [classified.as_json(now=1)], data


def _of_plans() -> Iterator[Printed]:
    names = frozenset({"g", "t", "m0", "m1"})
    entries = [entry for draft in _planned() for entry in assemble(parts(draft))]
    whole = [entry.as_json(inputs=True) for entry in entries]
    yield "levelwind decisions --inputs", whole, names
    computed = [entry for entry in entries if "inputs" in entry.body]
    yield "levelwind replay", [replay(entry).as_json() for entry in computed], names
    orders = (
        OperatorOrder(action="rebalance", group="g"),
        OperatorOrder(action="pin", group="g", subject="t/0", value="m1"),
    )
    me, records = Operator(name="me@here"), _records_of_a_group()
    ordered = [act(Settings(), order, me, reason="r", records=records) for order in orders]
    outcomes = [outcome.as_json() for outcome in ordered]
    yield "levelwind plan", outcomes, names
    yield "levelwind diff", [move for each in outcomes for move in each["preview"]["moves"]], names


def _planned() -> list[Any]:
    """Decisions of a group with lag, racks and a trigger."""
    play = begun(topic(racks=[["a"], ["b"], ["c"], ["a"]]))
    measured = lag(300, 200, 100, 1, at=play.now * 1000)
    play.receive("lag", replace(measured, rate=(1.0, 2.0, 3.0, 4.0)))
    play.join(*(member(f"m{number}", rack="ab"[number]) for number in range(2)))
    play.wait(3)
    play.receive("triggers", skew_trigger())
    play.wait(5)
    return play.drafts


def _records_of_a_group() -> list[Any]:
    owned = {"m0": {"t": (0, 1, 2, 3)}, "m1": {}}
    return [
        ("metadata", topic()),
        ("lag", lag(300, 200, 100, 1)),
        *(("members", member(name, state="active", owned=has)) for name, has in owned.items()),
        *(("assignments", assignment(name, has)) for name, has in owned.items()),
    ]


def _without_brokers() -> Iterator[Printed]:
    for command, words in WITHOUT_BROKERS.items():
        done = CliRunner().invoke(main, words.split(), input=json.dumps(PROBLEM))
        assert done.exit_code == 0, f"{command}: {done.output}"
        documents = [json.loads(line) for line in done.stdout.splitlines()]
        if command.endswith("show"):  # values are of all types
            documents = [{**each, "value": None} for each in documents]
        yield command, documents, frozenset({"t", "m0", "m1"})
