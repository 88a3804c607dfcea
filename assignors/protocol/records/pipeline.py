"""Records that the pipeline writes: lag, speeds of members and dead letters; see also `trigger`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Struct

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import (
    ByPartition,
    Figures,
    Name,
    Offset,
    Ratio,
    SomePartitions,
    Speed,
    Time,
    Whole,
)
from levelwind.assignors.protocol.declared.marks import Among, Indexed
from levelwind.assignors.protocol.records.copied import CopiedRecord

EndKind: TypeAlias = Literal["stable", "high"]
OptionalFloats: TypeAlias = tuple[float | None, ...]
"""Numbers by partition; None where a partition has no value."""


class LagRecord(Declared, frozen=True, kw_only=True):
    """A group's lag in a topic at one time.

    Lists are indexed by partition, except for `stale`, `reset`, `lag_upper_bound`,
    `seconds_lower_bound` and those of members. Offsets are next offsets: of the record to be read
    or written next.
    """

    KIND: ClassVar = "lag"
    V: ClassVar = 2
    KEY_FIELDS: ClassVar = ("group", "topic")

    group: Name
    topic: Name
    at: Time
    """Time at which the lag holds, in milliseconds since the epoch."""
    id: Name
    """Kafka's topic id, which a topic recreated under the same name does not share."""
    end_kind: EndKind
    """Offset that `end` samples: the last stable offset or the high watermark."""
    committed: ByPartition[Offset]
    """Committed offset of each partition; -1 without one."""
    committed_at: ByPartition[Offset]
    """Time of each commit, in milliseconds since the epoch; -1 without one."""
    begin: ByPartition[Offset]
    """Log start offset of each partition; -1 where unknown."""
    end: ByPartition[Offset]
    """End of each partition, as `end_kind` defines it; -1 where unknown."""
    lag: ByPartition[Whole]
    """Records still to read of each partition; 0 also where that is not known.

    Of a claimed partition without a commit, what the reset policy (`pipeline.reset_policy`,
    `groups.NAME.reset_policy`) lets its reader find: an assumption, since clients tell nobody
    theirs.
    """
    lag_upper_bound: SomePartitions = ()
    """Partitions whose lag may count offsets without a record (control and aborted records), since
    not all of it was examined for `gaps`."""
    lost: ByPartition[Whole]
    """Records of each partition that were deleted before the group read them."""
    stale: SomePartitions
    """Partitions whose commit lies beyond the sampled end, which is too old for it; their `lag` is
    0."""
    racks: ByPartition[tuple[str, ...]]
    """Racks of each partition's replicas."""
    source: Mapping[str, Offset]
    """Offset up to which each input partition was read, by "topic/partition"."""
    rate: Figures | None = None
    """Records that usually arrive a second, over the last minute or since the last change in it.

    A burst counts at most three times the median of its intervals. None for a partition, or for
    all, as long as there is no earlier sample to compare with.
    """
    velocity: Figures | None = None
    """Offsets a second by which the group's commits advance, over the last one to two minutes."""
    seconds: Figures | None = None
    """Seconds for which the next record to be read has been waiting at `at`; 0 without lag."""
    seconds_lower_bound: SomePartitions = ()
    """Partitions whose `seconds` reach beyond the remembered history: the true wait may be
    longer."""
    end_read_at: ByPartition[Offset] | None = None
    """Time at which each end was last read, in milliseconds since the epoch; -1 for never.

    None if every end was read at `at`.
    """
    reset: SomePartitions = ()
    """Partitions whose commit lay beyond the log (its high watermark) already before that was read:
    their readers begin again by the reset policy, and `lag` says with how many records."""
    unclaimed: ByPartition[Offset] | None = None
    """Records that a reader would find in each partition that nobody claims; its lag is 0.

    A reader begins at the commit, or else by the reset policy. -1 where the partition is claimed;
    None if all are. Members whose subscriptions are known claim all partitions of the topics that
    they subscribe to, and otherwise what they own. Else a commit, an owner or a plan claims.
    """
    data_end: ByPartition[Offset] | None = None
    """Offset behind the last record to be read, where it is known to be below the end.

    Only markers and aborted transactions follow, so the lag ends there. -1 where the records end at
    the end; None if they do in every partition.
    """
    members: Annotated[tuple[str, ...], Indexed("members")] = ()
    """Instances that own some of the partitions: of a group that subscribes the `group.instance.id`
    or else the member id."""
    member_racks: Annotated[tuple[Name | None, ...], Indexed("members")] | None = None
    """Rack of each of `members`, None where it has none; None if none is known."""
    others: Annotated[tuple[str, ...], Indexed("others")] = ()
    """Instances of the group that own nothing of any topic.

    Empty, as `non_readers`, unless it is known what each member subscribes to.
    """
    other_racks: Annotated[tuple[Name | None, ...], Indexed("others")] | None = None
    """Rack of each of `others`, None where it has none; None if none is known."""
    non_readers: tuple[str, ...] = ()
    """Instances of the group that do not subscribe to the topic; `members` among them are about to
    give up what they own."""
    owner: Annotated[ByPartition[Offset], Among("members")] | None = None
    """Index into `members` of each partition's owner; -1 without an owner.

    None if no owner is known of any partition.
    """
    local: ByPartition[bool | None] | None = None
    """Whether the owner's rack holds a replica; None without an owner or with unknown racks."""

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
    def total_lag(self) -> int | None:
        """Sum of the lag that is known; None where that of no partition is."""
        known = [records for records in self.known_lag if records is not None]
        return sum(known) if known else None

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

    @property
    def least_waits(self) -> frozenset[int]:
        """Partitions of whose wait only a lower bound is known."""
        if not self.seconds_lower_bound:
            return frozenset()
        waits = enumerate(self.known_seconds or ())
        return frozenset(n for n, wait in waits if wait is not None).intersection(
            self.seconds_lower_bound
        )


class MemberSpeed(Struct, frozen=True, kw_only=True):
    """What is known of how fast a member can consume."""

    speed: Speed
    """Records a second that the member consumes while it has lag; from 1e-30 to 1e30."""
    sure: Ratio
    """How sure that is, from 0 (a guess) to 1 (much evidence, all of it recent)."""


class SpeedRecord(Declared, frozen=True, kw_only=True):
    """Speeds of a group's members, learned from what they commit while they have lag."""

    KIND: ClassVar = "speed"
    KEY_FIELDS: ClassVar = ("group",)

    group: Name
    at: Time
    """Time of the newest sample that the speeds are learned from, in milliseconds since the
    epoch."""
    members: Mapping[str, MemberSpeed]
    """By instance; a member of which nothing was learned is missing."""


class DeadLetter(CopiedRecord, frozen=True, kw_only=True):
    """A record of some topic that could not be read, kept whole with the reason."""

    KIND: ClassVar = "dead_letter"

    at: Whole
    """Timestamp of the record, in milliseconds since the epoch."""
    reason: Name
