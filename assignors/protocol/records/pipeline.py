"""Records that the pipeline writes: lag, triggers and what it could not read."""

# ruff: noqa: D102 - key, value and read are the same three of every record: its key, its JSON, and the way back.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from assignors.protocol.partition_ranges import WireError
from assignors.protocol.records.copied import CopiedRecord, read_original
from assignors.protocol.records.metadata import same_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.json_fields import Fields
    from assignors.protocol.records.metadata import Key

EndKind: TypeAlias = Literal["stable", "high"]
TriggerKind: TypeAlias = Literal["racks", "skew"]
OptionalFloats: TypeAlias = "tuple[float | None, ...]"
"""By partition."""

EXACT_INTEGERS_BELOW = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRecord:
    """A group's lag in a topic, true at `at`; the lists but `stale`, `seconds_lower_bound` and `members` are indexed by partition."""

    KIND: ClassVar = "lag"
    V: ClassVar = 2

    group: str
    topic: str
    at: int
    id: str
    end_kind: EndKind
    committed: tuple[int, ...]
    """-1: none."""
    committed_at: tuple[int, ...]
    """-1: none."""
    begin: tuple[int, ...]
    end: tuple[int, ...]
    lag: tuple[int, ...]
    lost: tuple[int, ...]
    stale: tuple[int, ...]
    """The partitions whose commit is beyond the sampled end."""
    racks: tuple[tuple[str, ...], ...]
    source: Mapping[str, int]
    """By "topic/partition" of the input, the offset up to which it was read."""
    rate: OptionalFloats | None = None
    """Records that arrive a second, over the last minute; None where there is nothing yet to compare with."""
    velocity: OptionalFloats | None = None
    """Offsets that the group commits its way forward a second, over the same minute."""
    seconds: OptionalFloats | None = None
    """For how long, at `at`, the next record to be read has been there; 0 without lag."""
    seconds_lower_bound: tuple[int, ...] = ()
    """The partitions whose `seconds` go back beyond what is remembered: it is so many at least."""
    end_read_at: tuple[int, ...] | None = None
    """When each end was last read, -1: never; None: each at `at`."""
    data_end: tuple[int, ...] | None = None
    """Where the records end that are to be read, if that is known to be before the end, where only markers and aborted
    transactions follow: the lag ends there; -1: at the end."""
    members: tuple[str, ...] = ()
    """Those that own some of the partitions, and"""
    owner: tuple[int, ...] | None = None
    """which of them owns each, -1: nobody; None: nobody owns any, as far as is known."""
    local: tuple[bool | None, ...] | None = None
    """Whether the owner's rack holds a replica; None where it has none, or racks are not known."""

    @property
    def key(self) -> Key:
        return ("lag", self.group, self.topic)

    def value(self) -> dict[str, object]:
        figures = {"rate": self.rate, "velocity": self.velocity, "seconds": self.seconds}
        optional: dict[str, object] = {
            name: [_short(figure) for figure in column]
            for name, column in figures.items()
            if column is not None
        }
        if self.seconds_lower_bound:
            optional["seconds_lower_bound"] = self.seconds_lower_bound
        if self.end_read_at is not None:
            optional["end_read_at"] = self.end_read_at
        if self.data_end is not None:
            optional["data_end"] = self.data_end
        if self.owner is not None:
            optional |= {"members": self.members, "owner": self.owner}
        if self.local is not None:
            optional["local"] = self.local
        return optional | {
            "v": self.V,
            "at": self.at,
            "id": self.id,
            "end_kind": self.end_kind,
            "committed": self.committed,
            "committed_at": self.committed_at,
            "begin": self.begin,
            "end": self.end,
            "lag": self.lag,
            "lost": self.lost,
            "stale": self.stale,
            "racks": self.racks,
            "source": dict(self.source),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> LagRecord:
        _, group, topic = key
        record = cls(
            group=str(group),
            topic=str(topic),
            at=fields.integer("at"),
            id=fields.text("id"),
            end_kind=fields.one_of("end_kind", ("stable", "high")),
            committed=fields.integers("committed", low=-1),
            committed_at=fields.integers("committed_at", low=-1),
            begin=fields.integers("begin", low=-1),
            end=fields.integers("end", low=-1),
            lag=fields.integers("lag"),
            lost=fields.integers("lost"),
            stale=fields.integers("stale"),
            racks=fields.text_lists("racks"),
            source=fields.counts("source", low=-1),
            rate=fields.optional_numbers("rate"),
            velocity=fields.optional_numbers("velocity"),
            seconds=fields.optional_numbers("seconds"),
            seconds_lower_bound=fields.optional_integers("seconds_lower_bound") or (),
            end_read_at=fields.optional_integers("end_read_at", low=-1),
            data_end=fields.optional_integers("data_end", low=-1),
            members=fields.optional_texts("members") or (),
            owner=fields.optional_integers("owner", low=-1) if fields.has("members") else None,
            local=fields.optional_flags("local"),
        )
        if max(record.owner or (), default=-1) >= len(record.members):
            raise WireError("owner: a number that is not in members")
        optional: dict[str, tuple[object, ...] | None] = {
            "rate": record.rate,
            "velocity": record.velocity,
            "seconds": record.seconds,
            "end_read_at": record.end_read_at,
            "data_end": record.data_end,
            "owner": record.owner,
            "local": record.local,
        }
        same_length(
            committed=record.committed,
            committed_at=record.committed_at,
            begin=record.begin,
            end=record.end,
            lag=record.lag,
            lost=record.lost,
            racks=record.racks,
            **{name: column for name, column in optional.items() if column is not None},
        )
        return record


def _short(figure: float | None) -> float | None:
    """Whole numbers without their ".0": most are 0."""
    return (
        int(figure)
        if figure is not None and abs(figure) < EXACT_INTEGERS_BELOW and figure.is_integer()
        else figure
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RackChange:
    """A partition's set of replica racks at the last plan, and now."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksEvidence:
    """Which partitions' replica racks differ from those of the last plan."""

    topics: Mapping[str, Mapping[int, RackChange]]

    @property
    def partitions(self) -> int:
        """How many partitions changed."""
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
    """How unevenly a group's lag lay on its members."""

    skew: float
    threshold: float
    lag: int
    floor: int
    members: Mapping[str, int]
    """Lag by instance."""
    seconds: float | None = None
    """For how long the record has been there that has waited longest, and"""
    floor_seconds: float | None = None
    """from when that counts, however small the lag is; None: not said."""

    def value(self) -> dict[str, object]:
        optional = {"seconds": self.seconds, "floor_seconds": self.floor_seconds}
        return {name: _short(figure) for name, figure in optional.items() if figure is not None} | {
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
    """A cause to plan a group anew: it stands while the cause stands, and ends with a tombstone."""

    KIND: ClassVar = "trigger"
    V: ClassVar = 1

    group: str
    at: int
    since: int
    evidence: RacksEvidence | SkewEvidence
    source: Mapping[str, int]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(CopiedRecord):
    """A record of some topic that could not be read, kept whole, with the reason."""

    KIND: ClassVar = "dead_letter"
    V: ClassVar = 1

    at: int
    reason: str

    def value(self) -> dict[str, object]:
        return {"v": self.V, "at": self.at, "reason": self.reason, **self.original_value()}

    @classmethod
    def read(cls, key: Key, fields: Fields) -> DeadLetter:
        return cls(
            at=fields.integer("at"),
            reason=fields.text("reason"),
            **read_original(key, fields),
        )
