"""Planner's ledger of one group: which incarnation may own what, and what is free again.

Each partition goes `FREE → GRANTED(incarnation, grant_epoch) → REVOKING(…, revoke_epoch) → FREE`.

Guarantees: no partition has two owners, whatever the target, the order of acknowledgements and the
planner's restarts. A partition is granted only while FREE. It becomes FREE only when its
incarnation announced `acked_epoch ≥ revoke_epoch > grant_epoch` without it, or left, or was evicted
and waited out: the eviction was read back `grant` seconds ago, nothing of the incarnation was
written for as long, and the brokers refuse its commits where they are transactional.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.assignors.handover.holding import (
    DEPARTED,
    Evicted,
    Holding,
    Revocation,
    Traits,
    Waits,
    refusal_of,
    standing_by,
)
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.declared.fields import LAST_EPOCH
from levelwind.assignors.protocol.partition_ranges import TopicPartition
from levelwind.assignors.protocol.records import MemberAssignment, Tombstone

if TYPE_CHECKING:
    from collections.abc import Collection

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.protocol.records import MemberRecord

__all__ = ["BELIEVED_EPOCH", "Incarnation", "Ledger", "RecordChange"]

RecordChange: TypeAlias = MemberAssignment | Tombstone

BELIEVED_EPOCH = LAST_EPOCH // 2
"""The highest acknowledged epoch that raises the ledger's: no group gets this far, and an
announcement that claims more must not push the group's epochs to their end."""

ENDED_LIVES = 1_000
"""Number of ended incarnations that a ledger remembers."""


class Incarnation(NamedTuple):
    """One life of a member, by the ids of its instance and of this life.

    The instance outlives its incarnations; ownership does not.
    """

    instance: str
    incarnation: str


class Ledger(Struct, frozen=True, kw_only=True):
    """Holdings and target of one group, by incarnation.

    A ledger is a value: each operation returns another ledger, and a step whose transaction failed
    is simply dropped. Everybody else learns of changes from the records of `next_records`, which
    belong into one transaction: it holds a release beside the grant that it allows.
    """

    group: str
    timers: Timers
    """The planner's timers; a member's own may ask for longer waits."""
    epoch: int = 0
    """The highest published epoch; the next one must be higher."""
    holdings: Mapping[Incarnation, Holding] = field(default_factory=dict)
    """Partitions that each incarnation may be using.

    Invariant: no grant puts a partition into two holdings. Published records that contradict each
    other can, and a member that claims what another one holds: then both keep it until one gives it
    up.
    """
    target: Mapping[Incarnation, frozenset[TopicPartition]] = field(default_factory=dict)
    """Share of each incarnation: the partitions that it is to own.

    Invariant: no partition is in two shares.
    """
    new_from: Mapping[str, int] = field(default_factory=dict)
    """By topic, the first partition that did not exist when the group's plans began to cover it."""
    ended: Mapping[Incarnation, None] = field(default_factory=dict)
    """The last `ENDED_LIVES` incarnations whose records were taken back, the oldest first: none of
    them becomes a member again, whatever of it is read later."""

    @classmethod
    def empty(cls, *, group: str, timers: Timers) -> Ledger:
        """The ledger of a group without any plan."""
        return cls(group=group, timers=timers)

    # Members.

    def join(self, record: MemberRecord) -> Ledger:
        """Take in the first announcement of an incarnation that owns nothing.

        It may have acknowledged epochs of a planner whose records are lost. Its grants must lie
        above them, or its old acknowledgement would seem to be one of theirs.
        """
        incarnation = Incarnation(record.instance, record.incarnation)
        if incarnation in self.holdings:
            return self
        standing = standing_by(refusal_of(record, self.timers))
        traits = Traits(record.rack, record.capacity)
        holding = Holding(waits=Waits.of(record, self.timers), standing=standing, traits=traits)
        epoch = record.acked_epoch if record.acked_epoch <= BELIEVED_EPOCH else 0
        return replace(self._with(incarnation, holding), epoch=max(self.epoch, epoch))

    def acknowledge(self, record: MemberRecord, time: PlannerTime) -> Ledger:
        """Take in an announcement of a known incarnation; do nothing about an unknown one.

        What it owns and no record gives to it is held for it, and it must give that up.
        """
        incarnation = Incarnation(record.instance, record.incarnation)
        holding = self.holdings.get(incarnation)
        if holding is None or record.group != self.group:
            return self
        after = holding
        if holding.eviction is not None:
            after = replace(holding, standing=holding.eviction._replace(read_at=time.now))
        # An acknowledged epoch that was never published proves nothing.
        if record.acked_epoch <= self.epoch:
            if record.state == "left" and not record.owned:
                return self.leave(incarnation)
            after = after.acknowledged(record, time.readable)
        if claims := after.claims(record):
            after = after.claimed(claims, self.epoch + 1, time.readable)
        waits = Waits.of(record, self.timers)
        traits = after.traits if holding.evicted else Traits(record.rack, record.capacity)
        if (waits, traits) != (after.waits, after.traits):
            after = replace(after, waits=waits, traits=traits)
        return self if after is holding else self._with(incarnation, after)

    def claim(self, record: MemberRecord, time: PlannerTime) -> Ledger:
        """Take in an unknown incarnation that announces partitions, and evict it.

        No known record granted them, but records may have been lost, which must not look like a
        release. What the incarnation claims stays its own, whoever else holds it, until the
        eviction was published, read back and waited out.

        Raises:
            ValueError: The ledger already has the incarnation.
        """
        incarnation = Incarnation(record.instance, record.incarnation)
        if incarnation in self.holdings:
            raise ValueError(f"{incarnation} is in the ledger already")
        # With equal epochs no acknowledgement can end the revocation.
        revocation = Revocation(0, 0, time.readable)
        holding = Holding(
            waits=Waits.of(record, self.timers),
            revoking=dict.fromkeys(ranges.pairs(record.owned), revocation),
        )
        return self._with(incarnation, holding).evict(incarnation, time)

    def leave(self, incarnation: Incarnation) -> Ledger:
        """Free everything that the incarnation held: it announced that it left."""
        holding = self.holdings.get(incarnation)
        left = holding and replace(holding.freed(), standing=DEPARTED)
        return self._without_target(incarnation, left)

    def evict(self, incarnation: Incarnation, time: PlannerTime) -> Ledger:
        """Revoke everything from an incarnation that may be unreachable.

        Its partitions become free only after the eviction was waited out. An incarnation without
        partitions ends at once, also one that the ledger does not know: its records are taken back.
        """
        holding = self.holdings.get(incarnation) or Holding(waits=Waits.default(self.timers))
        if holding.left or holding.evicted:
            return self._without_target(incarnation, holding)
        eviction = Evicted(at=time.readable, read_at=time.now, refusal=holding.refused)
        evicted = replace(holding, standing=eviction, starting={})
        return self._without_target(incarnation, evicted)

    def end(self, incarnation: Incarnation) -> Ledger:
        """Take back the records of an incarnation that the ledger does not have."""
        if incarnation in self.holdings:
            return self
        gone = Holding(waits=Waits.default(self.timers), standing=DEPARTED)
        return self._with(incarnation, gone)

    # Evictions.

    def eviction_read_back(self, incarnation: Incarnation, now: float) -> Ledger:
        """Start the wait: the planner's own reader saw the published eviction.

        Only the first reading counts; does nothing unless an eviction was published.
        """
        holding, eviction = self._eviction(incarnation)
        if holding is None or eviction is None or eviction.free_at is not None:
            return self
        if holding.published is None or holding.published.state != "evicted":
            return self
        read_back = eviction._replace(free_at=now + holding.waits.grant)
        return self._with(incarnation, replace(holding, standing=read_back))

    def holds_on(self, incarnation: Incarnation, time: PlannerTime) -> Ledger:
        """Note that it was logged that an evicted incarnation goes on."""
        holding = replace(self.holdings[incarnation], holds_on_at=time.readable)
        return self._with(incarnation, holding)

    def fence_asked(self, incarnation: Incarnation) -> Ledger:
        """Note that the brokers are asked to refuse the commits of an evicted incarnation."""
        return self._fencing(incarnation, "asked")

    def commits_fenced(self, incarnation: Incarnation) -> Ledger:
        """Note that the brokers refuse the commits of an evicted incarnation from now on."""
        return self._fencing(incarnation, "done")

    def tick(self, now: float, read_until: float) -> Ledger:
        """Free the partitions of evictions whose wait has ended.

        Args:
            now: Boot seconds.
            read_until: Boot seconds: all announcements written before were handled.
        """
        due = {
            incarnation: holding.freed()
            for incarnation, holding in self.holdings.items()
            if holding.waited_out(now, read_until) and not holding.unfenced
        }
        return replace(self, holdings={**self.holdings, **due}) if due else self

    # Plans.

    def set_target(
        self,
        target: Mapping[Incarnation, frozenset[TopicPartition]],
        new_from: Mapping[str, int] = MappingProxyType({}),
    ) -> Ledger:
        """Aim at another assignment, by incarnation.

        Evicted, refused and departed incarnations get nothing.

        Args:
            target: the share of each incarnation.
            new_from: see the field of this name.

        Raises:
            ValueError: The target gives a partition to two incarnations.
        """
        shares = {
            incarnation: frozenset(share)
            for incarnation, share in target.items()
            if not (
                (holding := self.holdings.get(incarnation))
                and (holding.evicted or holding.refused or holding.left)
            )
        }
        duplicates = [
            partition for partition, count in Counter(chain(*shares.values())).items() if count > 1
        ]
        if duplicates:
            raise ValueError(f"a target gives {min(duplicates)} to two members")
        return replace(self, target=shares, new_from=new_from)

    def take_back(
        self, incarnation: Incarnation, partitions: Collection[TopicPartition], time: PlannerTime
    ) -> Ledger:
        """Revoke granted partitions that the incarnation does not start; the target stays."""
        holding = self.holdings.get(incarnation)
        granted = holding.granted.keys() & set(partitions) if holding else frozenset()
        if holding is None or not granted:
            return self
        return self._with(incarnation, holding.revoked(granted, self.epoch + 1, time.readable))

    def next_records(
        self,
        *,
        epoch: int,
        planner_epoch: int,
        readable: float,
        reason: str = "",
        published: Ledger | None = None,
    ) -> tuple[Ledger, tuple[RecordChange, ...]]:
        """The records to publish at `epoch`, and the ledger once they are committed.

        Nothing is published here. Without any change the ledger and its epoch stay as they are; the
        epoch stays also where records are only taken back, so that a later planner sees each epoch
        that was used.

        Args:
            epoch: The epoch of the records.
            planner_epoch: The planner's epoch.
            readable: Readable time.
            reason: Why, for the reader of the records.
            published: What this method last returned, if that was published: the holdings that have
                not changed since are passed over, which are most of a large group.

        Raises:
            ValueError: `epoch` is not above the ledger's.
        """
        if epoch <= self.epoch:
            raise ValueError(f"epoch {epoch} is not above {self.epoch}")
        # A set, not the keys of a mapping: a share without it costs no more than the share.
        owned: set[TopicPartition] = set()
        for holding in self.holdings.values():
            owned.update(holding.granted, holding.revoking)
        holdings = dict(self.holdings)
        changes: list[RecordChange] = []
        ended: list[Incarnation] = []
        for incarnation in sorted(self._changed_since(published)):
            holding = self.holdings.get(incarnation) or Holding(waits=Waits.default(self.timers))
            if holding.gone:
                changes.append(Tombstone(("m", self.group, *incarnation)))
                ended.append(incarnation)
                del holdings[incarnation]
                continue
            share = self.target.get(incarnation, frozenset())
            holding = holding.advance_to(share, share - owned, epoch, readable)
            record = MemberAssignment(
                group=self.group,
                instance=incarnation.instance,
                incarnation=incarnation.incarnation,
                planner_epoch=planner_epoch,
                group_epoch=epoch,
                member_epoch=epoch,
                state=holding.state,
                assigned=(assigned := ranges.by_topic(holding.granted)),
                pending=ranges.by_topic(share - holding.granted.keys()),
                revoking=ranges.by_topic(holding.revoking),
                rack=holding.traits.rack,
                capacity=holding.traits.capacity,
                reason=holding.refused or reason,
                new_from={
                    topic: first
                    for topic, first in self.new_from.items()
                    if max(assigned.get(topic, ()), default=-1) >= first
                },
            )
            if not holding.describes(record):
                holding = replace(holding, published=record)
                changes.append(record)
            holdings[incarnation] = holding
        if not changes:
            return self, ()
        ledger = replace(
            self,
            epoch=epoch if len(ended) < len(changes) else self.epoch,
            holdings=dict(sorted(holdings.items())),
            ended=_newest({**self.ended, **dict.fromkeys(ended)}) if ended else self.ended,
        )
        return ledger, tuple(changes)

    # Queries.

    def owners(self) -> dict[TopicPartition, Incarnation]:
        """The incarnation that may be using each partition that is not FREE."""
        return {
            partition: incarnation
            for incarnation, holding in self.holdings.items()
            for partition in chain(holding.granted, holding.revoking)
        }

    def owning_instances(self) -> dict[TopicPartition, str]:
        """The instance that may be using each partition that is not FREE."""
        return {partition: owner.instance for partition, owner in self.owners().items()}

    def granted(self, incarnation: Incarnation) -> frozenset[TopicPartition]:
        """Partitions that the incarnation may own as of the last published epoch."""
        holding = self.holdings.get(incarnation)
        return frozenset(holding.granted if holding else ())

    @property
    def settled(self) -> bool:
        """Whether every share is granted and started, and no revocation is pending."""
        return all(
            not holding.revoking
            and not holding.starting
            and not holding.gone
            and holding.granted.keys() == self.target.get(incarnation, frozenset())
            for incarnation, holding in self.holdings.items()
        ) and all(incarnation in self.holdings for incarnation in self.target)

    def _changed_since(self, published: Ledger | None) -> list[Incarnation]:
        """Incarnations whose records may say something else by now; without a ledger, all.

        Those that wait for partitions are among them: others may have given them up since.
        """
        if published is None:
            return list(self.holdings.keys() | self.target.keys())
        nothing: frozenset[TopicPartition] = frozenset()
        changed = [owner for owner in self.target if owner not in self.holdings]
        for owner, holding in self.holdings.items():
            share, before = self.target.get(owner, nothing), published.target.get(owner, nothing)
            if (
                holding is not published.holdings.get(owner)
                or (share is not before and share != before)  # sets compare all that they have
                or len(share) != len(holding.granted)
            ):
                changed.append(owner)
        return changed

    def _eviction(self, incarnation: Incarnation) -> tuple[Holding | None, Evicted | None]:
        holding = self.holdings.get(incarnation)
        return holding, None if holding is None else holding.eviction

    def _fencing(self, incarnation: Incarnation, fencing: Literal["asked", "done"]) -> Ledger:
        holding, eviction = self._eviction(incarnation)
        if holding is None or eviction is None or eviction.fencing in {fencing, "done"}:
            return self
        fenced = eviction._replace(fencing=fencing)
        return self._with(incarnation, replace(holding, standing=fenced))

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


def _newest(ended: Mapping[Incarnation, None]) -> Mapping[Incarnation, None]:
    return dict(list(ended.items())[-ENDED_LIVES:])
