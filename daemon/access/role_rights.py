"""Rights (ACLs) by role, and the commands that grant them. Pure.

The one list of rights: `levelwind acls` prints it, the daemon checks itself against it, and a test
on real brokers grants exactly this and takes away each right once.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from levelwind.assignors.protocol import transactional_ids
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from levelwind.assignors.protocol.topics import Topics

EVERY = "*"
"""Kafka's name for every topic or group."""


class Resource(StrEnum):
    """Kind of a resource, as `kafka-acls` spells its option."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


class Operation(StrEnum):
    """Operation on a resource, as `kafka-acls` spells it.

    Its name is the one in Kafka's protocol and in librdkafka.
    """

    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    READ = "Read"
    WRITE = "Write"


IMPLIED = {Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE})}
"""Operations whose right contains another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The right to one operation on one resource, or on all whose names begin alike."""

    resource: Resource
    name: str = ""
    """Name of the resource; empty for the cluster."""
    operation: Operation
    prefixed: bool = False
    """Whether `name` is the beginning of the names that the right is about."""
    purpose: str
    """What needs the right: the end of a sentence that begins with the role."""

    @property
    def label(self) -> str:
        """The right as messages name it, as in `READ on topic levelwind.lag`."""
        where = self.resource.replace("-", " ")
        name = f" {self.name}{EVERY if self.prefixed else ''}" if self.name else ""
        article = "the " if self.resource is Resource.CLUSTER else ""
        return f"{self.operation.name} on {article}{where}{name}"


def daemon_rights(
    topics: Topics,
    *,
    observed: Iterable[str] = (EVERY,),
    proxied: Iterable[str] = (),
    polled: bool = False,
) -> list[Right]:
    """Return the rights of the daemon's principal.

    Args:
        topics: the names of levelwind's topics.
        observed: names of the topics that the daemon observes; one that ends with `*` is a prefix,
            `*` alone stands for every topic.
        proxied: the groups of mode `proxy`.
        polled: whether commits are polled.
    """
    observed = tuple(observed)
    own = [
        _on_own(topics, Resource.TOPIC, op, why)
        for op, why in (
            (Operation.CREATE, "creates its topics where they are missing"),
            (Operation.DESCRIBE_CONFIGS, "compares its topics with what they should be"),
            (Operation.READ, "reads its topics"),
            (Operation.WRITE, "writes its topics"),
        )
        if op is not Operation.READ or EVERY not in observed  # else the right to read all topics
    ]
    watched = [
        _on(name, Resource.TOPIC, Operation.READ, "reads the ends of observed topics")
        for name in observed
    ]
    if EVERY not in observed and not polled:
        why = "reads commits that a transaction holds back"
        watched.append(_on(OFFSETS_TOPIC, Resource.TOPIC, Operation.READ, why))
    return [
        *own,
        *watched,
        _on(EVERY, Resource.GROUP, Operation.DESCRIBE, "reads what groups have committed"),
        _on(topics.control, Resource.GROUP, Operation.READ, "is elected by the group protocol"),
        *(_on_group(group, "leads the group as its proxy") for group in proxied),
        _on("", Resource.CLUSTER, Operation.DESCRIBE, "reads brokers and racks"),
        _on("", Resource.CLUSTER, Operation.DESCRIBE_CONFIGS, "reads where consumers may fetch"),
        _on_own(
            topics,
            Resource.TRANSACTIONAL_ID,
            Operation.WRITE,
            "publishes in transactions, and fences commits of evicted members",
        ),
    ]


def pipeline_rights(topics: Topics, *, polled: bool = False) -> list[Right]:
    """Return the rights of the principal of a pipeline that has one of its own.

    Args:
        topics: the names of levelwind's topics.
        polled: whether commits are polled.
    """
    commits = topics.commits if polled else OFFSETS_TOPIC
    read = (commits, topics.metadata, topics.assignments, topics.replays)
    both, written = (topics.lag, topics.triggers), (topics.dead_letters, topics.replays)
    return [
        *(_on(name, Resource.TOPIC, Operation.READ, "reads its input") for name in read),
        *(
            _on(name, Resource.TOPIC, Operation.READ, "verifies what it published before")
            for name in both
        ),
        *(
            _on(name, Resource.TOPIC, Operation.WRITE, "publishes its results")
            for name in (*both, *written)
        ),
        *(
            _on(name, Resource.TOPIC, Operation.DESCRIBE_CONFIGS, "asks how large a record may be")
            for name in (*both, topics.dead_letters)
        ),
        _on(
            f"{topics.prefix}pipeline{EVERY}",
            Resource.GROUP,
            Operation.DESCRIBE,
            "has consumers that name a group",
        ),
        _reader_group(topics),
    ]


def consumer_rights(
    topics: Topics, group: str, read: Collection[str], *, fencing: str = "none"
) -> list[Right]:
    """Return the rights of the principal of a managed consumer.

    Args:
        topics: the names of levelwind's topics.
        group: the consumer's group.
        read: names of the topics that it reads; one that ends with `*` is a prefix.
        fencing: the consumer's `fencing`.
    """
    rights = [
        *(_on(name, Resource.TOPIC, Operation.READ, "reads its topics") for name in read),
        _on_group(group, "commits"),
        _on(topics.assignments, Resource.TOPIC, Operation.READ, "reads its assignment"),
        _on(topics.members, Resource.TOPIC, Operation.WRITE, "announces itself"),
    ]
    if fencing == "broker":
        rights.append(
            _on_all(
                transactional_ids.of_group(topics.prefix, group),
                Resource.TRANSACTIONAL_ID,
                Operation.WRITE,
                "commits in transactions",
            )
        )
    return rights


def subscriber_rights(topics: Topics, group: str, read: Collection[str]) -> list[Right]:
    """Return the rights of a consumer that subscribes and applies published plans."""
    return [
        *(_on(name, Resource.TOPIC, Operation.READ, "reads its topics") for name in read),
        _on_group(group, "joins its group and commits"),
        _on(topics.assignments, Resource.TOPIC, Operation.READ, "reads published plans"),
    ]


def operator_rights(topics: Topics) -> list[Right]:
    """Return the rights of the principal of the commands that show groups and act on them."""
    return [
        _on_own(topics, Resource.TOPIC, Operation.READ, "reads levelwind's topics"),
        _reader_group(topics),
        _on(topics.control, Resource.TOPIC, Operation.WRITE, "asks for plans"),
        _on(topics.decisions, Resource.TOPIC, Operation.WRITE, "notes what was ordered"),
        _on(topics.replays, Resource.TOPIC, Operation.WRITE, "retries dead letters"),
    ]


def assessment_rights(observed: Iterable[str] = (EVERY,)) -> list[Right]:
    """Return the rights of the principal of `levelwind assess`; without some it shows less.

    Args:
        observed: names of the topics that it looks at; one that ends with `*` is a prefix, `*`
            alone stands for every topic.
    """
    return [
        *(
            _on(name, Resource.TOPIC, Operation.DESCRIBE, "reads layouts and ends")
            for name in observed
        ),
        _on(EVERY, Resource.GROUP, Operation.DESCRIBE, "reads members and commits"),
        _on("", Resource.CLUSTER, Operation.DESCRIBE, "sees all groups, and the sizes of logs"),
        _on(
            "",
            Resource.CLUSTER,
            Operation.DESCRIBE_CONFIGS,
            "reads where consumers may fetch, and when commits expire",
        ),
    ]


def _reader_group(topics: Topics) -> Right:
    why = "has a consumer of levelwind's topics that names a group"
    return _on(f"{topics.prefix}reader", Resource.GROUP, Operation.DESCRIBE, why)


def _on_own(topics: Topics, resource: Resource, operation: Operation, purpose: str) -> Right:
    """Return the right to all resources of a kind whose names have levelwind's prefix."""
    return _on_all(topics.prefix, resource, operation, purpose)


def _on_all(prefix: str, resource: Resource, operation: Operation, purpose: str) -> Right:
    """Return the right to all resources of a kind whose names begin alike."""
    return Right(
        resource=resource, name=prefix, prefixed=True, operation=operation, purpose=purpose
    )


def _on_group(group: str, purpose: str) -> Right:
    """Return the right to read in one group, whatever its name ends with.

    Raises:
        ConfigurationError: Kafka's rules take the name for that of every group.
    """
    if group == EVERY:
        raise ConfigurationError(f"no rule can give a right to the group named {EVERY} alone")
    return Right(resource=Resource.GROUP, name=group, operation=Operation.READ, purpose=purpose)


def _on(name: str, resource: Resource, operation: Operation, purpose: str) -> Right:
    prefixed = name.endswith(EVERY) and name != EVERY
    return Right(
        resource=resource,
        name=name.removesuffix(EVERY) if prefixed else name,
        prefixed=prefixed,
        operation=operation,
        purpose=purpose,
    )


def commands(
    rights: Iterable[Right], principal: str, *, tool: str = "kafka-acls.sh --bootstrap-server …"
) -> list[str]:
    """Return the commands that grant rights to a principal, one for each resource.

    Args:
        rights: the rights.
        principal: the principal, as in `User:levelwind`.
        tool: the command's beginning, with the options for the cluster.
    """
    operations: dict[tuple[Resource, str, bool], list[Operation]] = defaultdict(list)
    for right in rights:
        known = operations[right.resource, right.name, right.prefixed]
        if right.operation not in known:
            known.append(right.operation)
    lines = []
    for (resource, name, prefixed), allowed in operations.items():
        words = ["--add", "--allow-principal", principal]
        for operation in allowed:
            words += ["--operation", operation.value]
        words += [f"--{resource}", *([name] if name else [])]
        if prefixed:
            words += ["--resource-pattern-type", "prefixed"]
        lines.append(f"{tool} {shlex.join(words)}")
    return lines


def missing(rights: Iterable[Right], allowed: Collection[str]) -> list[Right]:
    """Return the rights that a principal lacks on one resource.

    Args:
        rights: rights on the resource.
        allowed: names of the operations that the principal may do there, in capitals.
    """
    return [
        right
        for right in rights
        if right.operation.name not in allowed
        and not any(
            stronger.name in allowed for stronger in IMPLIED.get(right.operation, frozenset())
        )
    ]
