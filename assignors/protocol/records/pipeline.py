"""Records that the pipeline writes: lag, speeds of members and dead letters; see also `trigger`."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from levelwind.assignors.problem.columns import LEAST_FIGURE, MOST_FIGURE
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records.copied import CopiedRecord, read_original
from levelwind.assignors.protocol.records.metadata import require_same_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

EndKind: TypeAlias = Literal["stable", "high"]
OptionalFloats: TypeAlias = "tuple[float | None, ...]"
"""Numbers by partition; None where a partition has no value."""

EXACT_INTEGERS_BELOW = 2.0**53
"""Below it a float represents every integer exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRecord:
    """A group's lag in a topic at one time.

    Lists are indexed by partition, except for `stale`, `reset`, `lag_upper_bound`,
    `seconds_lower_bound` and those of members. Offsets are next offsets: of the record to be read
    or written next.
    """

    KIND: ClassVar = "lag"
    V: ClassVar = 2

    group: str
    topic: str
    at: int
    """Time at which the lag holds, in milliseconds since the epoch."""
    id: str
    """Kafka's topic id, which a topic recreated under the same name does not share."""
    end_kind: EndKind
    """Offset that `end` samples: the last stable offset or the high watermark."""
    committed: tuple[int, ...]
    """Committed offset of each partition; -1 without a commit."""
    committed_at: tuple[int, ...]
    """Time of each commit in milliseconds since the epoch; -1 without a commit."""
    begin: tuple[int, ...]
    """Log start offset of each partition; -1 where unknown."""
    end: tuple[int, ...]
    """End of each partition, as `end_kind` defines it; -1 where unknown."""
    lag: tuple[int, ...]
    """Offsets between the commit and the end of each partition; 0 also where it is not known."""
    lag_upper_bound: tuple[int, ...] = ()
    """Partitions whose lag may count offsets without a record: control or aborted records."""
    lost: tuple[int, ...]
    """Offsets of each partition that were deleted before the group read them."""
    stale: tuple[int, ...]
    """Partitions whose commit is beyond the sampled end, which is too old for it."""
    racks: tuple[tuple[str, ...], ...]
    """Racks of each partition's replicas."""
    source: Mapping[str, int]
    """Offset up to which each input partition was read, by "topic/partition"."""
    rate: OptionalFloats | None = None
    """Records that usually arrive per second, over the last minute: a burst counts little.

    None for a partition, or for all, as long as there is no earlier sample to compare with.
    """
    velocity: OptionalFloats | None = None
    """Offsets per second by which the group's commits advance, over one to two minutes."""
    seconds: OptionalFloats | None = None
    """Seconds for which the next record to be read has been waiting at `at`; 0 without lag."""
    seconds_lower_bound: tuple[int, ...] = ()
    """Partitions whose `seconds` is only a lower bound: the wait began before the known history."""
    end_read_at: tuple[int, ...] | None = None
    """Time at which each end was last read, in milliseconds since the epoch; -1 for never.

    None if every end was read at `at`.
    """
    reset: tuple[int, ...] = ()
    """Partitions whose commit is beyond the log: their readers begin again by the reset policy."""
    unclaimed: tuple[int, ...] | None = None
    """Records that a reader would find in each partition that nobody claims; its lag is 0.

    A reader begins at the commit, or else by the reset policy. -1 where the partition is claimed;
    None if all are. Members whose subscriptions are known claim all partitions of the topics that
    they subscribe to, and otherwise what they own. Else a commit, an owner or a plan claims.
    """
    data_end: tuple[int, ...] | None = None
    """Offset behind the last record to be read, where it is known to be below the end.

    Only markers and aborted transactions follow, so the lag ends there. -1 where the records end at
    the end; None if they do in every partition.
    """
    members: tuple[str, ...] = ()
    """Instances that own some of the partitions."""
    member_racks: tuple[str | None, ...] | None = None
    """Rack of each of `members`; None if none is known."""
    others: tuple[str, ...] = ()
    """Instances of the group that own nothing of any topic.

    Empty, as `non_readers`, unless it is known what each member subscribes to.
    """
    other_racks: tuple[str | None, ...] | None = None
    """Rack of each of `others`; None if none is known."""
    non_readers: tuple[str, ...] = ()
    """Instances of the group that do not subscribe to the topic; `members` among them are about to
    give up what they own."""
    owner: tuple[int, ...] | None = None
    """Index into `members` of each partition's owner; -1 without an owner.

    None if no owner is known of any partition.
    """
    local: tuple[bool | None, ...] | None = None
    """Whether the owner's rack holds a replica; None without an owner or with unknown racks."""

    @property
    def key(self) -> Key:
        return ("lag", self.group, self.topic)

    @property
    def to_read(self) -> tuple[int, ...]:
        """Records of each partition for a group that reads all: the lag, and what nobody claims.

        Of a partition that nobody claims the lag is 0: the larger of the two is their sum, and has
        the bound of either whoever wrote the record.
        """
        if self.unclaimed is None:
            return self.lag
        return tuple(map(max, self.lag, self.unclaimed))

    @property
    def unclaimed_partitions(self) -> list[int]:
        """Partitions that nobody claims."""
        return [number for number, records in enumerate(self.unclaimed or ()) if records >= 0]

    @property
    def left(self) -> bool:
        """Whether the group has left the topic: it has committed there, and no member reads it."""
        return max(self.committed, default=-1) >= 0 and min(self.unclaimed or (-1,)) >= 0

    @property
    def unknown_partitions(self) -> frozenset[int]:
        """Partitions whose lag is not known, although `lag` holds 0.

        Either the end was never read, or the commit lies beyond an end that is older than the
        sample. What nobody claims is no lag, known or not.
        """
        if not self.stale and min(self.end, default=0) >= 0:
            return frozenset()
        read_at = self.end_read_at
        unread = {number for number, end in enumerate(self.end) if end < 0}
        late = {n for n in self.stale if read_at is not None and read_at[n] != self.at}
        return frozenset((unread | late).difference(self.unclaimed_partitions))

    @property
    def known_lag(self) -> tuple[int | None, ...]:
        """The lag of each partition; None where it is not known."""
        if not (unknown := self.unknown_partitions):
            return self.lag
        return tuple([None if n in unknown else records for n, records in enumerate(self.lag)])

    @property
    def known_end(self) -> tuple[int | None, ...]:
        """The end of each partition as far as it is known; None where it was never read.

        A commit is newer than the sample where it lies beyond the end: the log had reached it, so
        the two are not shown as if of one moment. A commit that is out of range shows nothing.
        """
        if not self.stale and min(self.end, default=0) >= 0:
            return self.end
        reset = frozenset(self.reset)
        return tuple(
            [
                None if end < 0 else end if number in reset else max(end, self.committed[number])
                for number, end in enumerate(self.end)
            ]
        )

    @property
    def known_seconds(self) -> OptionalFloats | None:
        """`seconds`, with None where the lag is not known."""
        if self.seconds is None or not (unknown := self.unknown_partitions):
            return self.seconds
        return tuple([None if n in unknown else wait for n, wait in enumerate(self.seconds)])

    @property
    def longest_wait(self) -> float | None:
        """Largest of the waits that are known; None where none is."""
        return max((wait for wait in self.known_seconds or () if wait is not None), default=None)

    def value(self) -> dict[str, object]:
        figures = {"rate": self.rate, "velocity": self.velocity, "seconds": self.seconds}
        optional: dict[str, object] = {
            name: [short_number(figure) for figure in column]
            for name, column in figures.items()
            if column is not None
        }
        optional |= {name: named for name in UNLESS_EMPTY if (named := getattr(self, name))}
        if self.unclaimed is not None:
            optional["unclaimed"] = self.unclaimed
        if self.end_read_at is not None:
            optional["end_read_at"] = self.end_read_at
        if self.data_end is not None:
            optional["data_end"] = self.data_end
        if self.owner is not None:
            optional |= {"members": self.members, "owner": self.owner}
            if self.member_racks is not None:
                optional["member_racks"] = self.member_racks
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
        # Neither says anything without the other.
        owner = fields.optional_integers("owner", low=-1) if fields.has("members") else None
        others = fields.optional_texts("others") or ()
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
            lag_upper_bound=fields.optional_integers("lag_upper_bound") or (),
            reset=fields.optional_integers("reset") or (),
            unclaimed=fields.optional_integers("unclaimed", low=-1),
            data_end=fields.optional_integers("data_end", low=-1),
            members=() if owner is None else (fields.optional_texts("members") or ()),
            member_racks=None if owner is None else fields.optional_texts_or_nulls("member_racks"),
            owner=owner,
            others=others,
            other_racks=fields.optional_texts_or_nulls("other_racks") if others else None,
            non_readers=fields.optional_texts("non_readers") or (),
            local=fields.optional_flags("local"),
        )
        if max(record.owner or (), default=-1) >= len(record.members):
            raise WireError("owner: an index that is not in members")
        if record.member_racks is not None and len(record.member_racks) != len(record.members):
            raise WireError("member_racks: not as long as members")
        if record.other_racks is not None and len(record.other_racks) != len(record.others):
            raise WireError("other_racks: not as long as others")
        _check_indices(record)
        return record


PARTITION_SETS = ("stale", "reset", "lag_upper_bound", "seconds_lower_bound")
"""Fields of a lag record that name some of its partitions."""
UNLESS_EMPTY = (
    "seconds_lower_bound",
    "lag_upper_bound",
    "reset",
    "others",
    "other_racks",
    "non_readers",
)
"""Fields of a lag record that are left out where they name nothing."""
OF_MEMBERS = ("members", "member_racks", "others", "other_racks", "non_readers")
"""Fields of a lag record that name members, or are indexed by those."""
BY_PARTITION = tuple(
    field.name
    for field in fields(LagRecord)
    if str(field.type).startswith(("tuple[", "OptionalFloats"))
    and field.name not in PARTITION_SETS + OF_MEMBERS
)
"""Fields of a lag record that are indexed by partition: each further list, so that a new one counts
as such unless it is named above."""
_columns, _sets = attrgetter(*BY_PARTITION), attrgetter(*PARTITION_SETS)


def _check_indices(record: LagRecord) -> None:
    """Raise `WireError` unless every column has all partitions, and every set no others."""
    columns, partitions = _columns(record), len(record.lag)
    if any(column is not None and len(column) != partitions for column in columns):
        named = zip(BY_PARTITION, columns, strict=True)
        require_same_length(**{name: column for name, column in named if column is not None})
    for name, numbers in zip(PARTITION_SETS, _sets(record), strict=True):
        if max(numbers, default=-1) >= partitions:
            raise WireError(f"{name}: a partition that is not in the other lists")


def short_number(figure: float | None) -> float | None:
    """Whole numbers as integers, which saves the ".0": most figures are 0."""
    return (
        int(figure)
        if figure is not None and abs(figure) < EXACT_INTEGERS_BELOW and figure.is_integer()
        else figure
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpeed:
    """What is known of how fast a member can consume."""

    speed: float
    """Records a second that the member consumes while it has lag; from 1e-30 to 1e30."""
    sure: float
    """How sure that is, from 0 (a guess) to 1 (much evidence, all of it recent)."""

    def value(self) -> dict[str, object]:
        return {"speed": short_number(self.speed), "sure": short_number(self.sure)}

    @classmethod
    def read(cls, fields: Fields) -> MemberSpeed:
        return cls(
            speed=fields.number("speed", low=LEAST_FIGURE, high=MOST_FIGURE),
            sure=fields.number("sure", low=0.0, high=1.0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRecord:
    """Speeds of a group's members, learned from what they commit while they have lag."""

    KIND: ClassVar = "speed"
    V: ClassVar = 1

    group: str
    at: int
    """Time of the newest sample that the speeds are learned from, in milliseconds since the
    epoch."""
    members: Mapping[str, MemberSpeed]
    """By instance; a member of which nothing was learned is missing."""

    @property
    def key(self) -> Key:
        return ("speed", self.group)

    def value(self) -> dict[str, object]:
        members = {instance: member.value() for instance, member in self.members.items()}
        return {"v": self.V, "at": self.at, "members": members}

    @classmethod
    def read(cls, key: Key, fields: Fields) -> SpeedRecord:
        _, group = key
        return cls(
            group=str(group),
            at=fields.integer("at"),
            members=fields.by_name("members", MemberSpeed.read),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(CopiedRecord):
    """A record of some topic that could not be read, kept whole with the reason."""

    KIND: ClassVar = "dead_letter"
    V: ClassVar = 1

    at: int
    """Timestamp of the record, in milliseconds since the epoch."""
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
