"""Limits of load by rank: how long the most loaded member may take, the next one, and so on.

Law: of the plans that are as good in the largest load and in racks, the *most level* one has the
lexicographically least loads, the largest first. In it, the members of a component are ranked by
load. Down from the first rank at which the load is within the tolerance of the mean of all that
remain, these members are level, and all have one limit: that mean with the tolerance. Above it, a
member has the load of its rank with the tolerance; ranks within the tolerance of each other share
the limit of the highest. A plan is level enough if, sorted, its loads are within these limits.

Limits can be *widened* by a share, for plans that save moves. Those of members that read one
partition alone stay: they are late enough with it.

Guarantees: the most level plan is within its own limits. In a group that can be level, one limit
holds for all members. A load within the floor is within every limit.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

ROUNDING = 1 + 1e-12
"""Ratio of a load to its limit that the last digit may make."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadLimits:
    """Longest times to drain of the members of a group, by rank."""

    component: Longs
    """M: the component of each member; -1 if it is in none."""
    by_rank: Floats
    """M: seconds, by component and then by rank. Invariant: within a component they descend."""
    unsplit: Bools
    """M: whether the member of the rank reads next to nothing but one partition, which no plan can
    split, in the most level plan."""

    @property
    def largest(self) -> float:
        """Longest time to drain of any member, in seconds."""
        return float(self.by_rank.max(initial=0.0))

    def of_component(self, component: int) -> Floats:
        """Limits of the ranks of one component, descending."""
        return np.asarray(self.by_rank[np.sort(self.component) == component])

    def widened(
        self, share: float, *, moderate: float = 0.0, moderate_share: float = 0.0
    ) -> "LoadLimits":
        """Limits that are larger by a share; whoever reads an unsplit partition gets nothing else.

        So the limits of such members stay.

        Args:
            share: how much larger each limit is.
            moderate: seconds of load that are not much.
            moderate_share: how much larger a limit is as far as it is no more than that.
        """
        wide = np.minimum(self.by_rank * (1 + moderate_share), moderate)
        wide = np.maximum(self.by_rank * (1 + share), wide)
        by_rank = np.where(self.unsplit, self.by_rank, wide)
        component = np.sort(self.component)
        for number in np.unique(component).tolist():
            ranks = np.flatnonzero(component == number)[::-1]  # a limit is never below the next one
            by_rank[ranks] = np.maximum.accumulate(by_rank[ranks])
        return replace(self, by_rank=by_rank)

    def of_members(self, drain_time: Floats) -> Floats:
        """Limit of each member (M), by its rank among the times to drain of all (M)."""
        limit = np.empty(len(self.by_rank))
        limit[_by_rank(self.component, drain_time)] = self.by_rank
        return limit

    def met(self, drain_time: Floats) -> bool:
        """Whether the times to drain of all members (M) are within the limits."""
        return bool((drain_time <= self.of_members(drain_time) * ROUNDING).all())


def load_limits(model: Model, owner: Ints, largest: float) -> LoadLimits:
    """Derive the limits from the most level plan that is known.

    Args:
        model: the problem; its components are those of the limits.
        owner: that plan.
        largest: limit of the largest load, in seconds.
    """
    acceptable, drain_time = model.options.acceptable_drain_time, model.drain_time(owner)
    order = _by_rank(model.component, drain_time)
    mean = mean_of_rest(model, drain_time)[order].tolist()
    component, seconds = model.component[order].tolist(), drain_time[order].tolist()
    limits: list[float] = []
    level = False
    for rank, load in enumerate(seconds):
        if not rank or component[rank] != component[rank - 1]:
            level, highest = False, load
        if not level and load <= acceptable(mean[rank]):
            level, limit = True, acceptable(mean[rank])
        elif not level:
            if acceptable(load) < highest:
                highest = load
            limit = acceptable(highest)
        limits.append(min(limit, largest))
    heaviest = np.zeros(len(model.capacity))
    owned = np.flatnonzero(owner >= 0)
    np.maximum.at(heaviest, owner[owned], model.load[owned])
    alone = heaviest / model.capacity * (1 + model.options.load_tolerance)
    unsplit = (drain_time <= alone * ROUNDING) & (drain_time > 0)
    return LoadLimits(
        component=model.component,
        by_rank=np.array(limits, np.float64),
        unsplit=unsplit[order],
    )


def mean_of_rest(model: Model, drain_time: Floats) -> Floats:
    """Mean load of each member (M) and those below it in its component, in seconds.

    It is what they would have if the load of all of them were level.
    """
    order = _by_rank(model.component, drain_time)
    component, capacity = model.component[order], model.capacity[order]
    work = drain_time[order] * capacity
    mean = np.empty(len(order))
    starts = [0, *(np.flatnonzero(np.diff(component)) + 1).tolist(), len(order)]
    for start, end in pairwise(starts):
        ranks = slice(start, end)
        rest_work = np.cumsum(work[ranks][::-1])
        rest_capacity = np.cumsum(capacity[ranks][::-1])
        mean[order[ranks]] = (rest_work / rest_capacity)[::-1]
    return mean


def _by_rank(component: Longs, drain_time: Floats) -> Longs:
    """Members in order of their component, the most loaded of each first."""
    return np.lexsort((-drain_time, component))
