"""State of a member in the hand-over: profile, phase, work in progress and lease. Pure.

`member_machine.step` changes it.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from levelwind.assignors.handover.lease import Lease
from levelwind.assignors.handover.member_events import PartitionSet
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import MemberAssignment, MemberRecord, Nack

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Key, MemberState


class Phase(StrEnum):
    """State of a member in the hand-over."""

    JOINING = "joining"
    """The member is announced and has no assignment yet."""
    ACTIVE = "active"
    """The member follows its assignment."""
    REVOKING = "revoking"
    """The member gives up some partitions; the others continue."""
    SUSPENDED = "suspended"
    """Its lease is nearly over: the member delivers and commits nothing until it is renewed."""
    LOST = "lost"
    """Its partitions may have another owner: the member drops them all, then joins again."""
    LEFT = "left"
    """The member gave up everything and will not join again."""


# Work in progress.


class Revoking(Struct, frozen=True):
    """The member waits for `RevokeFinished`."""

    partitions: PartitionSet
    record: MemberAssignment | None
    """The record that is being applied; None when the member leaves."""


class Granting(Struct, frozen=True):
    """The member waits for `GrantFinished` or `GrantFailed`."""

    partitions: PartitionSet


class Losing(Struct, frozen=True):
    """The member waits for `LoseFinished`."""

    commit_undecided: bool
    """Whether a commit of the interrupted revocation may still arrive."""


Work: TypeAlias = Revoking | Granting | Losing


class MemberProfile(Struct, frozen=True, kw_only=True):
    """Properties that a member announces in each of its lives; see `MemberRecord`."""

    group: str
    instance: str
    topics: tuple[str, ...]
    rack: str | None = None
    priority: int = 0
    capacity: float = 1.0
    client: str = "?"
    client_version: str = "?"
    features: tuple[str, ...] = ()
    max_poll_interval: float = 300.0
    """Longest time in seconds that the application may stay away from `poll`."""
    transactional_id: str | None = None
    """Transactional id of its commits; None if they are not transactional."""
    pattern: str | None = None
    """Pattern of further topics; None without."""


class MemberMachine(Struct, frozen=True, kw_only=True):
    """State of one member in one life."""

    profile: MemberProfile
    timers: Timers
    incarnation: str
    phase: Phase = Phase.JOINING
    owned: PartitionSet = frozenset()
    """Everything that the member may be using."""
    newest_epochs: tuple[int, int] = (0, 0)
    """(planner_epoch, member_epoch) of the newest record received; it never decreases."""
    acked_epochs: tuple[int, int] = (0, 0)
    """(planner_epoch, member_epoch) of the last record applied; zeros before the first."""
    waiting: MemberAssignment | None = None
    """The newest record, while an older one is still being applied or the lease covers no grant."""
    work: Work | None = None
    """Work that the member waits for before it applies another record."""
    leaving: bool = False
    """Whether the application asked to leave."""
    nack: Nack | None = None
    """The last record that could not be applied; cleared by the next one."""
    unreadable: bool = False
    """Whether a record about this life could not be decoded, and no newer one followed. It might
    have been an eviction, so that no read renews the lease."""
    unreadable_since: float = 0.0
    """Time at which the first of them was rejected; means nothing without `unreadable`."""
    lease: Lease
    """How long the member may use its partitions."""
    heartbeat: int = 0
    """Number of announcements in this life."""
    announced_at: float | None = None
    """Time of the last announcement; None before the first."""

    @classmethod
    def create(cls, *, profile: MemberProfile, timers: Timers, incarnation: str) -> MemberMachine:
        """The machine at the beginning of a life."""
        lease = Lease(hold=timers.hold, guard=timers.guard)
        return cls(profile=profile, timers=timers, incarnation=incarnation, lease=lease)

    @property
    def key(self) -> Key:
        """Key of this life's records."""
        return ("m", self.profile.group, self.profile.instance, self.incarnation)

    @property
    def acked_epoch(self) -> int:
        """`member_epoch` of the last record applied; 0 before the first."""
        return self.acked_epochs[1]

    @property
    def grant_superseded(self) -> bool:
        """Whether a newer record takes back partitions that are being started, or all are left."""
        if not isinstance(self.work, Granting):
            return False
        return self.leaving or (
            self.waiting is not None
            and not self.work.partitions <= ranges.pairs(self.waiting.assigned)
        )

    def phase_at(self, now: float) -> Phase:
        """The phase, with regard to the lease: SUSPENDED near its end, LOST past it."""
        if self.phase in (Phase.LOST, Phase.LEFT) or not self.lease.begun:
            return self.phase
        if not self.lease.valid(now):
            return Phase.LOST
        return self.phase if self.lease.deliverable(now) else Phase.SUSPENDED

    def record(self, state: MemberState) -> MemberRecord:
        """The announcement that describes the member now."""
        return MemberRecord(
            group=self.profile.group,
            instance=self.profile.instance,
            incarnation=self.incarnation,
            client=self.profile.client,
            client_version=self.profile.client_version,
            topics=self.profile.topics,
            rack=self.profile.rack,
            priority=self.profile.priority,
            capacity=self.profile.capacity,
            state=state,
            planner_epoch=self.acked_epochs[0],
            acked_epoch=self.acked_epochs[1],
            owned=ranges.by_topic(self.owned),
            starting=ranges.by_topic(
                self.work.partitions if isinstance(self.work, Granting) else frozenset()
            ),
            nack=self.nack,
            features=self.profile.features,
            heartbeat=self.heartbeat,
            hold_ms=_milliseconds(self.timers.hold),
            commit_ms=_milliseconds(self.timers.commit),
            max_poll_interval_ms=_milliseconds(self.profile.max_poll_interval),
            transactional_id=self.profile.transactional_id,
            pattern=self.profile.pattern,
        )


def _milliseconds(seconds: float) -> int:
    # Rounded up: the planner must never count on less than the member takes.
    return math.ceil(seconds * 1000)
