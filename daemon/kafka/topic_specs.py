"""What our topics should be, how one that is there differs, and what an operator is told who has to make them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignors.protocol.topics import Topics

DAY = 24 * 60 * 60 * 1000

# Every reader starts from the beginning, so what is outdated must go soon: small segments that close within minutes, and
# cleaning as soon as a tenth of the log is. A tombstone stays a day for readers that were away.
COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(60 * 60 * 1000),
    "delete.retention.ms": str(DAY),
}
KEPT: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(30 * DAY),
    "segment.ms": str(DAY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """levelwind's own topics."""

    partitions: Annotated[int, Field(ge=1)] = 4
    """Partitions of each of levelwind's topics except `control`, which has one. A topic that exists
    keeps its number."""
    replication: Annotated[int, Field(ge=1)] | None = None
    """Replicas of each topic; none: three, or as many as there are brokers."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds until a cluster that does not answer ends the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """What a topic should be, or is."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which a topic is not what it should be."""

    topic: str
    setting: str
    expected: str
    found: str


def wanted(topics: Topics, settings: TopicSettings, brokers: int) -> tuple[TopicSpec, ...]:
    """Say what our topics should be in a cluster of so many brokers."""
    replication = settings.replication or min(3, max(brokers, 1))

    def shape(
        name: str, base: Mapping[str, str], partitions: int = settings.partitions
    ) -> TopicSpec:
        return TopicSpec(
            name=name,
            partitions=partitions,
            replication=replication,
            settings={**base, **_durable(replication)},
        )

    return (
        *(
            shape(name, COMPACTED)
            for name in (
                topics.metadata,
                topics.lag,
                topics.triggers,
                topics.members,
                topics.assignments,
            )
        ),
        shape(topics.control, COMPACTED, 1),
        shape(topics.dead_letters, KEPT),
        shape(topics.replays, {**KEPT, "retention.ms": str(7 * DAY)}),
    )


def _durable(replication: int) -> Mapping[str, str]:
    return {
        "min.insync.replicas": "2" if replication >= 3 else "1",
        "unclean.leader.election.enable": "false",
    }


def differences(expected: TopicSpec, found: TopicSpec) -> tuple[Difference, ...]:
    """Compare a topic with what it should be.

    More replicas than expected are none: brokers that are away at this start would otherwise make every topic differ. What
    hangs on the replication is judged by the topic's own.
    """
    pairs: list[tuple[str, str, str]] = []
    if found.partitions != expected.partitions:
        pairs.append(("partitions", str(expected.partitions), str(found.partitions)))
    if found.replication < expected.replication:
        pairs.append(("replication.factor", str(expected.replication), str(found.replication)))
    for key, value in sorted({**expected.settings, **_durable(found.replication)}.items()):
        if (actual := found.settings.get(key, "")) != value:
            pairs.append((key, value, actual))
    return tuple(
        Difference(topic=expected.name, setting=setting, expected=value, found=actual)
        for setting, value, actual in pairs
    )


def refusal(missing: Sequence[TopicSpec], prefix: str, reason: str) -> str:
    """Tell the operator which topics to make, or which right to grant."""
    lines = [
        f"the cluster lets us make none of the topics that are missing ({reason}); make them:",
        *(
            f"  kafka-topics.sh --create --topic {shape.name} --partitions {shape.partitions}"
            f" --replication-factor {shape.replication}"
            + "".join(f" --config {key}={value}" for key, value in sorted(shape.settings.items()))
            for shape in missing
        ),
        "or grant the daemon's principal the right to:",
        (
            "  kafka-acls.sh --add --allow-principal User:NAME --operation Create --operation Describe"
            f" --operation DescribeConfigs --resource-pattern-type prefixed --topic {prefix}"
        ),
    ]
    return "\n".join(lines)
