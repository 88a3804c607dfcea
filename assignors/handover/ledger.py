"""Planner's ledger of one group: which incarnation may own what, and what is free again.

Each partition goes `FREE → GRANTED(incarnation, grant_epoch) → REVOKING(…, revoke_epoch) → FREE`.

Guarantees: no partition has two owners, whatever the target, the order of acknowledgements and the
planner's restarts. A partition is granted only while FREE. It becomes FREE only when its
incarnation announced `acked_epoch ≥ revoke_epoch > grant_epoch` without it, or left, or was evicted
and the eviction was read back `grant` seconds ago.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from assignors.handover.holding import EMPTY, Holding, Revocation, Traits, recover_holding
from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import MemberAssignment, Tombstone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import MemberRecord

__all__ = ["Incarnation", "Ledger", "RecordChange", "Traits"]

RecordChange: TypeAlias = MemberAssignment | Tombstone


class Incarnation(NamedTuple):
    """One life of a member, by the ids of its instance and of this life.

    The instance outlives its incarnations; ownership does not.
    """

    instance: str
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Holdings and target of one group, by incarnation.

    A ledger is a value: each operation returns another ledger, and a step whose transaction failed
    is simply dropped. Everybody else learns of changes from the records of `next_records`, which
    belong into one transaction: it holds a release beside the grant that it allows. Times are
    seconds of one monotonic clock.
    """

    group: str
    grant: float
    """Seconds between reading back an eviction and freeing its partitions (`Timers.grant`)."""
    epoch: int = 0
    """The highest published epoch; the next one must be higher."""
    holdings: Mapping[Incarnation, Holding]
    """Partitions that each incarnation may be using.

    Invariant: no operation puts a partition into two holdings. Only published records that
    contradict each other can: then both keep it until one gives it up.
    """
    target: Mapping[Incarnation, frozenset[TopicPartition]]
    """Share of each incarnation: the partitions that it is to own.

    Invariant: no partition is in two shares.
    """

    @classmethod
    def empty(cls, *, group: str, grant: float) -> Ledger:
        """The ledger of a group without any plan."""
        return cls(group=group, grant=grant, holdings={}, target={})

    @classmethod
    def recover(
        cls,
        *,
        group: str,
        grant: float,
        group_epoch: int,
        assignments: Iterable[MemberAssignment],
        members: Iterable[MemberRecord],
        now: float,
    ) -> Ledger:
        """Rebuild the ledger from the topics; the target stays that of the previous planner.

        An incarnation whose own record is missing keeps what it was granted until it is evicted: a
        lost topic must not look like a release. Evictions are published again, since nobody knows
        when they were read back.

        Args:
            group: Records of other groups are ignored.
            grant: Seconds between reading back an eviction and freeing its partitions.
            group_epoch: Epoch of the group's own record, which outlives those of its members; 0
                without a record.
            assignments: The newest assignment of each incarnation.
            members: The newest announcement of each incarnation.
            now: The time of recovery; pending revocations count from it.
        """
        holdings: dict[Incarnation, Holding] = {}
        target: dict[Incarnation, frozenset[TopicPartition]] = {}
        announced = [record for record in members if record.group == group]
        epoch = max((group_epoch, *(record.acked_epoch for record in announced)))
        taken: set[TopicPartition] = set()
        for record in sorted(
            (record for record in assignments if record.group == group),
            key=lambda record: record.key[2:],
        ):
            incarnation = Incarnation(record.instance, record.incarnation)
            holdings[incarnation] = recover_holding(record, now)
            epoch = max(epoch, record.member_epoch, record.group_epoch)
            if record.state == "active":
                target[incarnation] = (
                    ranges.pairs(record.assigned) | ranges.pairs(record.pending)
                ) - taken
                taken |= target[incarnation]
        ledger = cls(group=group, grant=grant, epoch=epoch, holdings=holdings, target=target)
        for member in announced:
            ledger = ledger.acknowledge(member)
        return ledger

    def set_target(self, target: Mapping[Incarnation, frozenset[TopicPartition]]) -> Ledger:
        """Aim at another assignment, by incarnation; evicted and departed ones get nothing.

        Raises:
            ValueError: The target gives a partition to two incarnations.
        """
        shares = {
            incarnation: frozenset(share)
            for incarnation, share in target.items()
            if not (
                (holding := self.holdings.get(incarnation)) and (holding.evicted or holding.left)
            )
        }
        duplicates = [
            partition for partition, count in Counter(chain(*shares.values())).items() if count > 1
        ]
        if duplicates:
            raise ValueError(f"a target gives {min(duplicates)} to two members")
        return replace(self, target=shares)

    def acknowledge(self, record: MemberRecord) -> Ledger:
        """Take in a member's announcement."""
        incarnation = Incarnation(record.instance, record.incarnation)
        holding = self.holdings.get(incarnation)
        # An acknowledged epoch that was never published proves nothing.
        if holding is None or record.group != self.group or record.acked_epoch > self.epoch:
            return self
        if record.state == "left" and not record.owned:
            return self.leave(incarnation)
        after = holding.acknowledged(record.acked_epoch, record.owned)
        return self if after is holding else self._with(incarnation, after)

    def leave(self, incarnation: Incarnation) -> Ledger:
        """Free everything that the incarnation held: it announced that it left."""
        holding = self.holdings.get(incarnation)
        return self._without_target(incarnation, holding and replace(holding.freed(), left=True))

    def evict(self, incarnation: Incarnation) -> Ledger:
        """Revoke everything from an incarnation that may be unreachable.

        Its partitions become free only after the eviction was read back and `grant` has passed.
        """
        holding = self.holdings.get(incarnation)
        return self._without_target(
            incarnation, holding and replace(holding, evicted=not holding.left)
        )

    def claim(self, record: MemberRecord, now: float) -> Ledger:
        """Take in an unknown incarnation that announces partitions, and evict it.

        No known record granted them, but records may have been lost, which must not look like a
        release. What the incarnation claims and nobody else holds stays its own until the eviction
        was published, read back and waited out.

        Raises:
            ValueError: The ledger already has the incarnation.
        """
        incarnation = Incarnation(record.instance, record.incarnation)
        if incarnation in self.holdings:
            raise ValueError(f"{incarnation} is in the ledger already")
        claim = ranges.pairs(record.owned) - self.owners().keys()
        # With equal epochs no acknowledgement can end the revocation.
        revoking = dict.fromkeys(claim, Revocation(0, 0, now))
        return self._with(incarnation, Holding(granted={}, revoking=revoking, evicted=True))

    def eviction_read_back(self, incarnation: Incarnation, now: float) -> Ledger:
        """Start the wait: the planner's own reader saw the published eviction.

        Only the first reading counts; does nothing unless an eviction was published.
        """
        holding = self.holdings.get(incarnation)
        if holding is None or holding.free_at is not None:
            return self
        if holding.published is None or holding.published.state != "evicted":
            return self
        return self._with(incarnation, replace(holding, free_at=now + self.grant))

    def tick(self, now: float) -> Ledger:
        """Free the partitions of evictions whose wait has ended."""
        due = {
            incarnation: holding.freed()
            for incarnation, holding in self.holdings.items()
            if holding.free_at is not None and now >= holding.free_at and not holding.gone
        }
        return replace(self, holdings={**self.holdings, **due}) if due else self

    def next_records(
        self,
        *,
        epoch: int,
        planner_epoch: int,
        now: float,
        reason: str = "",
        traits: Mapping[Incarnation, Traits] | None = None,
    ) -> tuple[Ledger, tuple[RecordChange, ...]]:
        """The records to publish at `epoch`, and the ledger once they are committed.

        Nothing is published here. Without any change the ledger and its epoch stay as they are.

        Raises:
            ValueError: `epoch` is not above the ledger's.
        """
        if epoch <= self.epoch:
            raise ValueError(f"epoch {epoch} is not above {self.epoch}")
        owned = self.owners().keys()
        holdings: dict[Incarnation, Holding] = {}
        changes: list[RecordChange] = []
        for incarnation in sorted(self.holdings.keys() | self.target.keys()):
            holding = self.holdings.get(incarnation, EMPTY)
            if holding.gone:
                changes.append(Tombstone(("m", self.group, *incarnation)))
                continue
            share = self.target.get(incarnation, frozenset())
            holding = holding.advance_to(share, share - owned, epoch, now)
            if traits and incarnation in traits:
                holding = replace(holding, traits=traits[incarnation])
            record = self._record(
                incarnation, holding, share, epoch=epoch, planner_epoch=planner_epoch, reason=reason
            )
            if not _same(record, holding.published):
                holding = replace(holding, published=record)
                changes.append(record)
            holdings[incarnation] = holding
        if not changes:
            return self, ()
        return replace(self, epoch=epoch, holdings=holdings), tuple(changes)

    def owners(self) -> dict[TopicPartition, Incarnation]:
        """The incarnation that may be using each partition that is not FREE."""
        return {
            partition: incarnation
            for incarnation, holding in self.holdings.items()
            for partition in chain(holding.granted, holding.revoking)
        }

    def granted(self, incarnation: Incarnation) -> frozenset[TopicPartition]:
        """Partitions that the incarnation may own as of the last published epoch."""
        return frozenset(self.holdings.get(incarnation, EMPTY).granted)

    def overdue(self, now: float, timeout: float) -> frozenset[Incarnation]:
        """Incarnations, not yet evicted, with a revocation older than `timeout` seconds."""
        return frozenset(
            incarnation
            for incarnation, holding in self.holdings.items()
            if not holding.evicted
            and any(now - revocation.since >= timeout for revocation in holding.revoking.values())
        )

    @property
    def settled(self) -> bool:
        """Whether every share is granted and no revocation is pending."""
        return all(
            not holding.revoking
            and not holding.gone
            and holding.granted.keys() == self.target.get(incarnation, frozenset())
            for incarnation, holding in self.holdings.items()
        ) and all(incarnation in self.holdings for incarnation in self.target)

    @property
    def wakes_at(self) -> float | None:
        """Time at which `tick` will next free something; None if never."""
        times = [
            holding.free_at
            for holding in self.holdings.values()
            if holding.free_at is not None and not holding.gone
        ]
        return min(times, default=None)

    def _record(
        self,
        incarnation: Incarnation,
        holding: Holding,
        share: frozenset[TopicPartition],
        *,
        epoch: int,
        planner_epoch: int,
        reason: str,
    ) -> MemberAssignment:
        return MemberAssignment(
            group=self.group,
            instance=incarnation.instance,
            incarnation=incarnation.incarnation,
            planner_epoch=planner_epoch,
            group_epoch=epoch,
            member_epoch=epoch,
            state="evicted" if holding.evicted else "active",
            assigned=ranges.by_topic(holding.granted),
            pending=ranges.by_topic(share - holding.granted.keys()),
            revoking=ranges.by_topic(holding.revoking),
            rack=holding.traits.rack,
            capacity=holding.traits.capacity,
            reason=reason,
        )

    def _with(self, incarnation: Incarnation, holding: Holding) -> Ledger:
        return replace(self, holdings={**self.holdings, incarnation: holding})

    def _without_target(self, incarnation: Incarnation, holding: Holding | None) -> Ledger:
        ledger = self if holding is None else self._with(incarnation, holding)
        if incarnation not in self.target:
            return ledger
        return replace(
            ledger,
            target={other: share for other, share in self.target.items() if other != incarnation},
        )


def _same(record: MemberAssignment, published: MemberAssignment | None) -> bool:
    # Epochs and the reason describe a change; alone they are not one.
    return published is not None and record == replace(
        published,
        planner_epoch=record.planner_epoch,
        group_epoch=record.group_epoch,
        member_epoch=record.member_epoch,
        reason=record.reason,
    )
