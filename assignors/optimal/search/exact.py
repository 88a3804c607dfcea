"""Exact plans of small groups.

Every plan is compared, by dynamic programming over sets of partitions.

Guarantees: members are visited in order; of each set of partitions that the members so far can own,
only the best way counts. The largest load is minimised on its own; within a limit to it, the
cross-rack cost comes first, then the moves, then how uneven the counts are.
Ties: the last member gets the set with the lowest number.
Cost: sets times shares of a member; refused beyond `MAX_STATES`.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

MAX_PARTITIONS = 13
"""Largest number of partitions of a component that is solved exactly."""
MAX_STATES = 1_500_000
"""Largest number of pairs of a set and a share of a component that is solved exactly."""
Values = TypeVar("Values", Longs, Floats)
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

    def cheapest(self, limit: float) -> Ints:
        """Return the owners of the best plan whose largest load is within a limit (P)."""
        owner = np.full(len(self.model.reader_set), NOBODY, dtype=np.int32)
        for subproblem in self.subproblems:
            _assign_cheapest(self.model, subproblem, limit, owner)
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
    assignable = np.flatnonzero(model.assignable)
    component = model.components.of_reader_set[model.reader_set[assignable]]
    partitions = assignable[component == number]
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


def _assign_cheapest(model: Model, subproblem: _Subproblem, limit: float, owner: Ints) -> None:
    """Write the best plan of a component into `owner`.

    Within the limit of the load: lowest cross-rack cost, then fewest moves, then least load moved,
    then the most even counts.
    """
    partitions = subproblem.partitions
    load = _subset_sums(model.load[partitions])
    size = np.bitwise_count(np.arange(len(load), dtype=np.int64)).astype(np.int64)
    squares = len(partitions) * len(partitions) + 1
    costs = [
        _subset_sums(_ownership_costs(model, partitions, member)) * squares + size * size
        for member in subproblem.members.tolist()
    ]
    shares = [
        member_shares[load[member_shares] / model.capacity[member] <= limit]
        for member, member_shares in zip(
            subproblem.members.tolist(), subproblem.shares, strict=True
        )
    ]
    best = np.full(len(load), INFINITE)
    best[0] = 0
    stages = [best]
    for index, (cost, member_shares) in enumerate(zip(costs, shares, strict=True)):
        reached = np.flatnonzero(best < INFINITE)
        row, column, union = subproblem.reachable_unions(index, reached, member_shares)
        stage = np.full(len(load), INFINITE)
        np.minimum.at(stage, union, best[reached[row]] + cost[member_shares[column]])
        best = stage
        stages.append(best)
    remaining = len(load) - 1
    for index in range(len(costs) - 1, -1, -1):
        member_shares = shares[index][(shares[index] & ~remaining) == 0]
        total = stages[index][remaining ^ member_shares] + costs[index][member_shares]
        share = int(member_shares[np.argmin(total)])
        owner[partitions[np.flatnonzero((share >> np.arange(len(partitions))) & 1)]] = (
            subproblem.members[index]
        )
        remaining ^= share


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
