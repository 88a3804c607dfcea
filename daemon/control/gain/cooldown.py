"""Cooldown: how long a trigger waits after a plan that it caused, and budgets of moves. Pure.

Each cause that a trigger raises has a cooldown of its own: a plan for changed members holds back no
plan for skew, which its own hand-over may make necessary. A cooldown lasts `duration`. A plan
because of skew that achieved less than half of its expected gain went by a wrong rate or speed, or
the arrivals have changed since: the next plan knows better and does not wait for longer. Only a
plan that repeats such plans, because it moves the same partitions once more, doubles the cooldown
that follows it, up to `max_duration`. A plan that met the expectation ends this. All times are
seconds on one monotonic clock: the daemon's, or the simulated one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.assignors.protocol.partition_ranges import TopicPartition
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Collection

    from levelwind.daemon.control.settings import CooldownSettings

HOUR_SECONDS = 3600.0

REPEATED_PAUSES = 3.0
"""Cooldowns for which a plan that achieved too little is remembered: two plans that undo each other
follow one cooldown after the other, and the same partitions move in every plan or in every other.
"""

TRIGGERED = (Cause.RACKS, Cause.SKEW)
"""Causes that a trigger raises: they ask for a better plan, while other causes need a valid one. A
better plan must gain, and waits for the cooldown of its cause."""


class ExpectedGain(Struct, frozen=True, kw_only=True):
    """The gain that a plan because of skew is expected to bring by the end of its cooldown."""

    before: float
    """Seconds by which a load exceeded what it would be if all were level, before the plan."""
    after: float
    """The same seconds as expected after the plan."""

    def met(self, excess: float) -> bool:
        """Whether the excess in seconds fell by at least half of what was expected."""
        return excess <= (self.before + self.after) / 2


class CauseCooldown(Struct, frozen=True, kw_only=True):
    """The cooldown of one cause."""

    until: float
    """End of the cooldown."""
    pause: float
    """Length of the cooldown in seconds."""


class CooldownState(Struct, frozen=True, kw_only=True):
    """A group's cooldowns, and the moves of the last hour."""

    causes: Mapping[Cause, CauseCooldown] = field(default_factory=dict)
    """The cooldown that the last plan of a cause started, by cause; none before its first plan."""
    expected: ExpectedGain | None = None
    """Expected gain of the last plan, if its cause was skew; None once it is evaluated."""
    spent: tuple[tuple[float, Cause, int], ...] = ()
    """Time, cause and moves of each plan of the last hour."""
    tried: Mapping[TopicPartition, float] | None = field(default_factory=dict)
    """Time at which each partition was last moved by a plan because of skew that is not known to
    have met its expectation; None: not known, since another daemon made the last plan."""

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
        moved: Collection[TopicPartition],
        expected: ExpectedGain | None,
        now: float,
        settings: CooldownSettings,
    ) -> CooldownState:
        """Take in a plan just published; one that a trigger caused starts its cause's cooldown.

        Args:
            cause: cause of the plan.
            moved: partitions that the plan moves.
            expected: gain that is to be evaluated at the end of the cooldown, if any.
            now: monotonic seconds.
            settings: lengths of cooldowns.
        """
        causes, tried = dict(self.causes), self.tried
        if cause in TRIGGERED:
            pause = self._next_pause(cause, moved, now, settings)
            causes[cause] = CauseCooldown(until=now + pause, pause=pause)
        if cause is Cause.SKEW:
            kept = now - REPEATED_PAUSES * causes[cause].pause
            before = {name: at for name, at in (tried or {}).items() if at >= kept}
            tried = before | dict.fromkeys(moved, now)
        recent = tuple(entry for entry in self.spent if entry[0] > now - HOUR_SECONDS)
        return CooldownState(
            causes=causes,
            expected=expected,
            spent=(*recent, (now, cause, len(moved))) if moved else recent,
            tried=tried,
        )

    def _next_pause(
        self,
        cause: Cause,
        moved: Collection[TopicPartition],
        now: float,
        settings: CooldownSettings,
    ) -> float:
        """Return the seconds that a cause waits after a plan that moves some partitions."""
        served = self.pause(cause)
        if served is None:
            return settings.duration
        if cause is not Cause.SKEW or self.tried is None:
            return served
        since = now - REPEATED_PAUSES * served
        again = sum(self.tried.get(partition, float("-inf")) >= since for partition in moved)
        repeats = again > 0 and 2 * again >= len(moved)
        return min(2 * served, settings.max_duration) if repeats else settings.duration

    def evaluation_due(self, now: float) -> bool:
        """Whether the expected gain of the last plan is to be compared with the load now."""
        return self.expected is not None and not self.active(Cause.SKEW, now)

    @property
    def evaluation_at(self) -> float:
        """Time from which the evaluation of a plan with an expected gain is due."""
        return self.until(Cause.SKEW)

    def evaluate(self, excess: float, settings: CooldownSettings) -> CooldownState:
        """Compare the last plan's expected gain with the load at the end of its cooldown.

        Args:
            excess: seconds by which a load exceeds what it would be if all were level, now.
            settings: lengths of cooldowns.
        """
        if self.expected is None:
            return self
        if not self.expected.met(excess):
            return replace(self, expected=None)
        skew = CauseCooldown(until=self.until(Cause.SKEW), pause=settings.duration)
        causes = {**self.causes, Cause.SKEW: skew}
        return replace(self, expected=None, causes=causes, tried={})
