"""Records of levelwind.triggers: causes to plan a group again, with their evidence."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records.pipeline import short_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

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
class MemberLoad:
    """Load of a member, with its parts."""

    seconds: float
    """The load: backlog and the horizon's arrivals, over the capacity."""
    backlog: int
    """Records that wait for the member."""
    arrivals: float
    """Records that arrive for it per second."""
    capacity: float
    """Records per second that it can read."""

    def value(self) -> dict[str, object]:
        return {
            "seconds": short_number(self.seconds),
            "backlog": self.backlog,
            "arrivals": short_number(self.arrivals),
            "capacity": short_number(self.capacity),
        }

    @classmethod
    def read(cls, fields: Fields) -> MemberLoad:
        return cls(
            seconds=fields.number("seconds"),
            backlog=fields.integer("backlog"),
            arrivals=fields.number("arrivals"),
            capacity=fields.number("capacity"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewEvidence:
    """Uneven distribution of a group's work over its members.

    Loads are seconds, as `levelwind.assignors.problem.drain` defines them; rates and capacities are
    records a second.
    """

    heaviest: float
    """Largest load of a member."""
    best: float
    """Largest load that no assignment is below."""
    threshold: float
    """Ratio of the two from which skew counts."""
    floor_seconds: float
    """Difference of the two from which skew counts."""
    utilisation: float
    """Largest share of its capacity that the arrivals of a member need."""
    best_utilisation: float
    """Largest such share that no assignment is below."""
    utilisation_limit: float
    """Utilisation from which it counts as skew, if a plan could lower it."""
    backlog: int
    """Records that wait for the whole group."""
    arrivals: float
    """Records that arrive for the whole group."""
    capacity: float
    """Records that all members together can read."""
    assumed: bool
    """Whether no member's speed is known, so that capacities and seconds are assumed."""
    horizon: float
    """Seconds of arrivals that count: the group's own time to drain, within its bounds."""
    skew: float
    """Largest load of a member, relative to the mean; 1 without any load."""
    members: Mapping[str, MemberLoad]
    """Load by instance."""

    def value(self) -> dict[str, object]:
        figures = {name: short_number(getattr(self, name)) for name in _SKEW_FIGURES}
        return figures | {
            "backlog": self.backlog,
            "assumed": self.assumed,
            "members": {instance: load.value() for instance, load in self.members.items()},
        }

    @classmethod
    def read(cls, fields: Fields) -> SkewEvidence:
        return cls(
            backlog=fields.integer("backlog"),
            assumed=fields.flag("assumed"),
            members=fields.by_name("members", MemberLoad.read),
            **{name: fields.number(name) for name in _SKEW_FIGURES},
        )


_SKEW_FIGURES = (
    "heaviest",
    "best",
    "threshold",
    "floor_seconds",
    "utilisation",
    "best_utilisation",
    "utilisation_limit",
    "arrivals",
    "capacity",
    "horizon",
    "skew",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRecord:
    """A cause to plan a group again: active until a tombstone clears it."""

    KIND: ClassVar = "trigger"
    V: ClassVar = 2

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
