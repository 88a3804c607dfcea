"""Balance the load between member classes before it is dealt within them.

Guarantees: counts stay. The most loaded class exchanges heavy partitions for lighter ones of a less
loaded class until the two are even, and so on until the most loaded class cannot be lowered: first
by exchanges without cross-rack cost, then, if load may be paid for, by those with the best ratio of
load to cost.
Cost: O(P log P) for an exchange between few classes; within the work budget where members differ so
much that classes are many.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.model.model import Model, sum_by_index
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.problem.columns import Bools, Floats, Longs, radix

FREE_TOLERANCE_SHARE = 0.25
"""Share of the load tolerance to which classes are balanced at no cross-rack cost."""
PAID_TOLERANCE_SHARE = 0.5
"""Share of the load tolerance to which classes are balanced even at a cross-rack cost."""
MAX_TAKERS = 12
"""Classes that are tried before the most loaded class is left as it is."""


def balance_classes(
    model: Model,
    partitions: Longs,
    member_class: Longs,
    budget: WorkBudget,
    *,
    racks: bool,
    pay: bool = False,
) -> None:
    """Change the member classes that partitions go to, in place.

    Args:
        model: the problem.
        partitions: the assignable partitions.
        member_class: the class that each partition goes to (P); changed.
        budget: how much may be tried.
        racks: whether the cross-rack cost counts.
        pay: whether the cross-rack cost may rise where load needs it.
    """
    class_count = model.class_count
    exchange = _ClassExchange(
        model,
        partitions,
        member_class,
        racks,
        budget,
        sum_by_index(model.member_class, model.capacity, class_count),
        sum_by_index(member_class[partitions], model.load[partitions], class_count),
        _partitions_by_class(partitions, member_class, class_count),
    )
    component = model.components.of_eligibility[model.eligibility]
    for number in range(len(model.components.quota)):
        classes = np.flatnonzero(component == number)
        exchange.balance(classes, FREE_TOLERANCE_SHARE, pay=False)
        if pay:
            exchange.balance(classes, PAID_TOLERANCE_SHARE, pay=True)


def _partitions_by_class(
    partitions: Longs, member_class: Longs, class_count: int
) -> dict[int, Longs]:
    """Partitions of each class, ascending."""
    ends = np.cumsum(np.bincount(member_class[partitions], minlength=class_count))
    return dict(
        enumerate(np.split(partitions[radix(member_class[partitions], class_count)], ends[:-1]))
    )


@dataclass(frozen=True, slots=True)
class _ClassExchange:
    """State of the exchanges; `member_class` and `load` change with each of them."""

    model: Model
    partitions: Longs
    """The assignable partitions."""
    member_class: Longs
    """P: the member class that the partition goes to."""
    racks: bool
    """Whether the cross-rack cost counts."""
    budget: WorkBudget
    capacity: Floats
    """C: total capacity of the class."""
    load: Floats
    """C: total load of the class."""
    cached_partitions: dict[int, Longs]
    """By class: its partitions, ascending; absent after an exchange until the next use."""

    def balance(self, classes: Longs, tolerance_share: float, *, pay: bool) -> None:
        """Exchange between the classes of one component."""
        mean = float(self.load[classes].sum() / self.capacity[classes].sum())
        limit = mean * (1 + tolerance_share * self.model.options.load_tolerance)
        for _ in range(4 * len(classes)):
            ratio = self.load[classes] / self.capacity[classes]
            giver = int(classes[np.argmax(ratio)])
            takers = classes[np.argsort(ratio, kind="stable")][: MAX_TAKERS + 1]
            if ratio.max() <= limit or not any(
                self._exchange(giver, taker, pay=pay) for taker in takers[takers != giver].tolist()
            ):
                break

    def _exchange(self, giver: int, taker: int, *, pay: bool) -> bool:
        """Exchange until two classes are even; return whether anything was exchanged."""
        own, other = self.capacity[giver], self.capacity[taker]
        goal = (self.load[giver] * other - self.load[taker] * own) / (own + other)
        size = len(self._partitions_of(giver)) + len(self._partitions_of(taker))
        if goal <= 0 or not self.budget.spend(size):
            return False
        leaving, returning = self._pairs(giver, taker, pay=pay)
        if not pay:
            # Choose evenly from all pairs: neither class is to lose all its heavy partitions, or
            # all its light ones.
            total = float((self.model.load[leaving] - self.model.load[returning]).sum())
            share = np.arange(len(leaving) + 1) * min(goal / total, 1.0) if total else np.zeros(1)
            sampled = np.flatnonzero(np.diff(np.floor(share)))
            if len(sampled):
                leaving, returning = leaving[sampled], returning[sampled]
        gain = self.model.load[leaving] - self.model.load[returning]
        fits = int(np.searchsorted(np.cumsum(gain), goal, side="right"))
        chosen = slice(0, fits)
        if not fits:  # take the pair that comes nearest to the goal
            if not len(gain) or gain[nearest := int(np.argmin(np.abs(gain - goal)))] >= 2 * goal:
                return False
            chosen = slice(nearest, nearest + 1)
        self.member_class[leaving[chosen]], self.member_class[returning[chosen]] = taker, giver
        del self.cached_partitions[giver], self.cached_partitions[taker]
        moved = float(gain[chosen].sum())
        self.load[giver] -= moved
        self.load[taker] += moved
        return True

    def _partitions_of(self, member_class: int) -> Longs:
        """Partitions of a class, ascending."""
        if member_class not in self.cached_partitions:
            self.cached_partitions[member_class] = self.partitions[
                self.member_class[self.partitions] == member_class
            ]
        return self.cached_partitions[member_class]

    def _pairs(self, giver: int, taker: int, *, pay: bool) -> tuple[Longs, Longs]:
        """Partitions that could leave the giver, and the partition that could return for each.

        Each pair lowers the giver; the best pairs come first.
        """
        leaving, leaving_cost = self._candidates(giver, taker)
        returning, returning_cost = self._candidates(taker, giver)
        if not pay:
            return self._match(leaving[leaving_cost <= 0], returning[returning_cost <= 0])
        # One side pays the cross-rack cost: the heavy partitions, the light ones, or both.
        options = [
            self._match(leaving, returning[returning_cost <= 0], leaving_cost),
            self._match(leaving[leaving_cost <= 0], returning),
            self._match(leaving, returning, leaving_cost),
        ]
        load = self.model.load
        return max(
            options, key=lambda pairs: float(load[pairs[0][:1]].sum() - load[pairs[1][:1]].sum())
        )

    def _match(
        self, leaving: Longs, returning: Longs, cost: Longs | None = None
    ) -> tuple[Longs, Longs]:
        """Pair leaving with lighter returning partitions.

        The heaviest ones, or with a cost those with most load for it, pair with the lightest.
        """
        load = self.model.load
        worth = load[leaving] if cost is None else load[leaving] / np.maximum(cost, 1)
        leaving = leaving[np.argsort(-worth, kind="stable")]
        returning = returning[np.argsort(load[returning], kind="stable")]
        pairs = min(len(leaving), len(returning))
        leaving, returning = leaving[:pairs], returning[:pairs]
        better: Bools = np.asarray(load[leaving] > load[returning])
        return leaving[better], returning[better]

    def _candidates(self, source: int, destination: int) -> tuple[Longs, Longs]:
        """Partitions of one class that may go to another, and the cost of each.

        The cost is the change of the cross-rack cost.
        """
        model = self.model
        partitions = self._partitions_of(source)
        partitions = partitions[model.allowed[model.reader_set[partitions], destination]]
        if not self.racks:
            return partitions, np.zeros(len(partitions), dtype=np.int64)
        rack_set = model.rack_set[partitions]
        remote_change = (
            model.rack_remote[rack_set, model.class_rack[destination]].astype(np.int64)
            - model.rack_remote[rack_set, model.class_rack[source]]
        )
        return partitions, remote_change * model.weight[partitions]
