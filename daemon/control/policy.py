"""Planning policy: when a group is planned, and which plans are worth their moves. Pure.

The daemon and the simulation keep one `PolicyState` for each group and ask it the same questions in
the same order: is the last plan to be evaluated, what is `due`, may a plan be computed (`admit`),
and is the computed plan worth its moves (`admit_plan`). Changes of members and topics and an
operator's request get a plan as soon as they have settled. A trigger (racks, skew) gets one only
when the group is not in its cooldown and its last hand-over is complete, the plan gains `min_gain`,
and its moves fit the hourly budget of the cause; otherwise the trigger is suppressed and considered
again later, for as long as it is active.

A cooldown lasts `duration`, and doubles up to `max_duration` each time a plan turns out to have
achieved less than half of its expected gain; a plan that met the expectation resets it. Members,
topics and requests never wait for a cooldown: a partition without an owner cannot wait. All times
are seconds on one monotonic clock: the daemon's, or the simulated one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from assignors.problem.score import Score
    from daemon.control.settings import ControlSettings, CooldownSettings


HOUR_SECONDS = 3600.0

TRIGGERED = (Cause.RACKS, Cause.SKEW)
"""Causes that a trigger raises: they ask for a better plan, while other causes need a valid one. A
better plan must gain, and waits for the cooldown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGain:
    """The gain that a plan because of skew is expected to bring by the end of its cooldown."""

    before: float
    """The skew before the plan."""
    after: float
    """The skew expected after the plan."""

    def met(self, skew: float) -> bool:
        """Whether the skew fell by at least half of what was expected."""
        return skew <= (self.before + self.after) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownState:
    """A group's cooldown, and the moves of the last hour."""

    until: float = float("-inf")
    """End of the cooldown."""
    pause: float | None = None
    """Length of the cooldown in seconds; None before the first plan."""
    expected: ExpectedGain | None = None
    """Expected gain of the last plan, if its cause was skew; None once it is evaluated."""
    spent: tuple[tuple[float, Cause, int], ...] = ()
    """Time, cause and moves of each plan of the last hour."""

    def active(self, now: float) -> bool:
        """Whether a triggered plan must wait."""
        return now < self.until

    def over_budget(self, cause: Cause, moves: int, now: float, settings: CooldownSettings) -> bool:
        """Whether these moves would exceed the cause's limit of moves an hour."""
        limit = settings.moves_per_hour.get(cause)
        used = sum(
            moved
            for at, spender, moved in self.spent
            if spender is cause and at > now - HOUR_SECONDS
        )
        return limit is not None and used + moves > limit

    def planned(
        self,
        cause: Cause,
        moves: int,
        expected: ExpectedGain | None,
        now: float,
        settings: CooldownSettings,
    ) -> CooldownState:
        """Start the cooldown of a plan just published."""
        pause = settings.duration if self.pause is None else self.pause
        recent = tuple(entry for entry in self.spent if entry[0] > now - HOUR_SECONDS)
        return CooldownState(
            until=now + pause,
            pause=pause,
            expected=expected,
            spent=(*recent, (now, cause, moves)) if moves else recent,
        )

    def evaluate(self, skew: float, now: float, settings: CooldownSettings) -> CooldownState:
        """Compare the last plan's expected gain with the skew at the end of its cooldown."""
        if self.expected is None:
            return self
        if self.expected.met(skew):
            return replace(self, expected=None, pause=settings.duration)
        served = settings.duration if self.pause is None else self.pause
        pause = min(2 * served, settings.max_duration)
        # The pause already served counts towards the longer one.
        until = max(self.until + pause - served, now)
        return replace(self, expected=None, pause=pause, until=until)


class Change(NamedTuple):
    """A change that a plan must follow."""

    first: float
    """Time at which the change began."""
    last: float
    """Time of its latest part: the change has settled a while after it."""


class Objection(StrEnum):
    """Objection to planning for an active trigger now; the values are texts of the log."""

    COOLDOWN = "cooling down"
    GAIN = "gains less than control.min_gain"
    BUDGET = "its moves exceed the hour's budget"
    CONFIRMED = "confirmed"
    """The plan in force was found as good as any for the changed racks."""
    STALE = "its lag is older than control.lag_max_age"
    """The lag that raised the trigger is too old to plan by."""
    FAILED = "failed"
    """The strategy raised an error."""


class Suppression(NamedTuple):
    """An active trigger that gets no plan for now."""

    objection: Objection
    until: float
    """Time at which the trigger is considered again."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """State that the policy keeps of one group."""

    changes: Mapping[Cause, Change] = field(default_factory=dict)
    """Changes that no plan has followed yet, by cause."""
    cooldown: CooldownState = field(default_factory=CooldownState)
    suppressed: Mapping[Cause, Suppression] = field(default_factory=dict)
    """Active triggers that get no plan for now, by cause."""

    def changed(self, cause: Cause, now: float) -> PolicyState:
        """Note a change that a plan must follow once it has settled."""
        first = self.changes[cause].first if cause in self.changes else now
        return replace(self, changes={**self.changes, cause: Change(first, now)})

    def without_changes(self) -> PolicyState:
        """Forget the changes: the plan in force fits the group as it is."""
        return replace(self, changes={})

    def due(self, situation: Situation, now: float, settings: ControlSettings) -> Cause | None:
        """Return the most pressing cause of a plan now, None if there is none."""
        if situation.requested and situation.has_members:
            return Cause.OPERATOR
        if situation.frozen:
            return None
        for cause, change in self.changes.items():
            if now - change.last >= settings.settle or now - change.first >= settings.settle_max:
                return cause
        if not situation.has_members or self.changes or not situation.settled:
            return None
        for cause in TRIGGERED:
            suppression = self.suppressed.get(cause)
            if cause in situation.raised and (suppression is None or now >= suppression.until):
                return cause
        return None

    def admit(self, cause: Cause, now: float) -> Suppression | None:
        """Return the objection to computing a plan for a cause that is due, None without one."""
        if cause in TRIGGERED and self.cooldown.active(now):
            return Suppression(Objection.COOLDOWN, self.cooldown.until)
        return None

    def admit_plan(
        self,
        cause: Cause,
        before: Score,
        after: Score,
        moves: int,
        now: float,
        settings: ControlSettings,
    ) -> Suppression | None:
        """Return the objection to carrying out a computed plan, None without one.

        Args:
            cause: the cause that the plan was computed for.
            before: the score of the assignment in force.
            after: the score of the plan.
            moves: number of partitions that the plan moves.
            now: monotonic seconds.
            settings: the limits.
        """
        if cause not in TRIGGERED:
            return None
        later = now + settings.cooldown.duration
        if gained(cause, before, after) < settings.min_gain:
            return Suppression(Objection.GAIN, later)
        if self.cooldown.over_budget(cause, moves, now, settings.cooldown):
            return Suppression(Objection.BUDGET, later)
        return None

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

    def failed(self, cause: Cause, now: float, settings: ControlSettings) -> PolicyState:
        """Defer all causes by a cooldown, because computing a plan raised an error."""
        later = now + settings.cooldown.duration
        changes = {changed: Change(later, later) for changed in self.changes}
        return replace(self, changes=changes).suppress(cause, Suppression(Objection.FAILED, later))

    def planned(
        self,
        cause: Cause,
        before: Score,
        after: Score,
        moves: int,
        now: float,
        settings: ControlSettings,
    ) -> PolicyState:
        """Start the cooldown of a plan that is carried out; no change or suppression is left."""
        cooldown = self.cooldown.planned(
            cause, moves, _expected_gain(cause, before, after), now, settings.cooldown
        )
        return PolicyState(cooldown=cooldown)

    def evaluation_due(self, now: float) -> bool:
        """Whether the expected gain of the last plan is to be compared with the skew now."""
        return self.cooldown.expected is not None and not self.cooldown.active(now)

    def evaluated(self, skew: float, now: float, settings: ControlSettings) -> PolicyState:
        """Compare the last plan's expected gain with the skew now, which sets the next cooldown."""
        return replace(self, cooldown=self.cooldown.evaluate(skew, now, settings.cooldown))


def gained(cause: Cause, before: Score, after: Score) -> float:
    """Return the share by which a plan lowers the figure of its trigger; 0 where there is none."""
    if cause is Cause.RACKS:
        was, becomes = before.cross_rack, after.cross_rack
    else:
        was, becomes = before.lag_max_over_mean, after.lag_max_over_mean
    return (was - becomes) / was if was and becomes is not None else 0.0


def _expected_gain(cause: Cause, before: Score, after: Score) -> ExpectedGain | None:
    was, becomes = before.lag_max_over_mean, after.lag_max_over_mean
    if cause is not Cause.SKEW or was is None or becomes is None:
        return None
    return ExpectedGain(before=was, after=becomes)
