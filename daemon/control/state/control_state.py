"""State of the control: everything that it knows. Pure.

Most of it is replaced by a step. The table of groups is changed in place, group by group: it may be
large, and most steps concern few of them. Other threads go by `control_facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import BrokerRecord, Mode, TopicRecord
from levelwind.daemon.control.context import Clock, ControlContext
from levelwind.daemon.control.lever_set import LeverSet
from levelwind.daemon.control.members.members_clock import MembersClock, MembersClocks
from levelwind.daemon.control.membership.subscribed_patterns import SubscribedPatterns
from levelwind.daemon.control.settings import ControlSettings, PlanSettings
from levelwind.daemon.control.state.freeze_state import FreezeState
from levelwind.daemon.control.state.group_table import GroupTable
from levelwind.daemon.control.state.plan_backlog import PlanBacklog, PlanBudget


class Postponement(NamedTuple):
    """The wait of a group whose records were refused."""

    pause: float
    """Length of the wait in seconds."""
    until: float
    """Time of the next attempt."""


class ControlState(Struct, frozen=True, kw_only=True):
    """Everything the control knows.

    Only the state that the last step returned may be used, and by the control's thread alone: a
    step changes `groups`, `backlog` and `patterns` in place. `Recovered` makes them anew.
    """

    instance: str
    """The name of this daemon, unique for each start."""
    settings: ControlSettings
    timers: Timers
    planning_of: Callable[[str], PlanSettings]
    """Returns the planning settings of a group, by its name."""
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """Mode of each group that is not managed, by its name."""
    members_partitions: int
    """Number of partitions of `levelwind.members`."""
    patterns: SubscribedPatterns = field(default_factory=SubscribedPatterns)
    """What the members' patterns match among `topics`; changed in place."""
    planner_epoch: int = 0
    """The epoch of this planner; before it leads, the highest that it knows from elsewhere."""
    leading_since: int = 0
    """When this planner began to lead, in milliseconds since the epoch."""
    announced_at: float = 0.0
    """Boot seconds at which this planner last published its own record."""
    topics: dict[str, TopicRecord] = field(default_factory=dict)
    """The layouts of the topics that are known, by name; a step that changes one makes the table
    anew."""
    brokers: Mapping[int, BrokerRecord] = field(default_factory=dict)
    """The brokers that are known, by id; metrics alone depend on them."""
    deleted_topics: frozenset[str] = frozenset()
    """Topics that were deleted, as opposed to topics that are not known yet."""
    members_clocks: Mapping[int, MembersClock] = field(default_factory=dict)
    """Readable time of each partition of `levelwind.members`, from the start on."""
    groups: GroupTable = field(default_factory=GroupTable)
    """The managed groups, by name, with their deadlines."""
    backlog: PlanBacklog = field(default_factory=PlanBacklog)
    """The groups that wait for a plan; changed in place."""
    budget: PlanBudget | None = None
    """How many plans a step may make, as the last tick said; None for as many as are due."""
    levers: LeverSet = field(default_factory=LeverSet)
    """The levers in force, of all groups."""
    freeze: FreezeState = field(default_factory=FreezeState)
    """Why planning is frozen for all groups, as the last tick said."""
    forgotten_epoch: int = 0
    """The highest epoch of any group that was forgotten: no new group has one at or below it."""
    postponed: Mapping[str, Postponement] = field(default_factory=dict)
    """Groups whose last records were refused, by name; an attempt that succeeds ends the entry."""

    @property
    def clocks(self) -> MembersClocks:
        """The readable times of all partitions of `levelwind.members`."""
        return MembersClocks(partitions=self.members_partitions, clocks=self.members_clocks)

    def context(self, clock: Clock) -> ControlContext:
        """Return the context that all groups share while one event is handled."""
        return ControlContext(
            settings=self.settings,
            timers=self.timers,
            topics=self.topics,
            deleted_topics=self.deleted_topics,
            planner_epoch=self.planner_epoch,
            members_clocks=self.clocks,
            now=clock.now,
            at=clock.at,
            frozen=self.freeze.reasons,
        )
