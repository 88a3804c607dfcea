"""Cooldown: how long a trigger waits after a plan that it caused, and budgets of moves. Pure.

Each cause that a trigger raises has a cooldown of its own: a plan for changed members holds back no
plan for skew, which its own hand-over may make necessary. A cooldown lasts `duration`, and doubles
up to `max_duration` each time a plan because of skew turns out to have achieved less than half of
its expected gain; a plan that met the expectation resets it. All times are seconds on one monotonic
clock: the daemon's, or the simulated one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.settings import CooldownSettings

HOUR_SECONDS = 3600.0

TRIGGERED = (Cause.RACKS, Cause.SKEW)
"""Causes that a trigger raises: they ask for a better plan, while other causes need a valid one. A
better plan must gain, and waits for the cooldown of its cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGain:
    """The gain that a plan because of skew is expected to bring by the end of its cooldown."""

    before: float
    """Seconds by which a load exceeded what it would be if all were level, before the plan."""
    after: float
    """The same seconds as expected after the plan."""

    def met(self, excess: float) -> bool:
        """Whether the excess in seconds fell by at least half of what was expected."""
        return excess <= (self.before + self.after) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCooldown:
    """The cooldown of one cause."""

    until: float
    """End of the cooldown."""
    pause: float
    """Length of the cooldown in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownState:
    """A group's cooldowns, and the moves of the last hour."""

    causes: Mapping[Cause, CauseCooldown] = field(default_factory=dict)
    """The cooldown that the last plan of a cause started, by cause; none before its first plan."""
    expected: ExpectedGain | None = None
    """Expected gain of the last plan, if its cause was skew; None once it is evaluated."""
    spent: tuple[tuple[float, Cause, int], ...] = ()
    """Time, cause and moves of each plan of the last hour."""

    def until(self, cause: Cause) -> float:
        """Return the end of a cause's cooldown; minus infinity where it has none."""
        cooldown = self.causes.get(cause)
        return float("-inf") if cooldown is None else cooldown.until

    def pause(self, cause: Cause) -> float | None:
        """Return the length of a cause's cooldown in seconds; None before its first plan."""
        cooldown = self.causes.get(cause)
        return None if cooldown is None else cooldown.pause

    def active(self, cause: Cause, now: float) -> bool:
        """Whether a plan of a cause must wait."""
        return now < self.until(cause)

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
        """Take in a plan just published; one that a trigger caused starts its cause's cooldown."""
        causes = dict(self.causes)
        if cause in TRIGGERED:
            served = self.pause(cause)
            pause = settings.duration if served is None else served
            causes[cause] = CauseCooldown(until=now + pause, pause=pause)
        recent = tuple(entry for entry in self.spent if entry[0] > now - HOUR_SECONDS)
        return CooldownState(
            causes=causes,
            expected=expected,
            spent=(*recent, (now, cause, moves)) if moves else recent,
        )

    def evaluation_due(self, now: float) -> bool:
        """Whether the expected gain of the last plan is to be compared with the load now."""
        return self.expected is not None and not self.active(Cause.SKEW, now)

    @property
    def evaluation_at(self) -> float:
        """Time from which the evaluation of a plan with an expected gain is due."""
        return self.until(Cause.SKEW)

    def evaluate(self, excess: float, now: float, settings: CooldownSettings) -> CooldownState:
        """Compare the last plan's expected gain with the load at the end of its cooldown.

        Args:
            excess: seconds by which a load exceeds what it would be if all were level, now.
            now: monotonic seconds.
            settings: lengths of cooldowns.
        """
        if self.expected is None:
            return self
        served = self.pause(Cause.SKEW) or settings.duration
        if self.expected.met(excess):
            return self._evaluated(self.until(Cause.SKEW), settings.duration)
        pause = min(2 * served, settings.max_duration)
        # The pause already served counts towards the longer one.
        return self._evaluated(max(self.until(Cause.SKEW) + pause - served, now), pause)

    def _evaluated(self, until: float, pause: float) -> CooldownState:
        skew = CauseCooldown(until=until, pause=pause)
        return replace(self, expected=None, causes={**self.causes, Cause.SKEW: skew})
