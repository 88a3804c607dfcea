"""When a simulated group is planned anew: the product's own rules, on figures instead of records.

Skew is judged by `streaming.skew`, racks by `streaming.racks`, cool-downs, promises and budgets by `daemon.restraint`, and a
triggered plan must gain `min_gain` by `daemon.decisions.gained`, as in `daemon.decisions`. Changed membership is planned once
it has settled; the same members as at the last plan need none. All strategies are asked by the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.control.cooldown import (
    TRIGGERED,
    CooldownState,
    ExpectedGain,
)
from daemon.control.policy import gained
from daemon.control.settings import Cause
from streaming.rules.racks import changes
from streaming.rules.skew import (
    SkewRule,
    SkewRun,
    next_run,
)

if TYPE_CHECKING:
    from assignors.problem.score import Score
    from daemon.control.settings import ControlSettings
    from daemon.simulation.fleet import Racks


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides, the same for every strategy; times in seconds."""

    control: ControlSettings
    skew: SkewRule
    dead_after: float
    """A member that was not heard for so long is gone, …"""
    grant: float
    """… and what it had is given to others so much later."""


@dataclass(slots=True, kw_only=True)
class Control:
    """What the control knows of one group."""

    rules: Rules
    members: frozenset[int]
    racks: Racks  # as it stands
    basis: frozenset[int] = frozenset()  # the members of the last plan
    planned_racks: Racks = ()  # of the last plan
    changed: tuple[float, float] | None = None  # when membership first and last changed since then
    cooldown: CooldownState = field(default_factory=CooldownState)
    run: SkewRun = field(default_factory=SkewRun)
    racks_changed: bool = False
    suppressed_until: dict[Cause, float] = field(default_factory=dict)  # until when
    handing_over_until: float = float("-inf")
    suppressed: int = 0

    def membership(self, members: frozenset[int], now: float) -> None:
        """Take note of who is there."""
        if members != self.members:
            self.members = members
            self.changed = (self.changed[0] if self.changed else now, now)

    def laid_out(self, racks: Racks, *, known: bool) -> None:
        """Take note of where replicas stand; `known`: some member has a rack."""
        self.racks = racks
        self.racks_changed = known and bool(changes(self.planned_racks, racks))

    def sampled(self, now: float, *, skew: float, lag: int, seconds: float) -> None:
        """Take note of a sample of lag, and hold the last plan against its promise once its cool-down is over."""
        self.run = next_run(
            self.rules.skew, self.run, at=round(now * 1000), skew=skew, lag=lag, seconds=seconds
        )
        if self.cooldown.expected is not None and not self.cooldown.active(now):
            self.cooldown = self.cooldown.evaluate(skew, now, self.rules.control.cooldown)

    def due(self, now: float) -> Cause | None:
        """What asks for a plan now, the most pressing first."""
        if self.changed is not None:
            first, last = self.changed
            settings = self.rules.control
            if now - last < settings.settle and now - first < settings.settle_max:
                return None
            if self.members != self.basis:
                return Cause.MEMBERSHIP if self.members else None
            self.changed = None  # who left came back before anybody was planned for
        if now < self.handing_over_until or not self.members:
            return None
        stands = {Cause.RACKS: self.racks_changed, Cause.SKEW: self.run.active}
        for cause in TRIGGERED:
            if not stands[cause] or now < self.suppressed_until.get(cause, float("-inf")):
                continue
            if self.cooldown.active(now):
                self._turn_down(cause, self.cooldown.until)
                continue
            return cause
        return None

    def allows(self, cause: Cause, before: Score, after: Score, moves: int, now: float) -> bool:
        """Whether a plan is worth its moves; if not, its cause waits."""
        if cause not in TRIGGERED:
            return True
        settings = self.rules.control
        if gained(cause, before, after) >= settings.min_gain:
            if not self.cooldown.over_budget(cause, moves, now, settings.cooldown):
                return True
        elif (
            cause is Cause.RACKS
        ):  # the plan that stands is as good: it is held against the new racks from now on
            self.planned_racks, self.racks_changed = self.racks, False
        self._turn_down(cause, now + settings.cooldown.duration)
        return False

    def planned(
        self, cause: Cause, before: Score, after: Score, moves: int, now: float, settled: float
    ) -> None:
        """Take note of a plan that is carried out, and will have been at `settled`."""
        expected = None
        if (
            cause is Cause.SKEW
            and before.lag_max_over_mean is not None
            and after.lag_max_over_mean is not None
        ):
            expected = ExpectedGain(before=before.lag_max_over_mean, after=after.lag_max_over_mean)
        settings = self.rules.control.cooldown
        self.cooldown = self.cooldown.planned(cause, moves, expected, now, settings)
        self.basis, self.changed, self.suppressed_until = self.members, None, {}
        self.planned_racks, self.racks_changed = self.racks, False
        self.handing_over_until = max(self.handing_over_until, settled)

    def _turn_down(self, cause: Cause, until: float) -> None:
        self.suppressed_until[cause] = until
        self.suppressed += 1
