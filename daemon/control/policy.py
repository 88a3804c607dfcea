"""Planning policy: when a group is planned, and which plans are worth their moves. Pure.

The daemon and the simulation keep one `PolicyState` for each group and ask it the same questions in
the same order: is the last plan to be evaluated, what is `due`, may a plan be computed (`admit`),
and is the computed plan worth its moves (`admit_plan`). Changes of members and topics and an
operator's request get a plan as soon as they have settled. A trigger (racks, skew) gets one only
when its own cooldown is over and the last hand-over is complete, the plan gains `min_gain`, a plan
for skew saves more waiting than its hand-over costs (`levelwind.daemon.control.gain.waiting`), and
its moves fit the hourly budget of the cause; otherwise the trigger is suppressed and considered
again later, for as long as it is active.

Cooldowns are per cause (`levelwind.daemon.control.gain.cooldown`). Members, topics and requests
never wait for one: a partition without an owner cannot wait. All times are seconds on one monotonic
clock: the daemon's, or the simulated one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.assignors.problem.score import Score
from levelwind.assignors.protocol.partition_ranges import TopicPartition
from levelwind.daemon.control.gain.cooldown import TRIGGERED, CooldownState, ExpectedGain
from levelwind.daemon.control.gain.waiting import WaitingFigures
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Collection

    from levelwind.assignors.problem.drain import DrainFigures
    from levelwind.daemon.control.settings import ControlSettings


class Change(NamedTuple):
    """A change that a plan must follow."""

    first: float
    """Time at which the change began."""
    last: float
    """Time of its latest part: the change has settled a while after it."""

    def settled_at(self, settings: ControlSettings) -> float:
        """Return when it has stood still for long enough, or goes on too long to wait for it."""
        return min(self.last + settings.settle, self.first + settings.settle_max)


class Objection(StrEnum):
    """Objection to planning for an active trigger now; the values are texts of the log."""

    COOLDOWN = "cooling down"
    GAIN = "gains less than control.min_gain"
    COST = "saves too little waiting for what its hand-over costs"
    BUDGET = "its moves exceed the hour's budget"
    CONFIRMED = "confirmed"
    """The plan in force was found as good as any for the changed racks."""
    STALE = "its lag is older than control.lag_max_age"
    """The lag that raised the trigger is too old to plan by."""
    FROZEN = "planning is frozen"
    """A plan now would rest on inputs that cannot be trusted."""
    FAILED = "failed"
    """The strategy raised an error."""
    APPROVAL = "waits for approval"
    """The plan is worth its moves, and the group's settings ask for an operator's approval."""


UNGAINFUL = frozenset({Objection.GAIN, Objection.COST})
"""Objections to what a plan is worth: another one is computed only when that may have changed."""

RECONSIDERED_SECONDS = 60.0
"""Longest time after which an active trigger whose plan gained too little is considered again."""

LEAST_PAUSE_SECONDS = 1.0
"""Shortest time after which a plan that was not carried out is computed again: a tick comes sooner,
and `control.cooldown.duration` may be 0."""

HANDOVER_SECONDS = 1.0
"""Length of a hand-over of a group that has had none yet."""

LONGEST_HANDOVER_SECONDS = 60.0
"""Longest hand-over that is learned from: a longer one waited for a member that hung."""

HANDOVER_WEIGHT = 0.3
"""Weight of the newest hand-over in the mean length."""


def retry_pause(settings: ControlSettings) -> float:
    """Return the seconds after which a plan that was not carried out is computed again."""
    return max(settings.cooldown.duration, LEAST_PAUSE_SECONDS)


class Suppression(NamedTuple):
    """An active trigger that gets no plan for now."""

    objection: Objection
    until: float
    """Time at which the trigger is considered again."""
    pause: float = 0.0
    """Seconds from the objection until then; they double while a plan would gain too little."""


class Proposal(Struct, frozen=True, kw_only=True):
    """What a computed plan would change."""

    before: Score
    """The score of the assignment in force."""
    after: Score
    """The score of the plan."""
    waiting: WaitingFigures
    """Waiting with and without the plan."""
    moved: frozenset[TopicPartition]
    """The partitions that the plan takes from another member."""

    @property
    def moves(self) -> int:
        """Number of partitions that the plan moves."""
        return len(self.moved)

    def gained(self, cause: Cause) -> float:
        """Return the share by which the plan lowers the figure of its trigger."""
        if cause is Cause.RACKS:
            return _fallen(self.before.cross_rack, self.after.cross_rack)
        load = _fallen(self.before.drain_seconds, self.after.drain_seconds)
        return max(load, self.waiting.share)

    def expected_gain(self, cause: Cause) -> ExpectedGain | None:
        """Return what a plan because of skew is expected to bring; None for other causes."""
        if cause is not Cause.SKEW:
            return None
        return ExpectedGain(before=excess(self.before.drain), after=excess(self.after.drain))


def excess(figures: DrainFigures | None) -> float:
    """Return the seconds by which a load exceeds what it would be if all loads were level."""
    return 0.0 if figures is None else figures.excess


def _fallen(before: float | None, after: float | None) -> float:
    """Return the share by which a figure falls; 0 where there is none."""
    return (before - after) / before if before and after is not None else 0.0


class Situation(NamedTuple):
    """Facts about the group that `due` needs beyond the policy's own state."""

    has_members: bool
    """Whether any member is live."""
    settled: bool
    """Whether the last hand-over is complete."""
    raised: Collection[Cause]
    """The causes whose trigger is active."""
    requested: bool = False
    """Whether an operator asks for a plan."""
    frozen: bool = False
    """Whether nothing may move, because most members fell silent together."""
    awaited: bool = False
    """Whether all that changed is that members are gone whose partitions nobody can be granted
    yet: if they come back, they keep them."""
    paused: bool = False
    """Whether an operator has paused the group: no trigger gets a plan."""


class PolicyState(Struct, frozen=True, kw_only=True):
    """State that the policy keeps of one group."""

    changes: Mapping[Cause, Change] = field(default_factory=dict)
    """Changes that no plan has followed yet, by cause."""
    cooldown: CooldownState = field(default_factory=CooldownState)
    suppressed: Mapping[Cause, Suppression] = field(default_factory=dict)
    """Active triggers that get no plan for now, by cause."""
    handover: float = HANDOVER_SECONDS
    """Seconds that a hand-over of the group takes, by its own."""

    def changed(self, cause: Cause, now: float) -> PolicyState:
        """Note a change that a plan must follow once it has settled."""
        first = self.changes[cause].first if cause in self.changes else now
        return replace(self, changes={**self.changes, cause: Change(first, now)})

    def without_changes(self) -> PolicyState:
        """Forget the changes of members and topics: the plan in force fits the group as it is."""
        kept = self.changes.get(Cause.OPERATOR)
        return replace(self, changes={} if kept is None else {Cause.OPERATOR: kept})

    def without_change(self, cause: Cause) -> PolicyState:
        """Forget the change of one cause: it was undone before a plan followed it."""
        if cause not in self.changes:
            return self
        changes = {other: change for other, change in self.changes.items() if other is not cause}
        return replace(self, changes=changes)

    def resettled(self, now: float) -> PolicyState:
        """Let all changes settle from now on: only now is there a member to plan for."""
        return replace(self, changes={cause: Change(now, now) for cause in self.changes})

    def failed(self, cause: Cause, now: float, settings: ControlSettings) -> PolicyState:
        """Defer all causes by a cooldown, because computing a plan raised an error.

        The cause that failed comes last then: another one may fare better.
        """
        later = now + retry_pause(settings)
        in_order = sorted(self.changes, key=lambda changed: changed is cause)
        changes = {changed: Change(later, later) for changed in in_order}
        return replace(self, changes=changes).suppress(cause, Suppression(Objection.FAILED, later))

    def due(self, situation: Situation, now: float, settings: ControlSettings) -> Cause | None:
        """Return the most pressing cause of a plan now, None if there is none.

        Nothing is planned without members, nor before a change of them has settled: what else is
        due is planned for all that come together, and not for the first of them alone.
        """
        if not situation.has_members or self._gathering(now, settings):
            return None
        if situation.requested:
            return Cause.OPERATOR
        if situation.frozen or situation.awaited:
            return None
        for cause, change in self.changes.items():
            if now >= change.settled_at(settings):
                return cause
        if self.changes or not situation.settled:
            return None
        if situation.paused:
            return None
        for cause in TRIGGERED:
            suppression = self.suppressed.get(cause)
            if cause in situation.raised and (suppression is None or now >= suppression.until):
                return cause
        return None

    def _gathering(self, now: float, settings: ControlSettings) -> bool:
        """Whether members come and go now. A change that was put off keeps nothing waiting."""
        change = self.changes.get(Cause.MEMBERSHIP)
        return change is not None and change.first <= now < change.settled_at(settings)

    def due_at(self, situation: Situation, settings: ControlSettings) -> float:
        """Return the time from which `due` names a cause; infinite if it names none by itself.

        While a change of members settles, that time may be too early.
        """
        if not situation.has_members:
            return float("inf")
        if situation.requested:
            return float("-inf")
        if situation.frozen or situation.awaited:
            return float("inf")
        if self.changes:
            return min(change.settled_at(settings) for change in self.changes.values())
        if not situation.settled or situation.paused:
            return float("inf")
        waits = (
            suppression.until if (suppression := self.suppressed.get(cause)) else float("-inf")
            for cause in TRIGGERED
            if cause in situation.raised
        )
        return min(waits, default=float("inf"))

    def admit(self, cause: Cause, now: float) -> Suppression | None:
        """Return the objection to computing a plan for a cause that is due, None without one."""
        if self.cooldown.active(cause, now):
            return Suppression(Objection.COOLDOWN, self.cooldown.until(cause))
        return None

    def admit_plan(
        self, cause: Cause, proposal: Proposal, now: float, settings: ControlSettings
    ) -> Suppression | None:
        """Return the objection to carrying out a computed plan, None without one."""
        if cause not in TRIGGERED:
            return None
        pause = retry_pause(settings)
        if proposal.gained(cause) < settings.min_gain:
            return self._ungainful(cause, Objection.GAIN, now, pause)
        if cause is Cause.SKEW and not proposal.waiting.worthwhile:
            return self._ungainful(cause, Objection.COST, now, pause)
        if self.cooldown.over_budget(cause, proposal.moves, now, settings.cooldown):
            return Suppression(Objection.BUDGET, now + pause, pause)
        return None

    def _ungainful(
        self, cause: Cause, objection: Objection, now: float, least: float
    ) -> Suppression:
        """Return an objection that lasts the longer, the more often it was found in a row.

        A plan of a large group takes seconds to compute.
        """
        last = self.suppressed.get(cause)
        pause = least
        if last is not None and last.objection in UNGAINFUL:
            pause = min(max(2 * last.pause, least), max(RECONSIDERED_SECONDS, least))
        return Suppression(objection, now + pause, pause)

    def suppress(self, cause: Cause, suppression: Suppression) -> PolicyState:
        """Give a cause no plan for now, for the reason and the time of a suppression."""
        return replace(self, suppressed={**self.suppressed, cause: suppression})

    def reconsider(self, cause: Cause) -> PolicyState:
        """End the suppression of a cause: its trigger was raised again."""
        others = {
            other: suppression
            for other, suppression in self.suppressed.items()
            if other is not cause
        }
        return replace(self, suppressed=others)

    def planned(
        self, cause: Cause, proposal: Proposal, now: float, settings: ControlSettings
    ) -> PolicyState:
        """Take in a plan that is carried out; no change or suppression is left."""
        cooldown = self.cooldown.planned(
            cause, proposal.moved, proposal.expected_gain(cause), now, settings.cooldown
        )
        return PolicyState(cooldown=cooldown, handover=self.handover)

    def handed_over(self, cause: Cause, seconds: float) -> PolicyState:
        """Learn the length of a hand-over that is complete.

        Only hand-overs that a better plan caused count: others may wait for members that come, and
        for the timers of members that are gone.
        """
        if cause not in (*TRIGGERED, Cause.OPERATOR):
            return self
        seconds = min(seconds, LONGEST_HANDOVER_SECONDS)
        return replace(self, handover=self.handover + HANDOVER_WEIGHT * (seconds - self.handover))

    def evaluation_due(self, now: float) -> bool:
        """Whether the expected gain of the last plan is to be compared with the load now."""
        return self.cooldown.evaluation_due(now)

    def evaluated(self, excess: float, settings: ControlSettings) -> PolicyState:
        """Compare the last plan's expected gain with the excess of load in seconds now."""
        return replace(self, cooldown=self.cooldown.evaluate(excess, settings.cooldown))
