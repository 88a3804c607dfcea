"""Records of levelwind.triggers: causes to plan a group again, with their evidence."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from assignors.protocol.partition_ranges import WireError
from assignors.protocol.records.pipeline import short_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.json_fields import Fields
    from assignors.protocol.records.metadata import Key

TriggerKind: TypeAlias = Literal["racks", "skew"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RackChange:
    """Replica racks of a partition at the last plan (`before`) and now (`after`)."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksEvidence:
    """Partitions whose replica racks differ from those of the last plan, by topic and number."""

    topics: Mapping[str, Mapping[int, RackChange]]

    @property
    def partitions(self) -> int:
        """Number of partitions that changed."""
        return sum(map(len, self.topics.values()))

    def value(self) -> dict[str, object]:
        topics = {
            topic: {
                str(number): {"from": change.before, "to": change.after}
                for number, change in changes.items()
            }
            for topic, changes in self.topics.items()
        }
        return {"topics": topics, "partitions": self.partitions}

    @classmethod
    def read(cls, fields: Fields) -> RacksEvidence:
        evidence = cls(topics=fields.by_name("topics", _read_changes))
        if fields.integer("partitions") != evidence.partitions:
            raise WireError(
                "evidence.partitions is not the number of partitions in evidence.topics"
            )
        return evidence


def _read_changes(fields: Fields) -> dict[int, RackChange]:
    return {
        _number(number): RackChange(before=change.texts("from"), after=change.texts("to"))
        for number, change in fields.items()
    }


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and str(int(text)) == text):
        raise WireError("evidence.topics: a key that is no partition number")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewEvidence:
    """Uneven distribution of a group's lag over its members."""

    skew: float
    """Largest load of a member, relative to the mean."""
    threshold: float
    """Skew from which the trigger is raised."""
    lag: int
    """Lag of the whole group, in offsets."""
    floor: int
    """Lag of the group below which skew does not count."""
    members: Mapping[str, int]
    """Lag by instance, in offsets."""
    seconds: float | None = None
    """Seconds for which the record that has waited longest has been there; None if unknown."""
    floor_seconds: float | None = None
    """Wait in seconds from which skew counts, however small the lag is; None if there is none."""

    def value(self) -> dict[str, object]:
        optional = {"seconds": self.seconds, "floor_seconds": self.floor_seconds}
        return {
            name: short_number(figure) for name, figure in optional.items() if figure is not None
        } | {
            "skew": self.skew,
            "threshold": self.threshold,
            "lag": self.lag,
            "floor": self.floor,
            "members": dict(self.members),
        }

    @classmethod
    def read(cls, fields: Fields) -> SkewEvidence:
        return cls(
            skew=fields.number("skew"),
            threshold=fields.number("threshold"),
            lag=fields.integer("lag"),
            floor=fields.integer("floor"),
            members=fields.counts("members"),
            seconds=fields.number("seconds") if fields.has("seconds") else None,
            floor_seconds=fields.number("floor_seconds") if fields.has("floor_seconds") else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRecord:
    """A cause to plan a group again: active until a tombstone clears it."""

    KIND: ClassVar = "trigger"
    V: ClassVar = 1

    group: str
    at: int
    """Time of the evidence, in milliseconds since the epoch."""
    since: int
    """Time since which the cause has lasted, in milliseconds since the epoch."""
    evidence: RacksEvidence | SkewEvidence
    source: Mapping[str, int]
    """Offset up to which each input partition was read, by "topic/partition"."""

    @property
    def kind(self) -> TriggerKind:
        return "racks" if isinstance(self.evidence, RacksEvidence) else "skew"

    @property
    def key(self) -> Key:
        return (self.kind, self.group)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "kind": self.kind,
            "group": self.group,
            "at": self.at,
            "since": self.since,
            "evidence": self.evidence.value(),
            "source": dict(self.source),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> TriggerRecord:
        kind, group = key
        if (fields.text("kind"), fields.text("group")) != key:
            raise WireError("kind and group are not those of the key")
        evidence = fields.section("evidence")
        return cls(
            group=str(group),
            at=fields.integer("at"),
            since=fields.integer("since"),
            evidence=RacksEvidence.read(evidence)
            if kind == "racks"
            else SkewEvidence.read(evidence),
            source=fields.counts("source", low=-1),
        )
