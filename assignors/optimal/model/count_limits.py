"""Limits on the counts of members: the most even counts, and how far load may depart from them.

Guarantees: the most even counts are within the limits of every slack, so the limits can be met, and
the limits of a slack are within those of every larger one. Where capacities differ, a slack above 0
is measured from the even counts or from those in proportion to capacity, whichever is farther.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.model.even_counts import Components
from levelwind.assignors.problem.columns import Bools, Floats, Longs

LEAST_BOUND = 8
"""Slack up to which counts may differ if no bound is set, however small the even count is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountLimits:
    """Counts of M members that plans may have."""

    even_min: Longs
    """M: the smaller of the most even counts."""
    even_max: Longs
    """M: the larger of the most even counts."""
    fair_min: Longs
    """M: the smaller of the even count and that in proportion to capacity."""
    fair_max: Longs
    """M: the larger of the even count and that in proportion to capacity."""
    bound: Longs
    """M: slack that no plan exceeds."""

    @property
    def largest_slack(self) -> int:
        """Largest slack of any member."""
        return int(self.bound.max(initial=0))

    def of_slack(self, slack: int) -> tuple[Longs, Longs]:
        """Fewest and most partitions of each member (M) at a slack."""
        if not slack:
            return self.even_min, self.even_max
        return (
            np.maximum(np.maximum(self.fair_min - slack, self.even_min - self.bound), 0),
            np.minimum(self.fair_max + slack, self.even_max + self.bound),
        )


def count_limits(
    even: Components, component: Longs, capacity: Floats, bound: int | None
) -> CountLimits:
    """Derive the limits of a group.

    Args:
        even: components of the most even counts.
        component: the component of each member (M); -1 if it is in none.
        capacity: records per second of each member (M).
        bound: slack that no plan may exceed; None for the even count itself, at least
            `LEAST_BOUND`.
    """
    inside = component >= 0
    even_min, even_max = np.zeros((2, len(component)), dtype=np.int64)
    even_min[inside] = even.quota[component[inside]]
    even_max[inside] = (even.quota + (even.extras > 0))[component[inside]]
    share = _proportional_share(even, component, inside, capacity)
    largest = np.maximum(even_max, LEAST_BOUND) if bound is None else np.full_like(even_min, bound)
    return CountLimits(
        even_min=even_min,
        even_max=even_max,
        fair_min=np.minimum(even_min, np.floor(share + 1e-9).astype(np.int64)),
        fair_max=np.maximum(even_max, np.ceil(share - 1e-9).astype(np.int64)),
        bound=np.where(inside, largest, 0),
    )


def _proportional_share(
    even: Components, component: Longs, inside: Bools, capacity: Floats
) -> Floats:
    """M: share of its component's partitions that is in proportion to the member's capacity."""
    components = len(even.quota)
    size = np.bincount(component[inside], minlength=components)
    total = even.quota * size + even.extras
    capacities = np.bincount(component[inside], weights=capacity[inside], minlength=components)
    share = np.zeros(len(component))
    share[inside] = (total / capacities)[component[inside]] * capacity[inside]
    return share
