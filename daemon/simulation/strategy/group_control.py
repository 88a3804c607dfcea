"""Control of one simulated group: the daemon's policy, on figures instead of records.

`PolicyState` is the daemon's own: what is due, which plans are admitted, cooldowns, expected gains
and budgets. `levelwind.streaming.rules.skew` judges skew and `levelwind.streaming.rules.racks`
changed racks, as in the pipeline. This module adds the facts that the daemon learns from records:
the members, the racks, and when a hand-over is complete. The same rules hold for every strategy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.daemon.control.policy import Objection, PolicyState, Situation, Suppression
from levelwind.daemon.control.settings import Cause
from levelwind.streaming.rules.racks import changes
from levelwind.streaming.rules.skew import SkewRule, SkewRun, next_run

if TYPE_CHECKING:
    from levelwind.daemon.control.policy import Proposal
    from levelwind.daemon.control.settings import ControlSettings
    from levelwind.daemon.simulation.fleet import Racks
    from levelwind.streaming.rules.skew import SkewFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules by which the control plans, the same for every strategy; times in seconds."""

    control: ControlSettings
    skew: SkewRule
    dead_after: float
    """Silence after which a member counts as dead."""
    grant: float
    """Wait from the death of a member until its partitions may be given to others."""


@dataclass(slots=True, kw_only=True)
class Control:
    """The control's state of one group; changed in place, tick by tick."""

    rules: Rules
    members: frozenset[int]
    """The members that the control believes to be live."""
    racks: Racks
    """The newest layout."""
    policy: PolicyState = field(default_factory=PolicyState)
    basis: frozenset[int] = frozenset()
    """The members of the last plan."""
    awaited: bool = False
    """Whether members are gone since the last plan whose partitions nobody can be granted yet, and
    nothing else has changed."""
    planned_racks: Racks = ()
    """The layout of the last plan."""
    racks_changed: bool = False
    """Whether the racks trigger is active."""
    run: SkewRun = field(default_factory=SkewRun)
    handing_over_until: float = float("-inf")
    """Time at which the last hand-over is complete, in seconds from the start of the world."""
    suppressed: int = 0
    """Number of times that a trigger was suppressed."""

    def membership(self, members: frozenset[int], barred: frozenset[int], now: float) -> None:
        """Take in the live members, and those whose partitions nobody else can be granted yet."""
        gone = self.basis - members
        self.awaited = bool(gone) and members < self.basis and gone <= barred
        if members != self.members:
            self.members = members
            self.policy = self.policy.changed(Cause.MEMBERSHIP, now)

    def racks_observed(self, racks: Racks, *, rack_aware: bool) -> None:
        """Take in the racks of the replicas; `rack_aware`: some member has a rack."""
        self.racks = racks
        self.racks_changed = rack_aware and bool(changes(self.planned_racks, racks))

    def sampled(self, now: float, figures: SkewFigures) -> None:
        """Take in a sample of load, and evaluate the last plan once its cooldown is over."""
        self.run = next_run(self.rules.skew, self.run, figures, at=round(now * 1000))
        if self.policy.evaluation_due(now):
            excess = max(figures.heaviest - figures.best, 0.0)
            self.policy = self.policy.evaluated(excess, self.rules.control)

    def due(self, now: float) -> Cause | None:
        """Return the cause to compute a plan for now, None if there is none."""
        situation = self._situation(now)
        while (cause := self.policy.due(situation, now, self.rules.control)) is not None:
            if cause is Cause.MEMBERSHIP and self.members == self.basis:
                self.policy = self.policy.without_changes()  # a member came back before a plan
            elif cause is Cause.MEMBERSHIP and not self.members:
                return None
            elif suppression := self.policy.admit(cause, now):
                self._suppress(cause, suppression)
            else:
                return cause
        return None

    def _situation(self, now: float) -> Situation:
        raised = {Cause.RACKS: self.racks_changed, Cause.SKEW: self.run.active}
        return Situation(
            has_members=bool(self.members),
            settled=now >= self.handing_over_until,
            awaited=self.awaited,
            raised={cause for cause, active in raised.items() if active},
        )

    def allows(self, cause: Cause, proposal: Proposal, now: float) -> bool:
        """Return whether a plan is worth its moves; suppress its cause if it is not."""
        suppression = self.policy.admit_plan(cause, proposal, now, self.rules.control)
        if suppression is None:
            return True
        if suppression.objection is Objection.GAIN and cause is Cause.RACKS:
            # The plan in force is as good, so it is taken to be made for the new racks.
            self.planned_racks, self.racks_changed = self.racks, False
        self._suppress(cause, suppression)
        return False

    def planned(self, cause: Cause, proposal: Proposal, now: float, settled: float) -> None:
        """Take in a plan that is carried out; its hand-over is complete at the time `settled`."""
        self.policy = self.policy.planned(cause, proposal, now, self.rules.control)
        if proposal.moves:
            self.policy = self.policy.handed_over(cause, settled - now)
        self.basis, self.planned_racks, self.racks_changed = self.members, self.racks, False
        self.handing_over_until = max(self.handing_over_until, settled)

    def _suppress(self, cause: Cause, suppression: Suppression) -> None:
        self.policy = self.policy.suppress(cause, suppression)
        self.suppressed += 1
