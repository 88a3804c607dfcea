"""Single improvements once the load is right: lower cross-rack cost, or fewer moves.

Guarantees: a partition changes its owner, alone or in exchange, only if that lowers the chosen
objective (cross-rack cost, or the number of moves), worsens no objective before it, and keeps every
member within the limits of load and of counts.
Cost: O(P) for each partition that crosses racks, and those of its former owner for each that moves,
within the work budget.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

Aim: TypeAlias = Literal["cross_rack", "moves"]
"""The objective to lower."""

MAX_PASSES = 3
"""Passes over the improvable partitions: an exchange may make room for another."""


def improve(
    model: Model,
    owner: Ints,
    preferred_owner: Ints,
    limit: Floats,
    max_cross_rack_cost: int,
    budget: WorkBudget,
    aim: Aim,
) -> Ints:
    """Lower one objective of a plan; return the improved owners (P).

    Args:
        model: the problem.
        owner: the plan.
        preferred_owner: the member that should keep the partition (P); -1 for none.
        limit: longest time to drain that each member may have (M).
        max_cross_rack_cost: cross-rack cost that the plan may have.
        budget: how much may be tried.
        aim: the objective to lower.
    """
    search = _ImprovementSearch(
        WorkingPlan.of(model, owner, preferred_owner), limit, max_cross_rack_cost, aim
    )
    for _ in range(MAX_PASSES):
        improved = False
        for partition in search.improvable().tolist():
            if not budget.spend(3 * search.partitions_compared(partition)):
                return search.working.owner
            improved |= search.improve_partition(partition)
        if not improved:
            break
    return search.working.owner


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A partition that could have a better owner, and the members that could own it."""

    partition: int
    """The partition."""
    giver: int
    """Its owner."""
    takers: Longs
    """The members that could own it."""
    cross_rack_change: Longs
    """By taker: change of the cross-rack cost."""
    moves_change: Longs
    """By taker: change of the number of moves."""


@dataclass(frozen=True, slots=True)
class _ImprovementSearch:
    """A search for single moves and exchanges that lower one objective."""

    working: WorkingPlan
    limit: Floats
    """M: longest time to drain that the member may have."""
    max_cross_rack_cost: int
    """Cross-rack cost that the plan may have."""
    aim: Aim

    def improvable(self) -> Longs:
        """Partitions that could have a better owner, the most costly ones first."""
        working = self.working
        owned = np.flatnonzero(working.owner >= 0)
        if self.aim == "cross_rack":
            cost = working.model.cross_rack_cost(owned, working.owner[owned])
        else:
            is_away = (working.preferred_owner[owned] >= 0) & (
                working.preferred_owner[owned] != working.owner[owned]
            )
            cost = np.where(is_away, 1 + working.model.load[owned], 0)
        improvable = np.flatnonzero(cost > 0)
        return np.asarray(owned[improvable[np.argsort(-cost[improvable], kind="stable")]])

    def partitions_compared(self, partition: int) -> int:
        """How many partitions could come back for one: of all members, or of its preferred one."""
        if self.aim == "cross_rack":
            return len(self.working.owner)
        return int(self.working.member_count[self.working.preferred_owner[partition]])

    def improve_partition(self, partition: int) -> bool:
        """Give a partition a better owner; return whether one was found."""
        candidate = self._candidate(partition)
        found = (
            (self._find_move(candidate) or self._find_exchange(candidate)) if candidate else None
        )
        if candidate is None or found is None:
            return False
        taker, returned = found
        self.working.move(partition, taker)
        if returned is not None:
            self.working.move(returned, candidate.giver)
        return True

    def _candidate(self, partition: int) -> _Candidate | None:
        """A partition and its possible better owners; None if there are none."""
        model = self.working.model
        giver = int(self.working.owner[partition])
        takers = model.takers(partition)
        takers = takers[takers != giver]
        if self.aim == "moves":
            takers = takers[takers == self.working.preferred_owner[partition]]
        cross_rack_change = model.cross_rack_change(partition, giver, takers)
        if self.aim == "cross_rack":
            takers, cross_rack_change = (
                takers[cross_rack_change < 0],
                cross_rack_change[cross_rack_change < 0],
            )
        if not len(takers):
            return None
        moves_change = self.working.moves_change(partition, giver, takers)
        return _Candidate(partition, giver, takers, cross_rack_change, moves_change)

    def _acceptable(self, cross_rack_change: Longs, moves_change: Longs) -> Bools:
        """Whether a change lowers the objective and stays within the cross-rack limit."""
        wanted = cross_rack_change < 0 if self.aim == "cross_rack" else moves_change < 0
        return np.asarray(
            wanted
            & (
                self.working.total_cross_rack_cost + cross_rack_change
                <= max(self.max_cross_rack_cost, self.working.total_cross_rack_cost)
            )
        )

    def _find_move(self, candidate: _Candidate) -> tuple[int, int | None] | None:
        """The best taker of the partition alone; nothing comes back."""
        working, model = self.working, self.working.model
        if working.member_count[candidate.giver] <= model.min_count[candidate.giver]:
            return None
        takers = candidate.takers
        drain_after = (
            working.member_load[takers] + model.load[candidate.partition]
        ) / model.capacity[takers]
        acceptable = self._acceptable(candidate.cross_rack_change, candidate.moves_change)
        acceptable &= (working.member_count[takers] < model.max_count[takers]) & (
            drain_after <= self.limit[takers]
        )
        if not acceptable.any():
            return None
        return int(
            takers[
                np.lexsort(
                    (
                        takers,
                        drain_after,
                        candidate.moves_change,
                        candidate.cross_rack_change,
                        ~acceptable,
                    )
                )[0]
            ]
        ), None

    def _find_exchange(self, candidate: _Candidate) -> tuple[int, int | None] | None:
        """The best taker of the partition, and the partition that comes back."""
        working, model, giver = self.working, self.working.model, candidate.giver
        taker_index = np.full(len(model.member_class) + 1, -1, dtype=np.int64)  # the last: no owner
        taker_index[candidate.takers] = np.arange(len(candidate.takers))
        if len(candidate.takers) == 1:
            returns = working.partitions_of(int(candidate.takers[0]))
        else:
            returns = np.flatnonzero(taker_index[working.owner] >= 0)
        returns = returns[model.may_own(returns, giver)]
        taker = working.owner[returns]
        taker_position = taker_index[taker]
        gain = model.load[candidate.partition] - model.load[returns]
        cross_rack_change = candidate.cross_rack_change[taker_position]
        cross_rack_change += model.cross_rack_change(returns, taker, giver)
        moves_change = candidate.moves_change[taker_position]
        moves_change += working.moves_change(returns, taker, giver)
        acceptable = self._acceptable(cross_rack_change, moves_change)
        for member, load in ((giver, -gain), (taker, gain)):
            drain_after = (working.member_load[member] + load) / model.capacity[member]
            acceptable &= drain_after <= self.limit[member]
        options = np.flatnonzero(acceptable)
        if not len(options):
            return None
        first, second = (
            (cross_rack_change, moves_change)
            if self.aim == "cross_rack"
            else (moves_change, cross_rack_change)
        )
        chosen = options[np.lexsort((returns[options], second[options], first[options]))[0]]
        return int(taker[chosen]), int(returns[chosen])
