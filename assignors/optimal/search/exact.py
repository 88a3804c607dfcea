"""Exact plans of small groups.

Every plan is compared, by dynamic programming over sets of partitions.

Guarantees: members are visited in order; of each set of partitions that the members so far can own,
only the best way counts. The largest load is minimised on its own. Within a limit to it, the most
level plan has the lowest cross-rack cost, then the least loads in order, the largest first; within
the limits of all loads, the cross-rack cost comes first, then the moves, then how uneven the counts
are. Loads in order, too, can be minimised way by way: of two ways to own a set, the less level one
stays so whatever the other members get.
Ties: the last member gets the set with the lowest number.
Cost: sets times shares of a member; refused beyond `MAX_STATES`.
"""

import math
from dataclasses import dataclass
from itertools import product, repeat
from typing import TypeVar

import numpy as np

from levelwind.assignors.optimal.model.load_limits import ROUNDING, LoadLimits
from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

MAX_PARTITIONS = 13
"""Largest number of partitions of a component that is solved exactly."""
MAX_STATES = 1_500_000
"""Largest number of pairs of a set and a share of a component that is solved exactly."""
Values = TypeVar("Values", Longs, Floats)
MAX_RANKINGS = 96
"""Largest number of combinations of ranks that are told apart while limits of load are kept."""
INFINITE = np.iinfo(np.int64).max // 4
"""Cost of a set that cannot be reached."""


@dataclass(frozen=True, slots=True)
class _Subproblem:
    """N partitions and n members of one component; a set of partitions is an integer of N bits."""

    partitions: Longs
    """Partitions of the component; bit i of a set is partitions[i]."""
    members: Longs
    """Members of the component."""
    shares: list[Longs]
    """By member: the sets that count limits and subscriptions let it own."""
    reachable: list[Bools]
    """By member and set: whether the members up to it can own exactly the set."""

    def reachable_unions(
        self, index: int, reached: Longs, shares: Longs
    ) -> tuple[Longs, Longs, Longs]:
        """Unions of each reached set with each disjoint share of the member at an index.

        Returns the index of the reached set, the index of the share, and the union.
        """
        if index == len(self.members) - 1:
            # The last member gets all remaining partitions.
            rest = np.bitwise_xor(len(self.reachable[index]) - 1, reached)
            column = np.minimum(np.searchsorted(shares, rest), max(len(shares) - 1, 0))
            row = np.flatnonzero(shares[column] == rest) if len(shares) else rest[:0]
            return row, column[row], reached[row] | rest[row]
        row, column = np.nonzero((reached[:, None] & shares[None, :]) == 0)
        union = reached[row] | shares[column]
        possible = self.reachable[index][union]
        return row[possible], column[possible], union[possible]


@dataclass(frozen=True, slots=True)
class ExactProblem:
    """A group that is small enough to compare every plan within the model's count limits."""

    model: Model
    subproblems: tuple[_Subproblem, ...]
    """The components, which share neither partitions nor members."""

    def min_drain_time(self) -> float:
        """Return the least possible largest load of a member, in seconds."""
        return max((_min_drain_time(self.model, part) for part in self.subproblems), default=0.0)

    def most_level(self, limit: float) -> Ints:
        """Return the owners of the most level plan whose largest load is within a limit (P).

        Of the plans with the lowest cross-rack cost.
        """
        owner = np.full(len(self.model.reader_set), NOBODY, dtype=np.int32)
        for subproblem in self.subproblems:
            _assign_most_level(self.model, subproblem, limit, owner)
        return owner

    def cheapest(self, limits: LoadLimits) -> Ints | None:
        """Return the owners of the best plan whose loads are within their limits (P).

        None if the limits tell too many ranks apart.
        """
        owner = np.full(len(self.model.reader_set), NOBODY, dtype=np.int32)
        for number, subproblem in enumerate(self.subproblems):
            ranks = _Ranks.of(limits.of_component(number))
            if ranks.combinations > MAX_RANKINGS:
                return None
            _assign_cheapest(self.model, subproblem, ranks, owner)
        return owner


def exact_problem(model: Model) -> ExactProblem | None:
    """Prepare to compare every plan; None if the group is too large for that."""
    subproblems = []
    for number in range(len(model.components.quota)):
        subproblem = _subproblem(model, number)
        if subproblem is None:
            return None
        subproblems.append(subproblem)
    return ExactProblem(model, tuple(subproblems))


def _subproblem(model: Model, number: int) -> _Subproblem | None:
    """The subproblem of one component; None if it is too large."""
    partitions = np.flatnonzero(model.partition_component == number)
    if len(partitions) > MAX_PARTITIONS:
        return None
    members = np.flatnonzero(model.component == number)
    if len(members) * 2 ** len(partitions) > MAX_STATES:
        return None
    size = np.bitwise_count(np.arange(2 ** len(partitions), dtype=np.int64)).astype(np.int64)
    min_count, max_count = model.min_count[members], model.max_count[members]
    # How many partitions the members up to each one can own together, within all limits.
    fewest = np.maximum(
        np.cumsum(min_count), len(partitions) - (max_count.sum() - np.cumsum(max_count))
    )
    largest = np.minimum(
        np.cumsum(max_count), len(partitions) - (min_count.sum() - np.cumsum(min_count))
    )
    by_size = np.concatenate([[0], np.cumsum(np.bincount(size))])
    states = [1, *(by_size[largest + 1] - by_size[fewest])[:-1].tolist()]
    shares, reachable, cost = [], [], 0
    for index, member in enumerate(members.tolist()):
        member_shares = np.flatnonzero((size >= min_count[index]) & (size <= max_count[index]))
        not_allowed = ~model.may_own(partitions, np.full(1, member))
        excluded = int((not_allowed * 2 ** np.arange(len(partitions))).sum())
        shares.append(member_shares[(member_shares & excluded) == 0])
        reachable.append((size >= fewest[index]) & (size <= largest[index]))
        cost += states[index] * (len(shares[-1]) if index < len(members) - 1 else 1)
    return _Subproblem(partitions, members, shares, reachable) if cost <= MAX_STATES else None


def _subset_sums(values: Values) -> Values:
    """By set: the sum of the values of its partitions."""
    sums: Values = values[:0].sum(keepdims=True)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _min_drain_time(model: Model, subproblem: _Subproblem) -> float:
    """Least possible longest time to drain of the component's members."""
    load = _subset_sums(model.load[subproblem.partitions])
    reached = np.zeros(1, dtype=np.int64)
    value = np.zeros(1)
    for index, shares in enumerate(subproblem.shares):
        row, column, union = subproblem.reachable_unions(index, reached, shares)
        peak = np.maximum(
            value[row], load[shares[column]] / model.capacity[subproblem.members[index]]
        )
        best = np.full(len(load), np.inf)
        np.minimum.at(best, union, peak)
        reached = np.flatnonzero(best < np.inf)
        value = best[reached]
    return float(value[-1])


def _assign_most_level(model: Model, subproblem: _Subproblem, limit: float, owner: Ints) -> None:
    """Write the most level plan of a component into `owner`.

    Within the limit of the largest load: lowest cross-rack cost, then the least loads in order,
    then the most even counts.
    """
    partitions, members = subproblem.partitions, subproblem.members
    load = _subset_sums(model.load[partitions])
    size = np.bitwise_count(np.arange(len(load), dtype=np.int64)).astype(np.int64)
    width = min(len(members), len(partitions))
    reached = np.zeros(1, dtype=np.int64)
    cross, squares = np.zeros((2, 1), dtype=np.int64)
    loads = np.zeros((1, width))  # by reached set: times to drain, descending
    chosen = []  # by member: the share that it has in the best way to own a set, by set
    for index, member in enumerate(members.tolist()):
        shares = subproblem.shares[index]
        seconds = load[shares] / model.capacity[member]
        within = seconds <= limit
        shares, seconds = shares[within], seconds[within]
        cost = _subset_sums(model.cross_rack_cost(partitions, np.full(1, member)))
        row, column, union = subproblem.reachable_unions(index, reached, shares)
        kept = _least(union, cross[row] + cost[shares[column]])
        kept = kept[_least(union[kept], np.maximum(loads[row[kept], 0], seconds[column[kept]]))]
        grown = np.column_stack([loads[row[kept]], seconds[column[kept]]])
        grown = -np.sort(-grown, axis=1)[:, :width]
        for rank in range(1, width):
            least = _least(union[kept], grown[:, rank])
            kept, grown = kept[least], grown[least]
        most_even = _least(union[kept], squares[row[kept]] + size[shares[column[kept]]] ** 2)
        kept, grown = kept[most_even], grown[most_even]
        reached, first = np.unique(union[kept], return_index=True)
        row, share, loads = row[kept[first]], shares[column[kept[first]]], grown[first]
        cross, squares = cross[row] + cost[share], squares[row] + size[share] ** 2
        chosen.append(dict(zip(reached.tolist(), share.tolist(), strict=True)))
    remaining = len(load) - 1
    for index in range(len(members) - 1, -1, -1):
        share = chosen[index][remaining]
        _write_share(owner, subproblem, index, share)
        remaining ^= share


def _assign_cheapest(model: Model, subproblem: _Subproblem, ranks: "_Ranks", owner: Ints) -> None:
    """Write the best plan of a component into `owner`.

    Within the limits of the loads: lowest cross-rack cost, then fewest moves, then least load
    moved, then the most even counts.
    """
    partitions = subproblem.partitions
    load = _subset_sums(model.load[partitions])
    size = np.bitwise_count(np.arange(len(load), dtype=np.int64)).astype(np.int64)
    squares = len(partitions) * len(partitions) + 1
    costs, shares = [], []
    for member, member_shares in zip(subproblem.members.tolist(), subproblem.shares, strict=True):
        cost = _subset_sums(_ownership_costs(model, partitions, member)) * squares + size * size
        costs.append(cost)
        shares.append(ranks.split(member_shares, load[member_shares] / model.capacity[member]))
    stages = _cheapest_stages(subproblem, ranks, shares, costs)
    remaining = len(load) - 1
    taken = min(stages[-1], key=lambda taken: int(stages[-1][taken][remaining]))
    for index in range(len(costs) - 1, -1, -1):
        options: list[tuple[int, int, tuple[int, ...]]] = []
        for before, step in product(stages[index], range(len(shares[index]))):
            if ranks.take(before, step) == taken:
                own_shares = shares[index][step]
                own_shares = own_shares[(own_shares & ~remaining) == 0]
                total = stages[index][before][remaining ^ own_shares] + costs[index][own_shares]
                options += zip(total.tolist(), own_shares.tolist(), repeat(before), strict=False)
        _, share, taken = min(options)
        _write_share(owner, subproblem, index, share)
        remaining ^= share


def _cheapest_stages(
    subproblem: _Subproblem, ranks: "_Ranks", shares: list[list[Longs]], costs: list[Longs]
) -> list[dict[tuple[int, ...], Longs]]:
    """Least cost of each set for the members up to each one, by the ranks that they take.

    Args:
        subproblem: a component.
        ranks: the limits of its loads.
        shares: by member: the shares that it may have, by the limit that they are within.
        costs: by member: the cost of each set.
    """
    sets = len(costs[0])
    best = np.full(sets, INFINITE)
    best[0] = 0
    stages = [{ranks.none_taken: best}]
    for index, cost in enumerate(costs):
        stage: dict[tuple[int, ...], Longs] = {}
        for (taken, best), step in product(stages[-1].items(), range(len(shares[index]))):
            after, own_shares = ranks.take(taken, step), shares[index][step]
            if after is None or not len(own_shares):
                continue
            reached = np.flatnonzero(best < INFINITE)
            row, column, union = subproblem.reachable_unions(index, reached, own_shares)
            least = stage.setdefault(after, np.full(sets, INFINITE))
            np.minimum.at(least, union, best[reached[row]] + cost[own_shares[column]])
        stages.append(stage)
    return stages


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Limits of the ranks of a component, of which each member may use one."""

    limits: list[float]
    """Distinct limits, descending; the last one holds for any number of members."""
    room: tuple[int, ...]
    """Members that each of the others holds for."""

    @classmethod
    def of(cls, by_rank: Floats) -> "_Ranks":
        """The ranks of a component with these limits."""
        limits, count = np.unique(by_rank, return_counts=True)
        return cls(limits[::-1].tolist(), tuple(count[:0:-1].tolist()))

    @property
    def none_taken(self) -> tuple[int, ...]:
        """No rank is taken."""
        return (0,) * len(self.room)

    @property
    def combinations(self) -> int:
        """Ways in which ranks can be taken."""
        return math.prod(room + 1 for room in self.room)

    def split(self, shares: Longs, drain_time: Floats) -> list[Longs]:
        """Shares of a member by the lowest limit that they are within; others are left out."""
        fits = [drain_time <= limit * ROUNDING for limit in self.limits]
        lower = [*fits[1:], np.zeros(len(shares), np.bool_)]
        return [shares[own & ~less] for own, less in zip(fits, lower, strict=True)]

    def take(self, taken: tuple[int, ...], step: int) -> tuple[int, ...] | None:
        """The ranks taken once a member with such a share has the lowest free one; None if none.

        The lowest is the best choice: whoever comes later can use every higher one as well.
        """
        if step == len(self.room):
            return taken
        for rank in range(step, -1, -1):
            if taken[rank] < self.room[rank]:
                return (*taken[:rank], taken[rank] + 1, *taken[rank + 1 :])
        return None


def _least(sets: Longs, values: Values) -> Longs:
    """Indices of the values that are the least of their set."""
    _, number = np.unique(sets, return_inverse=True)
    least = np.full(int(number.max()) + 1, values.max(), values.dtype)
    np.minimum.at(least, number, values)
    return np.flatnonzero(values == least[number])


def _write_share(owner: Ints, subproblem: _Subproblem, index: int, share: int) -> None:
    """Write the partitions of a share of the member at an index into `owner`."""
    partitions = subproblem.partitions
    own = np.flatnonzero((share >> np.arange(len(partitions))) & 1)
    owner[partitions[own]] = subproblem.members[index]


def _ownership_costs(model: Model, partitions: Longs, member: int) -> Longs:
    """Cost of each partition if the member owns it.

    Lexicographic, in one integer: the cross-rack cost, then a move, then the rank of the load that
    moves.
    """
    rank = np.empty(len(partitions), dtype=np.int64)
    rank[np.lexsort((partitions, model.load[partitions]))] = np.arange(len(partitions))
    ranks = len(partitions) * len(partitions)
    held = model.keepable_owner[partitions]
    moved = (held >= 0) & (held != member)
    cross_rack_cost = model.cross_rack_cost(partitions, np.full(1, member))
    return np.asarray(cross_rack_cost * (ranks * (len(partitions) + 1)) + moved * (ranks + rank))
