"""`PublishedAssignor`: members of a classic group that follow a daemon's plans.

The member that leads applies the newest published plan to the members that are present, and places
the rest with a local strategy. A plan names members by `group.instance.id`, or by member id. When a
newer plan moves a partition, the leader asks for a rebalance at once. The others do after a random
while, for the case that the leader does not know the plan: once for each plan, and only if it
changes their own share and no rebalance came meanwhile. Without a plan, the local strategy assigns
everything.

Guarantees: two owners are impossible, whatever the plan: the leader's answer is one assignment, and
the broker fences by generation. The userData has the epoch of the newest plan that a member knows,
because a broker starts a rebalance for a member that does not lead only if its bytes changed.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from dataclasses import replace
from threading import Timer
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakMethod

import msgspec

from levelwind.assignors.clients.classic.classic_assignor import LagAwareAssignor
from levelwind.assignors.clients.classic.plan_application import (
    as_planned,
    completed,
    moves,
    planned_owners,
    present_shares,
)
from levelwind.assignors.clients.group_join import read_members, sync_assignments
from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.protocol.declared.declaration import canonical
from levelwind.assignors.protocol.declared.fields import Name
from levelwind.assignors.protocol.declared.json_form import decoded
from levelwind.assignors.protocol.kafka.consumer_protocol import NEWEST, ConsumerSubscription
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.registry import OPTIONS, strategy_named
from levelwind.assignors.strategies.cooperative_sticky import withhold_claimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.clients.classic.cluster_view import ClusterView
    from levelwind.assignors.clients.classic.lag_source import LagSource
    from levelwind.assignors.clients.classic.published_plan import (
        PlanEpoch,
        PlanSource,
        PublishedPlan,
    )
    from levelwind.assignors.clients.group_join import Joiner
    from levelwind.assignors.problem.inputs import Member
    from levelwind.assignors.protocol.partition_ranges import Partitions

_log = logging.getLogger("levelwind.clients.classic")

LOCAL_STRATEGIES = ("sticky", "uniform", "lag-global", "optimal")
"""Strategies for what no plan assigns: those that keep what is placed already."""

FIRST_READ_SECONDS = 3.0
"""Longest time that a leader waits for its plan source to have read everything once."""

JITTER_SECONDS = 10.0


class PublishedAssignor(LagAwareAssignor):
    """Follows published plans, and assigns by a local strategy what they leave open."""

    name: ClassVar[str] = "levelwind"
    reads_claims: ClassVar[bool] = True
    needs_lag: ClassVar[bool] = False

    def __init__(
        self,
        *,
        plans: PlanSource,
        instance: str | None = None,
        local: str = "sticky",
        lags: LagSource | None = None,
        rack: str | None = None,
        jitter: float = JITTER_SECONDS,
        version: int = NEWEST,
        **options: Any,
    ) -> None:
        """Configure the member.

        Args:
            plans: source of the group's plans, such as
                `levelwind.assignors.clients.published_plans.PublishedPlans`.
            instance: the member's `group.instance.id`, by which plans name it; None: it has none.
            local: strategy for what no plan assigns: `sticky`, `uniform`, `lag-global` or
                `optimal`.
            lags: source of lag for the local strategy.
            rack: see `ClassicAssignor`.
            jitter: most seconds that a member which does not lead waits before it asks for a
                rebalance because of a newer plan; it waits half of them at least.
            version: see `ClassicAssignor`.
            options: options of the local strategy.

        Raises:
            ProblemError: an option is out of its range.
            ValueError: the local strategy cannot complete a plan.
        """
        super().__init__(lags=lags, rack=rack, version=version)
        if local not in LOCAL_STRATEGIES:
            raise ValueError(f"local: must be one of {', '.join(LOCAL_STRATEGIES)}, not {local!r}")
        if unknown := sorted(options.keys() - OPTIONS.get(local, {}).keys()):
            raise TypeError(f"{local} takes no option {unknown[0]!r}")
        self._local = strategy_named(local, options)
        self._plans = plans
        self._instance = instance
        self._jitter = jitter
        self._follows = False
        self._rounds = 0  # assignments that the member has taken
        self._led: PlanEpoch | None = None  # epoch of the plan that it applied as the leader
        self._joined_with: PlanEpoch | None = None  # epoch that its userData named
        self._leads = False
        self._assigned: Mapping[str, Partitions] = {}  # by name, while it leads
        self._subscribed: frozenset[str] = frozenset()

    # A member.

    def join_bytes(self, topics: Iterable[str]) -> bytes:
        """Write the subscription that the member joins with; begin to follow plans."""
        if not self._follows:
            self._plans.follow(self._plan_arrived)
            self._follows = True
        self._leads = False
        self._subscribed = frozenset(topics)
        plan = self._plans.newest(0)
        self._joined_with = None if plan is None else plan.epoch
        user_data = canonical(
            {"instance": self._instance, "plan": None if plan is None else plan.epoch}
        )
        plain = ConsumerSubscription.decode(super().join_bytes(self._subscribed))
        return replace(plain, user_data=user_data).encode(self.version)

    def take(self, partitions: Partitions, generation: int = -1) -> None:
        """Take what the leader assigned to the member."""
        super().take(partitions, generation)
        self._rounds += 1
        self._plan_arrived()  # one may have come while the group was joining

    # The leader.

    def assignment_bytes(self, view: ClusterView, joiners: Iterable[Joiner]) -> dict[str, bytes]:
        """Apply the newest plan to the members that are present; the rest by the local strategy."""
        joined = list(joiners)
        _, members = read_members(joined, self.name)
        plan = self._plans.newest(FIRST_READ_SECONDS)
        known = view.only({topic for member in members for topic in member.topics})
        self._planned_view = known
        topics = self._topics(known)
        names = _names(joined, members)
        shares = {} if plan is None else present_shares(plan, names, members)
        real = Group.build(topics, members)
        group = Group.build(topics, as_planned(members, shares)) if shares else real
        planned = planned_owners(group, shares)
        target = completed(planned, group, self._local)
        self._leads, self._led = True, None if plan is None else plan.epoch
        by_member = Assignment(target).to_names(group)
        self._assigned = {
            names[member]: {topic: tuple(held) for topic, held in share.items()}
            for member, share in by_member.items()
        }
        _log.info(
            "leads a group of %d members; plan %s places %d partitions, the local strategy %d",
            len(members),
            None if plan is None else tuple(plan.epoch),
            int((planned != NOBODY).sum()),
            int(((planned == NOBODY) & (target != NOBODY)).sum()),
        )
        # A cooperative group gets the target in two rounds.
        answer = withhold_claimed(real, target) if self.cooperative else Assignment(target)
        return sync_assignments(real, answer)

    # Newer plans.

    def _plan_arrived(self) -> None:
        """Ask for a rebalance if the newest plan moves anything."""
        plan = self._plans.newest(0)
        if plan is None or not self._rounds:
            return
        if self._leads:
            if plan.epoch != self._led and moves(plan, self._assigned):
                self._led = plan.epoch
                _log.info("plan %s is another one: asking for a rebalance", tuple(plan.epoch))
                self._request_rejoin()
            return
        if self._is_news(plan) and self._changes_own_share(plan):
            wait = self._jitter * random.uniform(0.5, 1)  # noqa: S311 - jitter is no secret
            late, rounds = WeakMethod(self._ask_late), self._rounds

            def ask() -> None:
                """Ask for a rebalance, if the member still exists."""
                if (method := late()) is not None:
                    method(rounds)

            timer = Timer(wait, ask)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:  # no thread to wait in, and to ask early costs a rebalance at most
                ask()

    def _ask_late(self, rounds: int) -> None:
        """Ask for a rebalance if none came since, and the newest plan still changes the share."""
        plan = self._plans.newest(0)
        if plan is None or self._leads or self._rounds != rounds:
            return
        if self._is_news(plan) and self._changes_own_share(plan):
            _log.info("the leader has not applied plan %s: asking", tuple(plan.epoch))
            self._request_rejoin()

    def _is_news(self, plan: PublishedPlan) -> bool:
        """Whether the leader has not had its chance: a plan that it leaves out is not asked for."""
        return plan.epoch != self._joined_with

    def _changes_own_share(self, plan: PublishedPlan) -> bool:
        if self._instance is None or self._instance not in plan.assignments or self._owned is None:
            return False
        share = plan.assignments[self._instance]
        wanted = {topic: held for topic, held in share.items() if topic in self._subscribed}
        return wanted != dict(self._owned)


class CooperativePublishedAssignor(PublishedAssignor):
    """`PublishedAssignor` of a group whose members keep what they do not lose (KIP-429)."""

    name: ClassVar[str] = "levelwind-cooperative"
    cooperative: ClassVar[bool] = True


def _names(joiners: Sequence[Joiner], members: Sequence[Member]) -> dict[str, str]:
    """By member id, the name by which plans know a member.

    An instance id that several members use names none of them.
    """
    named = {
        joiner.id: _stated_instance(joiner) or member.instance_id
        for joiner, member in zip(joiners, members, strict=True)
    }
    uses = Counter(named.values())
    return {
        member: name if name is not None and uses[name] == 1 else member
        for member, name in named.items()
    }


class _UserData(msgspec.Struct):
    """What a follower of plans says of itself in its userData."""

    instance: Name | None = None


_user_data = msgspec.json.Decoder(_UserData)


def _stated_instance(joiner: Joiner) -> str | None:
    """The instance id in a member's userData: aiokafka shows a leader no other."""
    (raw,) = joiner.offers.values()
    try:
        user_data = ConsumerSubscription.decode(raw).user_data
        return decoded(_user_data, user_data or b"{}").instance
    except WireError:
        return None
