"""State of one managed group, and how each record changes it. Pure; times are monotonic seconds.

A member is live from its first announcement until it leaves, falls silent, or a newer incarnation
of its instance announces itself. Only the ledger decides which member may use a partition; liveness
decides which members are planned for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from assignors.handover.ledger import Incarnation, Ledger, Traits
from assignors.protocol.records import (
    LagRecord,
    MemberAssignment,
    MemberRecord,
    OperatorRecord,
    Tombstone,
    TriggerRecord,
)
from daemon.control.context import LogEvent
from daemon.control.duplicate_instances import InstanceConflict
from daemon.control.policy import PolicyState, Situation
from daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.handover.timers import Timers
    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import GroupRecord, Record, TopicRecord
    from daemon.control.planning import ComputedPlan


class Live(NamedTuple):
    """A live member."""

    record: MemberRecord
    """The last announcement."""
    last_seen: float
    """Time at which the announcement was read."""


class Profile(NamedTuple):
    """Properties of a member that a plan depends on; a heartbeat that repeats them is no change."""

    topics: frozenset[str]
    rack: str | None
    priority: int
    capacity: float

    @classmethod
    def of(cls, record: MemberRecord) -> Profile:
        """Take the properties from an announcement."""
        return cls(frozenset(record.topics), record.rack, record.priority, record.capacity)


class Basis(NamedTuple):
    """Inputs that a plan was made for; a group whose basis is unchanged needs no other plan."""

    members: Mapping[str, Profile]
    """The live members, by instance."""
    topics: Mapping[str, tuple[str, int]]
    """Id and number of partitions of the topics that members read, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedGroup:
    """One managed group."""

    name: str
    ledger: Ledger
    live: Mapping[Incarnation, Live] = field(default_factory=dict)
    plan: GroupRecord | None = None
    """The plan in force."""
    basis: Basis | None = None
    """Basis of the plan in force; None if it is not known."""
    target: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)
    """The partitions that the plan in force gives to each instance."""
    lags: Mapping[str, LagRecord] = field(default_factory=dict)
    """The newest lag record of each topic, by name, also of topics that were recreated since."""
    triggers: Mapping[Cause, TriggerRecord] = field(default_factory=dict)
    """The active triggers, by cause."""
    operator: OperatorRecord | None = None
    """An operator's request that no plan has followed yet."""
    policy: PolicyState = field(default_factory=PolicyState)
    conflicts: Mapping[str, InstanceConflict] = field(default_factory=dict)
    """Recent replacements of incarnations, by instance."""
    frozen: bool = False
    """Whether nothing moves, because most members fell silent together."""
    waiting_for_topics: bool = False
    """Whether a plan waits for layouts that are not known yet; that has been logged."""
    unsplittable: frozenset[TopicPartition] = frozenset()
    """Partitions that were logged as unsplittable: no plan can lower the skew that they cause."""
    stale_lags: frozenset[str] = frozenset()
    """Topics whose lag was too old for the plan in force; that has been logged."""
    handover_since: float | None = None
    """Time at which the plan was published whose hand-over is under way; None once the hand-over is
    complete."""
    published_ledger: Ledger | None = None
    """The ledger as last published: while `ledger` is the same object, there is nothing to
    publish."""

    # Queries.

    @property
    def forgettable(self) -> bool:
        """Whether nothing is left of the group, so that its state can be dropped."""
        return not (
            self.live
            or self.ledger.holdings
            or self.plan
            or self.lags
            or self.triggers
            or self.operator
            or self.policy.changes
        )

    @property
    def idle(self) -> bool:
        """Whether the group has neither members nor partitions that some member may still use."""
        return not (self.live or self.ledger.holdings)

    @property
    def members(self) -> dict[str, MemberRecord]:
        """The announcements of the live members, by instance."""
        return {incarnation.instance: live.record for incarnation, live in self.live.items()}

    @property
    def capacity(self) -> dict[str, float]:
        """The capacity of the live members, by instance."""
        return {
            incarnation.instance: live.record.capacity for incarnation, live in self.live.items()
        }

    @property
    def next_epoch(self) -> int:
        """The first group epoch that was never published."""
        return max(self.ledger.epoch, self.plan.group_epoch if self.plan else 0) + 1

    def situation(self) -> Situation:
        """Return the facts about the group that the policy decides by."""
        return Situation(
            has_members=bool(self.live),
            settled=self.ledger.settled,
            raised=self.triggers.keys(),
            requested=self.operator is not None,
            frozen=self.frozen,
        )

    def basis_of(self, topics: Mapping[str, TopicRecord]) -> Basis:
        """Return the basis of a plan made now."""
        members = {instance: Profile.of(record) for instance, record in self.members.items()}
        read = frozenset[str]().union(*(profile.topics for profile in members.values()))
        return Basis(
            members, {t: (topics[t].id, topics[t].partitions) for t in sorted(read) if t in topics}
        )

    def owners(self) -> dict[TopicPartition, str]:
        """Return the instance that may be using each partition, by partition."""
        return {
            partition: incarnation.instance
            for partition, incarnation in self.ledger.owners().items()
        }

    def traits(self) -> dict[Incarnation, Traits]:
        """Return the properties of the live members that their assignment records repeat."""
        return {
            incarnation: Traits(live.record.rack, live.record.capacity)
            for incarnation, live in self.live.items()
        }

    def reads(self, topic: str) -> bool:
        """Whether any live member subscribes to a topic."""
        return any(topic in live.record.topics for live in self.live.values())

    # Changes.

    def changed(self, cause: Cause, now: float) -> ManagedGroup:
        """Note a change that a plan must follow once it has settled."""
        return replace(self, policy=self.policy.changed(cause, now))

    def planned(
        self, plan: ComputedPlan, record: GroupRecord, *, basis: Basis, now: float
    ) -> ManagedGroup:
        """Put a plan in force: set the ledger's target, and close the operator's request."""
        since = self.handover_since if self.handover_since is not None else now
        return replace(
            self,
            plan=record,
            basis=basis,
            target=plan.target,
            operator=None,
            waiting_for_topics=False,
            handover_since=since,
        ).retargeted()

    def retargeted(self) -> ManagedGroup:
        """Give each live incarnation the share of its instance, nothing without a plan."""
        shares = {
            incarnation: self.target.get(incarnation.instance, frozenset())
            for incarnation in self.live
        }
        return replace(self, ledger=self.ledger.set_target(shares))

    # Records.

    def apply(self, record: Record | Tombstone, now: float) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take in one record about the group.

        Of the records that the control itself has written, only evictions matter.
        """
        match record:
            case MemberRecord():
                return self.announced(record, now)
            case MemberAssignment(state="evicted"):
                incarnation = Incarnation(record.instance, record.incarnation)
                return replace(self, ledger=self.ledger.eviction_read_back(incarnation, now)), []
            case LagRecord():
                return replace(self, lags={**self.lags, record.topic: record}), []
            case TriggerRecord():
                return self._raise_trigger(record)
            case OperatorRecord():
                return replace(self, operator=record), []
            case Tombstone(key=("m", _, instance, incarnation)):
                return self.leave(Incarnation(str(instance), str(incarnation)), now)
            case Tombstone(key=("lag", _, topic)):
                lags = {name: lag for name, lag in self.lags.items() if name != topic}
                return replace(self, lags=lags), []
            case Tombstone(key=("racks" | "skew" as kind, _)):
                return self._clear_trigger(Cause(kind))
            case _:
                return self, []

    def announced(self, record: MemberRecord, now: float) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take in an announcement: a join, a heartbeat, an acknowledgement, or a departure."""
        incarnation = Incarnation(record.instance, record.incarnation)
        if record.state == "left":
            acknowledged = replace(self, ledger=self.ledger.acknowledge(record))
            if record.owned:
                return acknowledged.evict(incarnation, "left with partitions", now)
            return acknowledged.leave(incarnation, now)
        if incarnation in self.live:
            return self._heartbeat(incarnation, record, now)
        holding = self.ledger.holdings.get(incarnation)
        if holding is not None and (holding.evicted or holding.left):
            # The last announcements of an evicted member may still free its partitions, but do not
            # make the member live again.
            return replace(self, ledger=self.ledger.acknowledge(record)), []
        if holding is None and record.owned:
            reason = "owns partitions that levelwind did not grant to it"
            fields = {**self._member_fields(incarnation), "reason": reason}
            claimed = replace(self, ledger=self.ledger.claim(record, now))
            return claimed, [LogEvent("member.evicted", fields)]
        return self._join(incarnation, record, now)

    def _join(
        self, incarnation: Incarnation, record: MemberRecord, now: float
    ) -> tuple[ManagedGroup, list[LogEvent]]:
        group = replace(self, ledger=self.ledger.acknowledge(record))
        instance = incarnation.instance
        older = [other for other in group.live if other.instance == instance]
        conflict = group.conflicts.get(instance, InstanceConflict()).joined(
            incarnation.incarnation, replaces=bool(older), now=now
        )
        if older or conflict.open:
            group = replace(group, conflicts={**group.conflicts, instance: conflict})
        if conflict.open and not older:
            return group, []  # logged when the conflict began
        reason = (
            "several processes use its instance name"
            if conflict.open
            else "a newer incarnation of its instance has joined"
        )
        events: list[LogEvent] = []
        for other in older:
            group, evicted = group.evict(other, reason, now)
            events += evicted
        if conflict.open:
            fields: dict[str, object] = {"group": group.name, "instance": instance}
            return group, [*events, LogEvent("member.duplicate_instance", fields)]
        joined = replace(group, live={**group.live, incarnation: Live(record, now)})
        fields = {
            **self._member_fields(incarnation),
            "rack": record.rack,
            "topics": list(record.topics),
        }
        return joined.membership_changed(now), [LogEvent("member.joined", fields), *events]

    def _heartbeat(
        self, incarnation: Incarnation, record: MemberRecord, now: float
    ) -> tuple[ManagedGroup, list[LogEvent]]:
        before = self.live[incarnation].record
        group = replace(
            self,
            live={**self.live, incarnation: Live(record, now)},
            ledger=self.ledger.acknowledge(record),
        )
        if Profile.of(before) != Profile.of(record):
            group = group.changed(Cause.MEMBERSHIP, now)
        if record.nack is None or record.nack == before.nack:
            return group, []
        nack = {"code": record.nack.code, "epoch": record.nack.epoch}
        return group, [LogEvent("member.refused", {**self._member_fields(incarnation), **nack})]

    def leave(self, incarnation: Incarnation, now: float) -> tuple[ManagedGroup, list[LogEvent]]:
        """Note that an incarnation has left, or that its announcement was deleted.

        The partitions of the incarnation are free at once.
        """
        left = self._without(incarnation, self.ledger.leave(incarnation))
        if incarnation not in self.live:
            return left, []
        event = LogEvent("member.left", self._member_fields(incarnation))
        return left.membership_changed(now), [event]

    def evict(
        self, incarnation: Incarnation, reason: str, now: float
    ) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take all partitions from an incarnation; they are free after the ledger's grant wait."""
        evicted = self._without(incarnation, self.ledger.evict(incarnation))
        fields = {**self._member_fields(incarnation), "reason": reason}
        return evicted.membership_changed(now), [LogEvent("member.evicted", fields)]

    def _without(self, incarnation: Incarnation, ledger: Ledger) -> ManagedGroup:
        live = {other: member for other, member in self.live.items() if other != incarnation}
        return replace(self, live=live, ledger=ledger)

    def membership_changed(self, now: float) -> ManagedGroup:
        """Note that the live members have changed, and give the ledger their shares."""
        return self.changed(Cause.MEMBERSHIP, now).retargeted()

    def _member_fields(self, incarnation: Incarnation) -> dict[str, object]:
        """The log fields that name a member."""
        return {
            "group": self.name,
            "instance": incarnation.instance,
            "incarnation": incarnation.incarnation,
        }

    def _raise_trigger(self, record: TriggerRecord) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take in an active trigger; an update of one that was raised before is not logged."""
        cause = Cause(record.kind)
        last = self.triggers.get(cause)
        group = replace(self, triggers={**self.triggers, cause: record})
        if last is not None and last.since == record.since:
            return group, []
        fields = {
            "group": self.name,
            "kind": record.kind,
            "at": record.at,
            "since": record.since,
            "evidence": record.evidence.value(),
        }
        raised = replace(group, policy=self.policy.reconsider(cause))
        return raised, [LogEvent("trigger.raised", fields)]

    def _clear_trigger(self, cause: Cause) -> tuple[ManagedGroup, list[LogEvent]]:
        if cause not in self.triggers:
            return self, []
        triggers = {other: record for other, record in self.triggers.items() if other is not cause}
        event = LogEvent("trigger.cleared", {"group": self.name, "kind": cause.value})
        return replace(self, triggers=triggers), [event]

    @classmethod
    def empty(cls, name: str, timers: Timers) -> ManagedGroup:
        """Return the state of a group without any records yet."""
        return cls(name=name, ledger=Ledger.empty(group=name, grant=timers.grant))
