"""Partitions that one incarnation may be using: granted, or revoked and not yet given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol import transactional_ids
from levelwind.assignors.protocol.partition_ranges import TopicPartition
from levelwind.assignors.protocol.patterns.topic_pattern import pattern_refusal
from levelwind.assignors.protocol.records import MemberAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.assignors.protocol.records import MemberRecord
    from levelwind.assignors.protocol.records.planner import AssignmentState


class Traits(NamedTuple):
    """Properties of a member that are published with its assignment.

    `capacity` is relative to the other members.
    """

    rack: str | None
    capacity: float


UNKNOWN_TRAITS = Traits(rack=None, capacity=1.0)


class Waits(NamedTuple):
    """The planner's waits for one incarnation, in seconds."""

    grant: float
    """From reading back the eviction to freeing the partitions."""
    patience: float
    """For giving up what was revoked, and for starting what was granted."""
    transactional_id: str | None = None
    """Transactional id of the member's commits, which the brokers can refuse; None without."""

    @classmethod
    def of(cls, record: MemberRecord, timers: Timers) -> Waits:
        """The waits that a member's own timers ask for, and at least the planner's."""
        hold, commit = record.hold_ms / 1000, record.commit_ms / 1000
        own = record.transactional_id
        # Whoever initialises an id ends the producer that uses it. An announcement must not make
        # the planner end its own, or that of another member.
        if own is not None:
            name = record.group, record.instance
            forms = transactional_ids.of_member("", *name), transactional_ids.former("", *name)
            own = own if own.endswith(forms) else None
        return cls(
            grant=timers.grant_for(hold=hold, commit=commit, fenced=own is not None),
            patience=timers.revoke_patience(record.max_poll_interval_ms / 1000, commit),
            transactional_id=own,
        )

    def refusal(self, timers: Timers) -> str:
        """Why the planner cannot serve the member; empty if it can."""
        if self.grant <= timers.longest_grant:
            return ""
        return f"its hold and commit need a grant wait of {self.grant:g} s: timers.longest_grant"

    @classmethod
    def default(cls, timers: Timers) -> Waits:
        """The waits for an incarnation whose announcement is not known."""
        return cls(grant=timers.grant, patience=timers.revoke_timeout)


class Revocation(NamedTuple):
    """A grant that the planner took back and the member has not given up yet.

    `since` is the time of the revocation, in the readable seconds of `PlannerTime`.
    """

    grant_epoch: int
    revoke_epoch: int
    since: float

    def ended_by(self, acked_epoch: int) -> bool:
        """Whether an announcement at this epoch, without the partition, proves the grant over."""
        return acked_epoch >= self.revoke_epoch > self.grant_epoch


class Serving(NamedTuple):
    """Standing of a member that is granted what its share says."""


class Refused(NamedTuple):
    """Standing of a member that the planner cannot serve, and grants nothing."""

    reason: str


class Evicted(NamedTuple):
    """Standing of a life from which the planner took everything back without its consent."""

    at: float
    """Readable time of the eviction."""
    read_at: float
    """Boot seconds at which anything of the life was last read, and at least the time of its
    eviction."""
    refusal: str = ""
    """Why it could not be served before; empty if it could."""
    free_at: float | None = None
    """When the wait after the eviction was read back ends; None before that."""
    fencing: Literal["unasked", "asked", "done"] = "unasked"
    """Whether the brokers were asked to refuse its transactional commits, and whether they do."""


class Departed(NamedTuple):
    """Standing of a life that announced that it gave up everything."""


Standing: TypeAlias = Serving | Refused | Evicted | Departed
SERVING, DEPARTED = Serving(), Departed()


def standing_by(refusal: str) -> Standing:
    """The standing of a live member, by why it cannot be served; empty if it can."""
    return Refused(refusal) if refusal else SERVING


class Holding(Struct, frozen=True, kw_only=True):
    """Partitions that one incarnation may be using, and the last record published about it."""

    waits: Waits
    """Waits by the incarnation's own timers."""
    granted: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Grant epoch of each partition that the incarnation owns by the newest epoch."""
    starting: Mapping[TopicPartition, float] = field(default_factory=dict)
    """Readable time of the grant of each granted partition that the incarnation is not known to
    have started. Invariant: all of them are in `granted`."""
    revoking: Mapping[TopicPartition, Revocation] = field(default_factory=dict)
    """Partitions that the incarnation must give up. Invariant: none of them is in `granted`."""
    acked_epoch: int = 0
    """The highest epoch that the incarnation acknowledged."""
    progress_at: float = float("-inf")
    """Readable time of the last announcement that acknowledged more than the ones before."""
    traits: Traits = UNKNOWN_TRAITS
    published: MemberAssignment | None = None
    """The last published record; None before the first, and for a recovered eviction."""
    standing: Standing = SERVING
    """How the planner stands to the incarnation."""
    holds_on_at: float = float("-inf")
    """Readable time at which it was last logged that an incarnation goes on that may not."""

    @property
    def eviction(self) -> Evicted | None:
        """The eviction of the incarnation; None if it was not evicted."""
        return self.standing if isinstance(self.standing, Evicted) else None

    @property
    def evicted(self) -> bool:
        """Whether the planner took everything back without the member's consent."""
        return isinstance(self.standing, Evicted)

    @property
    def left(self) -> bool:
        """Whether the incarnation announced that it gave up everything."""
        return isinstance(self.standing, Departed)

    @property
    def refused(self) -> str:
        """Why the planner cannot serve the member; empty: it can."""
        match self.standing:
            case Refused(reason=reason) | Evicted(refusal=reason):
                return reason
            case _:
                return ""

    @property
    def gone(self) -> bool:
        """Whether only the published record is left, to be ended with a tombstone."""
        return self.left or (self.evicted and not self.granted and not self.revoking)

    @property
    def state(self) -> AssignmentState:
        """The state that the published record has."""
        return "evicted" if self.evicted else "refused" if self.refused else "active"

    def describes(self, record: MemberAssignment) -> bool:
        """Whether the last published record says the same.

        Epochs, the reason and what is new describe a change; alone they are not one.
        """
        return self.published is not None and record == replace(
            self.published,
            planner_epoch=record.planner_epoch,
            group_epoch=record.group_epoch,
            member_epoch=record.member_epoch,
            reason=record.reason,
            new_from=record.new_from,
        )

    def waited_out(self, now: float, read_until: float) -> bool:
        """Whether the wait after an eviction is over, apart from the fencing of commits.

        It takes two conditions: `waits.grant` has passed since the eviction was read back, and
        `silence_confirmed`.
        """
        eviction = self.eviction
        if eviction is None or eviction.free_at is None or self.gone:
            return False
        return now >= eviction.free_at and self.silence_confirmed(read_until)

    def silence_confirmed(self, read_until: float) -> bool:
        """Whether nothing of the incarnation was written for `waits.grant`.

        A member that does not read its eviction renews its lease by nothing but announcements that
        the planner reads too. The clocks of no other machine come into it.
        """
        return read_until >= self.silence_confirmed_at

    @property
    def silence_confirmed_at(self) -> float:
        """Boot seconds up to which all announcements must have been handled for that."""
        eviction = self.eviction
        return float("inf") if eviction is None else eviction.read_at + self.waits.grant

    @property
    def unfenced(self) -> bool:
        """Whether commits of the incarnation could still be accepted by the brokers."""
        fenced = self.eviction is not None and self.eviction.fencing == "done"
        return self.waits.transactional_id is not None and not fenced

    def freed(self) -> Holding:
        """The holding without any partition."""
        return replace(self, granted={}, starting={}, revoking={})

    def revoked(self, partitions: Iterable[TopicPartition], epoch: int, since: float) -> Holding:
        """The holding after granted partitions were taken back at `epoch`."""
        lost = set(partitions)
        revocations = {p: Revocation(self.granted[p], epoch, since) for p in lost}
        return replace(
            self,
            granted={p: granted_at for p, granted_at in self.granted.items() if p not in lost},
            starting={p: at for p, at in self.starting.items() if p not in lost},
            revoking={**self.revoking, **revocations},
        )

    def claims(self, record: MemberRecord) -> frozenset[TopicPartition]:
        """Partitions that the incarnation announces and no record gives to it."""
        owned = ranges.pairs(record.owned)
        return owned - self.granted.keys() - self.revoking.keys()

    def claimed(self, partitions: Iterable[TopicPartition], epoch: int, since: float) -> Holding:
        """The holding with partitions that the incarnation claims, to be given up.

        The record of `epoch`, the next one, tells the member to; acknowledging it frees them.
        """
        claims = {p: Revocation(epoch - 1, epoch, since) for p in partitions}
        return replace(self, revoking={**self.revoking, **claims})

    def acknowledged(self, record: MemberRecord, readable: float) -> Holding:
        """The holding after the incarnation announced what it owns and what it has started."""
        owned = ranges.pairs(record.owned)
        revoking = {
            partition: revocation
            for partition, revocation in self.revoking.items()
            if partition in owned or not revocation.ended_by(record.acked_epoch)
        }
        current = {p for p, granted_at in self.granted.items() if granted_at <= record.acked_epoch}
        unstarted = (current - owned) | (current & ranges.pairs(record.starting))
        # A partition that the incarnation had started and gives back is to be started again.
        starting = {
            partition: self.starting.get(partition, readable)
            for partition in self.granted
            if partition in unstarted or (partition in self.starting and partition not in current)
        }
        if (
            len(revoking) == len(self.revoking)
            and starting.keys() == self.starting.keys()
            and record.acked_epoch <= self.acked_epoch
        ):
            return self
        return replace(
            self,
            revoking=revoking,
            starting=starting,
            acked_epoch=max(self.acked_epoch, record.acked_epoch),
            progress_at=readable,
        )

    def advance_to(
        self,
        share: frozenset[TopicPartition],
        free: frozenset[TopicPartition],
        epoch: int,
        readable: float,
    ) -> Holding:
        """The holding as of `epoch`.

        The incarnation keeps granted partitions of its `share`, must give up the others, and gets
        the `free` ones: those of its share that nobody holds.
        """
        lost = self.granted.keys() - share
        if not lost and not free:
            return self
        after = self.revoked(lost, epoch, readable) if lost else self
        return replace(
            after,
            granted={**dict.fromkeys(free, epoch), **after.granted},
            starting={**dict.fromkeys(free, readable), **after.starting},
        )

    def revocation_overdue(self, readable: float) -> bool:
        """Whether the incarnation keeps for too long what it must give up.

        The patience begins again with each announcement that makes progress: a member that works
        off its records one after another is not stuck.
        """
        since = min((revocation.since for revocation in self.revoking.values()), default=readable)
        return readable - max(since, self.progress_at) >= self.waits.patience

    def start_overdue(self, readable: float) -> frozenset[TopicPartition]:
        """Granted partitions that the incarnation has not started for too long."""
        patience = self.waits.patience
        return frozenset(
            partition
            for partition, since in self.starting.items()
            if readable - max(since, self.progress_at) >= patience
        )

    @property
    def overdue_at(self) -> float:
        """Readable time from which a revocation or a start is overdue; infinite without any."""
        since = [revocation.since for revocation in self.revoking.values()]
        begun = min([*since, *self.starting.values()], default=float("inf"))
        return max(begun, self.progress_at) + self.waits.patience

    def start_failed(self, record: MemberRecord) -> frozenset[TopicPartition]:
        """Granted partitions that the incarnation announces that it could not start."""
        if record.nack is None or record.nack.code != "start-failed":
            return frozenset()
        return frozenset(
            partition
            for partition in self.starting.keys() - ranges.pairs(record.owned)
            if record.acked_epoch >= self.granted[partition]
        )


def refusal_of(record: MemberRecord, timers: Timers) -> str:
    """Why the planner cannot serve a member that announces this; empty if it can."""
    return Waits.of(record, timers).refusal(timers) or pattern_refusal(record.pattern)


def recover_holding(
    record: MemberAssignment, waits: Waits, time: PlannerTime, refusal: str, lost_epoch: int = 0
) -> Holding:
    """The holding that a published record describes.

    What is to be given up ends by another acknowledgement than before in two cases. An evicted life
    applies no record any more, so none of its acknowledgements is an answer. A life that has
    acknowledged a record which is lost may start what that one granted: it must answer a new one.

    Args:
        record: the record.
        waits: the waits for its incarnation.
        time: the time of recovery.
        refusal: why a live member cannot be served now; empty if it can.
        lost_epoch: the epoch that the incarnation acknowledged if that record is lost, else 0.
    """
    evicted = record.state == "evicted"
    granted = ranges.pairs(record.assigned)
    # The record has no epochs of single partitions. Its own epoch is at or above each of them, and
    # an acknowledgement of it proves what acknowledgements of theirs would.
    epoch = record.member_epoch
    revoke_epoch = lost_epoch + 1 if lost_epoch else epoch
    # With equal epochs no acknowledgement can end the revocation.
    grant_epoch = revoke_epoch if evicted else revoke_epoch - 1
    revocation = Revocation(grant_epoch, revoke_epoch, time.readable)
    return Holding(
        waits=waits,
        granted=dict.fromkeys(granted, epoch),
        starting=dict.fromkeys(granted, time.readable),
        revoking=dict.fromkeys(ranges.pairs(record.revoking), revocation),
        traits=Traits(record.rack, record.capacity),
        published=None if evicted or lost_epoch else record,
        standing=Evicted(time.readable, time.now) if evicted else standing_by(refusal),
    )
