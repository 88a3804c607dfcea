"""What holds a group's plans back: the cool-down after a plan, and a budget of moves for each cause.

A cool-down starts at `cool_down` and doubles up to `cool_down_max` each time a plan turns out to have brought less than
half of what it promised; a plan that kept its promise brings it back to `cool_down`. Membership, topic changes and an
operator's word are never held back by a cool-down: a partition without an owner cannot wait. Time is monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from daemon.control.settings import Cause

if TYPE_CHECKING:
    from daemon.control.settings import CooldownSettings

HOUR = 3600.0


TRIGGERED = (Cause.RACKS, Cause.SKEW)
"""The causes that ask for a better plan, not for a possible one: these must gain, and wait for the cool-down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGain:
    """The skew a plan met and the skew it promised, to be compared when its cool-down ends."""

    before: float
    after: float

    def met(self, skew: float) -> bool:
        """Whether at least half of the promised fall came true."""
        return skew <= (self.before + self.after) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownState:
    """A group's cool-down and what it has spent of its budgets."""

    until: float = float("-inf")
    pause: float | None = None
    expected: ExpectedGain | None = None
    spent: tuple[tuple[float, Cause, int], ...] = ()

    def active(self, now: float) -> bool:
        """Whether a triggered plan must wait."""
        return now < self.until

    def over_budget(self, cause: Cause, moves: int, now: float, settings: CooldownSettings) -> bool:
        """Whether these moves would exceed what the cause may move in an hour."""
        limit = settings.moves_per_hour.get(cause)
        used = sum(
            moved for at, spender, moved in self.spent if spender is cause and at > now - HOUR
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
        """Start the cool-down of a plan just published."""
        pause = settings.duration if self.pause is None else self.pause
        recent = tuple(entry for entry in self.spent if entry[0] > now - HOUR)
        return CooldownState(
            until=now + pause,
            pause=pause,
            expected=expected,
            spent=(*recent, (now, cause, moves)) if moves else recent,
        )

    def evaluate(self, skew: float, now: float, settings: CooldownSettings) -> CooldownState:
        """Hold the last plan against its promise, once its cool-down is over."""
        if self.expected is None:
            return self
        if self.expected.met(skew):
            return replace(self, expected=None, pause=settings.duration)
        served = settings.duration if self.pause is None else self.pause
        pause = min(2 * served, settings.max_duration)
        # The pause already served counts towards the longer one.
        return replace(
            self, expected=None, pause=pause, until=max(self.until + pause - served, now)
        )
