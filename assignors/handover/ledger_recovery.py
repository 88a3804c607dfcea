"""Recovery of a group's ledger from the planner's own records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.assignors.handover.holding import Holding, Waits, recover_holding, refusal_of
from levelwind.assignors.handover.ledger import (
    BELIEVED_EPOCH,
    ENDED_LIVES,
    Incarnation,
    Ledger,
)
from levelwind.assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import MemberAssignment, MemberRecord


def recover_ledger(
    *,
    group: str,
    timers: Timers,
    group_epoch: int,
    assignments: Collection[MemberAssignment],
    members: Iterable[MemberRecord],
    time: PlannerTime,
    ended: Sequence[Incarnation] = (),
) -> Ledger:
    """Rebuild the ledger from the topics; the target stays that of the previous planner.

    The announcements are not taken in: of them come the waits, whether a refused member can be
    served by the timers of this planner (one that was served stays served), and the epochs. The
    ledger's epoch is at or above each that a member acknowledges, also where that record is lost:
    an old acknowledgement must not seem to answer a record of this planner.

    An incarnation whose own record is missing keeps what it was granted until it is evicted: a lost
    topic must not look like a release. Evictions are published again, since nobody knows when they
    were read back.

    Args:
        group: Records of other groups are ignored.
        timers: The planner's timers.
        group_epoch: Epoch of the group's own record, which outlives those of its members; 0 without
            a record.
        assignments: The newest assignment of each incarnation.
        members: The newest announcement of each incarnation.
        time: The time of recovery; pending revocations and evictions count from it.
        ended: Incarnations whose records were taken back, as far as their tombstones are known, the
            oldest first.
    """
    announced = {
        Incarnation(record.instance, record.incarnation): record
        for record in members
        if record.group == group
    }
    own = [record for record in assignments if record.group == group]
    published = max((group_epoch, *(max(r.member_epoch, r.group_epoch) for r in own)))
    acked = {
        incarnation: record.acked_epoch if record.acked_epoch <= BELIEVED_EPOCH else 0
        for incarnation, record in announced.items()
    }
    holdings: dict[Incarnation, Holding] = {}
    target: dict[Incarnation, frozenset[TopicPartition]] = {}
    taken: set[TopicPartition] = set()
    for record in sorted(own, key=lambda record: record.key[2:]):
        incarnation = Incarnation(record.instance, record.incarnation)
        member = announced.get(incarnation)
        waits = Waits.of(member, timers) if member else Waits.default(timers)
        refusal = refusal_of(member, timers) if member and record.state == "refused" else ""
        lost_epoch = acked.get(incarnation, 0)
        holdings[incarnation] = recover_holding(
            record, waits, time, refusal, lost_epoch if lost_epoch > published else 0
        )
        if record.state == "active":
            named = ranges.pairs(record.assigned) | ranges.pairs(record.pending)
            target[incarnation] = named - taken
            taken |= target[incarnation]
    return Ledger(
        group=group,
        timers=timers,
        epoch=max((published, *acked.values())),
        holdings=holdings,
        target=target,
        ended=dict.fromkeys(ended[-ENDED_LIVES:]),
    )
