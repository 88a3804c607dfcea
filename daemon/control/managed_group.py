"""State of one managed group, and the changes of which its events consist. Pure.

A member is live from its first announcement until it leaves, falls silent, or a newer incarnation
of its instance announces itself. Only the ledger decides which member may use a partition; liveness
decides which members are planned for.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.assignors.handover.ledger import Incarnation, Ledger
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.declared.declaration import as_document
from levelwind.assignors.protocol.partition_ranges import TopicPartition
from levelwind.assignors.protocol.patterns.topic_pattern import finds
from levelwind.assignors.protocol.records import (
    GroupRecord,
    Key,
    LagRecord,
    OperatorRecord,
    ProposalRecord,
    SpeedRecord,
    TriggerRecord,
)
from levelwind.assignors.protocol.unread_lag import UnreadLag
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.gain.overload import DemandWatch
from levelwind.daemon.control.lever_set import NO_LEVERS, GroupLevers
from levelwind.daemon.control.members import absent_members, start_bars
from levelwind.daemon.control.members.duplicate_instances import InstanceConflict
from levelwind.daemon.control.members.live_member import Basis, Live, Profile
from levelwind.daemon.control.members.proxied_members import ProxiedMember
from levelwind.daemon.control.members.start_bars import StartBars
from levelwind.daemon.control.policy import PolicyState, Situation
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.assignors.protocol.records import (
        MemberRecord,
        TopicRecord,
    )
    from levelwind.daemon.control.planning import ComputedPlan


class ManagedGroup(Struct, frozen=True, kw_only=True):
    """One managed group, for the control's thread alone.

    A value but for `live`, `lags` and `unread`, into which the most frequent records are entered.
    """

    name: str
    ledger: Ledger
    live: dict[Incarnation, Live] = field(default_factory=dict)
    """The members that are planned for.

    An announcement that repeats the one before is entered in place: most of them do.
    """
    refused: Mapping[Incarnation, Live] = field(default_factory=dict)
    """Incarnations that announce themselves and that the planner cannot serve."""
    plan: GroupRecord | None = None
    """The plan in force."""
    basis: Basis | None = None
    """Basis of the plan in force; None if it is not known."""
    target: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)
    """The partitions that the plan in force gives to each instance."""
    lags: dict[str, LagRecord] = field(default_factory=dict)
    """The newest lag record of each topic, by name, also of topics that were recreated since.

    A sample that no decision waits for is entered in place.
    """
    unread: dict[str, UnreadLag] = field(default_factory=dict)
    """Newer samples of topics in `lags` that nothing has needed in full yet, by topic; entered and
    read in place, at the latest by the next decision."""
    triggers: Mapping[Cause, TriggerRecord] = field(default_factory=dict)
    """The active triggers, by cause."""
    operator: OperatorRecord | None = None
    """An operator's request that no plan has followed yet."""
    levers: GroupLevers = NO_LEVERS
    """The levers that hold for the group."""
    proposal: ProposalRecord | None = None
    """The plan that waits for approval."""
    policy: PolicyState = field(default_factory=PolicyState)
    conflicts: Mapping[str, InstanceConflict] = field(default_factory=dict)
    """Recent replacements of incarnations, by instance."""
    bars: StartBars = field(default_factory=dict)
    """Topics whose partitions a member could not start."""
    silent_together: frozenset[Incarnation] = frozenset()
    """The members that fell silent together and have neither come back nor ended: nothing moves
    while there are any."""
    records_lost_at: float | None = None
    """Boot seconds at which a member was first read that followed records which are lost; None if
    there is none, or once everybody who may use a partition has announced it again."""
    waiting_for_topics: bool = False
    """Whether a plan waits for layouts that are not known yet; that has been logged."""
    proxied: Mapping[str, ProxiedMember] | None = None
    """Members of the group by name, as the leader proxy that leads it sees them; None without."""
    speeds: SpeedRecord | None = None
    """The newest record of the members' learned speeds."""
    demand: DemandWatch = field(default_factory=DemandWatch)
    """The watch over what the partitions ask of the members."""
    stale_lags: frozenset[str] = frozenset()
    """Topics whose lag was too old for the plan in force; that has been logged."""
    unseen_since: float | None = None
    """Boot seconds at which a watched group was first found `unseen`; None if it is not."""
    handover_since: float | None = None
    """Time at which the plan was published whose hand-over is under way; None once the hand-over is
    complete."""
    shards: Mapping[Key, int] = field(default_factory=dict)
    """Number of shards of each published record of the group that is cut, by its key."""
    published_ledger: Ledger | None = None
    """The ledger as last published: while `ledger` is the same object, there is nothing to
    publish."""

    # Queries.

    @property
    def forgettable(self) -> bool:
        """Whether nothing is left of the group, so that its state can be dropped."""
        return self.gone and self.operator is None

    @property
    def gone(self) -> bool:
        """Whether nothing is left of the group but an operator's request, which is refused then.

        A change that no plan has followed is nothing without members: the first one that joins is
        another.
        """
        return (
            self.idle
            and self.unseen
            and not self.plan
            and not self.speeds
            and self.records_lost_at is None
        )

    @property
    def unseen(self) -> bool:
        """Whether neither the pipeline's lag and triggers nor the proxy name the group."""
        return not (self.lags or self.proxied or self.triggers)

    @property
    def idle(self) -> bool:
        """Whether time changes nothing: the group has no members, and no partition is in use."""
        return not (self.live or self.refused or self.ledger.holdings or self.conflicts)

    @property
    def frozen(self) -> bool:
        """Whether nothing moves, because most members fell silent together."""
        return bool(self.silent_together)

    @property
    def longest_wait(self) -> float:
        """Seconds after which nobody uses a partition who has announced nothing since."""
        waits = [holding.waits.grant for holding in self.ledger.holdings.values()]
        return max([self.ledger.timers.grant, *waits])

    @property
    def samples(self) -> dict[str, LagRecord | UnreadLag]:
        """The newest sample of lag of each topic, read or not.

        One that is unread may be older than the one that it replaces.
        """
        return {**self.lags, **self.unread}

    @property
    def lag_at(self) -> int | None:
        """Time of the newest sample of lag, milliseconds since the epoch; None without one."""
        times = [self.unread.get(topic, read).at for topic, read in self.lags.items()]
        return max(times, default=None)

    @property
    def members(self) -> dict[str, MemberRecord]:
        """The announcements of the live members, by instance, as they are planned for.

        Topics from which a member is barred are left out.
        """
        announced = {incarnation.instance: live.record for incarnation, live in self.live.items()}
        subscriptions = ((name, t) for name, record in announced.items() for t in record.topics)
        for instance, topics in start_bars.effective(self.bars, subscriptions).items():
            record = announced[instance]
            read = tuple(topic for topic in record.topics if topic not in topics)
            announced[instance] = replace(record, topics=read)
        return announced

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

    def granted(self) -> Iterator[TopicPartition]:
        """Yield the partitions that the ledger names: in a share, granted, or to be given up."""
        yield from chain.from_iterable(self.ledger.target.values())
        yield from self.ledger.owners()

    def situation(self) -> Situation:
        """Return the facts about the group that the policy decides by."""
        return Situation(
            has_members=bool(self.live),
            settled=self.ledger.settled,
            raised=self.triggers.keys(),
            requested=self.operator is not None,
            frozen=self.frozen,
            awaited=self.awaited,
            paused=self.levers.paused,
        )

    @property
    def awaited(self) -> bool:
        """Whether the only change is members that are gone and whose partitions are not free."""
        if self.basis is None or self.policy.changes.keys() != {Cause.MEMBERSHIP}:
            return False
        members = {instance: Profile.of(record) for instance, record in self.members.items()}
        return absent_members.awaited(self.basis.members, members, self.target, self.ledger)

    def basis_of(self, topics: Mapping[str, TopicRecord]) -> Basis:
        """Return the basis of a plan made now."""
        members = {instance: Profile.of(record) for instance, record in self.members.items()}
        read = frozenset[str]().union(*(profile.topics for profile in members.values()))
        return Basis.of(members, read, topics)

    def owners(self) -> dict[TopicPartition, str]:
        """Return the instance that may be using each partition, by partition."""
        return self.ledger.owning_instances()

    def reads(self, topic: str) -> bool:
        """Whether any live member subscribes to a topic, by its name or by a pattern."""
        records = [live.record for live in self.live.values()]
        return any(topic in record.topics for record in records) or any(
            finds(pattern, topic) for pattern in {record.pattern for record in records}
        )

    def subscribes_by(self, pattern: str) -> bool:
        """Whether any live member subscribes by this pattern."""
        return any(live.record.pattern == pattern for live in self.live.values())

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
            proposal=None,
            waiting_for_topics=False,
            handover_since=since,
        ).retargeted()

    def retargeted(self) -> ManagedGroup:
        """Give each live incarnation the share of its instance, nothing without a plan."""
        shares = {
            incarnation: self.target.get(incarnation.instance, frozenset())
            for incarnation in self.live
        }
        new_from = self.plan.new_from if self.plan else {}
        return replace(self, ledger=self.ledger.set_target(shares, new_from))

    # Members.

    def leave(
        self, incarnation: Incarnation, time: PlannerTime
    ) -> tuple[ManagedGroup, list[LogEvent]]:
        """Note that an incarnation has left, or that its announcement was deleted.

        The partitions of the incarnation are free at once.
        """
        left = self._without(incarnation, self.ledger.leave(incarnation))
        if incarnation not in self.live:
            # What was due is put off: the next life of the member follows its farewell.
            return (left.gave_up(time.now) if self.awaited else left), []
        event = LogEvent("member.left", self.member_fields(incarnation))
        return left.membership_changed(time.now), [event]

    def evict(
        self, incarnation: Incarnation, reason: str, time: PlannerTime
    ) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take all partitions from an incarnation; they are free after the ledger's grant wait.

        The records of an incarnation without partitions are taken back at once.
        """
        evicted = self._without(incarnation, self.ledger.evict(incarnation, time))
        event = LogEvent("member.evicted", {**self.member_fields(incarnation), "reason": reason})
        if incarnation in self.live:
            evicted = evicted.membership_changed(time.now)
        return evicted, [event]

    def take_back(
        self,
        incarnation: Incarnation,
        partitions: Collection[TopicPartition],
        reason: str,
        time: PlannerTime,
    ) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take back granted partitions that the member does not start.

        The member is barred from their topics for a while. They go to another member that reads
        them, with the next plan, or else to the same one again.
        """
        instance = incarnation.instance
        topics = {topic for topic, _ in partitions}
        bars = start_bars.bar(self.bars, instance, topics, time.readable)
        group = replace(
            self, ledger=self.ledger.take_back(incarnation, partitions, time), bars=bars
        )
        kept = frozenset(group.members[instance].topics) if incarnation in self.live else topics
        lost = {(topic, number) for topic, number in partitions if topic not in kept}
        if lost:
            share = self.target.get(instance, frozenset()) - lost
            group = replace(group, target={**self.target, instance: share})
        fields = {
            **self.member_fields(incarnation),
            "partitions": ranges.texts(ranges.by_topic(partitions)),
            "reason": reason,
        }
        return group.membership_changed(time.now), [LogEvent("grant.taken_back", fields)]

    def _without(self, incarnation: Incarnation, ledger: Ledger) -> ManagedGroup:
        live = {other: member for other, member in self.live.items() if other != incarnation}
        refused = {other: member for other, member in self.refused.items() if other != incarnation}
        return replace(self, live=live, refused=refused, ledger=ledger)

    def membership_changed(self, now: float) -> ManagedGroup:
        """Note that the live members have changed, and give the ledger their shares."""
        return self.changed(Cause.MEMBERSHIP, now).retargeted()

    def gave_up(self, now: float) -> ManagedGroup:
        """Let a change of members settle anew: a member that was waited for gave all up."""
        policy = self.policy.without_change(Cause.MEMBERSHIP)
        return replace(self, policy=policy.changed(Cause.MEMBERSHIP, now))

    def member_fields(self, incarnation: Incarnation) -> dict[str, object]:
        """Return the log fields that name a member."""
        return {
            "group": self.name,
            "instance": incarnation.instance,
            "incarnation": incarnation.incarnation,
        }

    # Triggers.

    def raise_trigger(self, record: TriggerRecord) -> tuple[ManagedGroup, list[LogEvent]]:
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
            "evidence": as_document(record.evidence),
        }
        raised = replace(group, policy=self.policy.reconsider(cause))
        return raised, [LogEvent("trigger.raised", fields)]

    def clear_trigger(self, cause: Cause) -> tuple[ManagedGroup, list[LogEvent]]:
        """Take in that a cause no longer holds."""
        if cause not in self.triggers:
            return self, []
        triggers = {other: record for other, record in self.triggers.items() if other is not cause}
        event = LogEvent("trigger.cleared", {"group": self.name, "kind": cause.value})
        return replace(self, triggers=triggers), [event]

    @classmethod
    def empty(cls, name: str, timers: Timers) -> ManagedGroup:
        """Return the state of a group without any records yet."""
        return cls(name=name, ledger=Ledger.empty(group=name, timers=timers))
