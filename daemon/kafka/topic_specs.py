"""Specifications of levelwind's topics, and their differences from existing topics. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from levelwind.assignors.protocol.topics import LARGEST_WIDE_BYTES
from levelwind.daemon.durations import PositiveSeconds, RequestSeconds  # noqa: TC001 - the settings are validated by their annotations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.protocol.topics import Topics

DAY_MS = 24 * 60 * 60 * 1000
FUTURE = "message.timestamp.after.max.ms"
"""Longest time by which a record may be ahead of the broker's clock. Brokers know the setting since
3.6, and since 4.0 it is an hour by default; others make a topic without it."""

# Every reader starts from the beginning, so outdated records must go soon: segments are small and
# close within minutes, and compaction begins when a tenth of the log is outdated. A tombstone stays
# for a day, for readers that were away.
COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(60 * 60 * 1000),
    "delete.retention.ms": str(DAY_MS),
}
KEPT: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(30 * DAY_MS),
    # By brokers' log.retention.bytes records would end earlier.
    "retention.bytes": "-1",
    "segment.ms": str(DAY_MS),
}
# What the pipeline reads, too: Spark turns times into microseconds, and its query ends at a record
# for which they have no room, at each start.
READ_BY_SPARK: Mapping[str, str] = {FUTURE: str(60 * 60 * 1000)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """levelwind's own topics."""

    partitions: Annotated[int, Field(ge=1, le=100_000)] = 4
    """Partitions of each of levelwind's topics except `control`, which has one. A topic that exists
    keeps its number."""
    replication: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Replicas of each topic; none: three, or as many as there are brokers."""
    decisions_retention: PositiveSeconds = 7_776_000.0
    """Seconds for which the audit trail is kept, 90 days by default. A topic that exists keeps its
    own."""
    timeout: RequestSeconds = 30.0
    """Seconds after which the start fails if the cluster does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """Specification of a topic, or the description of an existing one."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between a topic and its specification."""

    topic: str
    setting: str
    expected: str
    found: str


def expected_topics(
    topics: Topics, settings: TopicSettings, brokers: int, *, polled: bool = False
) -> tuple[TopicSpec, ...]:
    """Return the specifications of levelwind's topics.

    Args:
        topics: their names.
        settings: their numbers of partitions and replicas.
        brokers: the number of brokers of the cluster.
        polled: whether commits are polled, which needs a topic for them.
    """
    replication = settings.replication or min(3, max(brokers, 1))

    def spec(
        name: str, base: Mapping[str, str], partitions: int = settings.partitions
    ) -> TopicSpec:
        return TopicSpec(
            name=name,
            partitions=partitions,
            replication=replication,
            settings={**base, **_durable(replication)},
        )

    wide = {**COMPACTED, "max.message.bytes": str(LARGEST_WIDE_BYTES)}
    return (
        *(
            spec(name, COMPACTED)
            for name in (
                topics.triggers,
                topics.members,
            )
        ),
        spec(topics.assignments, {**COMPACTED, **READ_BY_SPARK}),
        spec(topics.lag, wide),
        *(
            spec(name, {**wide, **READ_BY_SPARK})
            for name in (topics.metadata, *((topics.commits,) if polled else ()))
        ),
        spec(topics.control, COMPACTED, 1),
        spec(topics.dead_letters, KEPT),
        spec(topics.replays, {**KEPT, "retention.ms": str(7 * DAY_MS), **READ_BY_SPARK}),
        spec(
            topics.decisions,
            {**KEPT, "retention.ms": str(round(settings.decisions_retention * 1000))},
        ),
    )


def _durable(replication: int) -> Mapping[str, str]:
    return {
        "min.insync.replicas": "2" if replication >= 3 else "1",
        "unclean.leader.election.enable": "false",
    }


def differences(expected: TopicSpec, found: TopicSpec) -> tuple[Difference, ...]:
    """Compare a topic with its specification.

    More replicas than expected are no difference: otherwise brokers that are offline at this start
    would make every topic differ. Settings that depend on the replication are compared with what
    the topic's own replication asks for. Brokers that do not know `FUTURE` have no value of it.
    """
    pairs: list[tuple[str, str, str]] = []
    if found.partitions != expected.partitions:
        pairs.append(("partitions", str(expected.partitions), str(found.partitions)))
    if found.replication < expected.replication:
        pairs.append(("replication.factor", str(expected.replication), str(found.replication)))
    for key, value in sorted({**expected.settings, **_durable(found.replication)}.items()):
        if key == FUTURE and key not in found.settings:
            continue
        if (actual := found.settings.get(key, "")) != value:
            pairs.append((key, value, actual))
    return tuple(
        Difference(topic=expected.name, setting=setting, expected=value, found=actual)
        for setting, value, actual in pairs
    )


def refusal(missing: Sequence[TopicSpec], prefix: str, reason: str) -> str:
    """Return the text for an operator: commands to create the topics, or to grant the right."""
    lines = [
        f"the cluster does not let levelwind create the missing topics ({reason}); create them:",
        *(
            f"  kafka-topics.sh --create --topic {spec.name} --partitions {spec.partitions}"
            f" --replication-factor {spec.replication}"
            + "".join(f" --config {key}={value}" for key, value in sorted(spec.settings.items()))
            for spec in missing
        ),
        "or grant the daemon's principal the right to:",
        (
            "  kafka-acls.sh --add --allow-principal User:NAME --operation Create"
            " --operation Describe --operation DescribeConfigs --resource-pattern-type prefixed"
            f" --topic {prefix}"
        ),
    ]
    return "\n".join(lines)
