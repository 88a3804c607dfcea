"""Single improvements once load is right: less across racks, and fewer moves.

Law: a partition changes its owner, alone or in exchange, only where that lowers what is asked for (weight across racks, or the
number of moves), raises nothing that comes before it, and leaves everybody within the limit of load and the limits of counts.
Cost: O(P) for each partition that could be better off, within the effort.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from assignors.optimal.model.model import Model
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.model.working_plan import WorkingPlan
from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
)

Aim: TypeAlias = Literal["crossing", "moves"]

PASSES = 3  # over what could be better off: an exchange may make room for another


def settled(
    terms: Model, owner: Ints, held: Ints, limit: float, crossing: int, effort: WorkBudget, aim: Aim
) -> Ints:
    """A plan with less of what is aimed at; the time to drain stays within the limit, and what crosses racks too."""
    search = _Search(WorkingPlan.of(terms, owner, held), limit, crossing, aim)
    for _ in range(PASSES):
        better = False
        for partition in search.wrong().tolist():
            if not effort.spend(3 * len(owner)):
                return search.bench.owner
            better |= search.improved(partition)
        if not better:
            break
    return search.bench.owner


@dataclass(frozen=True, slots=True)
class _Wish:
    """A partition that could be better off, and who could have it."""

    partition: int
    giver: int
    takers: Longs
    far: Longs  # by taker: what more crosses racks
    moves: Longs  # by taker: how many more moves that is


@dataclass(frozen=True, slots=True)
class _Search:
    bench: WorkingPlan
    limit: float
    crossing: int
    aim: Aim

    def wrong(self) -> Longs:
        """What could be better off, the weightiest first."""
        bench = self.bench
        owned = np.flatnonzero(bench.owner >= 0)
        if self.aim == "crossing":
            cost = bench.terms.crossing(owned, bench.owner[owned])
        else:
            away = (bench.held[owned] >= 0) & (bench.held[owned] != bench.owner[owned])
            cost = np.where(away, 1 + bench.terms.load[owned], 0)
        wrong = np.flatnonzero(cost > 0)
        return np.asarray(owned[wrong[np.argsort(-cost[wrong], kind="stable")]])

    def improved(self, partition: int) -> bool:
        """Better one partition's place, if that can be."""
        wish = self._wish(partition)
        found = (self._shift(wish) or self._exchange(wish)) if wish else None
        if wish is None or found is None:
            return False
        taker, back = found
        self.bench.give(partition, taker)
        if back is not None:
            self.bench.give(back, wish.giver)
        return True

    def _wish(self, partition: int) -> _Wish | None:
        terms = self.bench.terms
        giver = int(self.bench.owner[partition])
        one = np.array([partition])
        takers = np.flatnonzero(terms.allowed[terms.reader_set[partition]][terms.kind])
        takers = takers[takers != giver]
        if self.aim == "moves":
            takers = takers[takers == self.bench.held[partition]]
        far = terms.crossing(one, takers) - terms.crossing(one, np.array([giver]))
        if self.aim == "crossing":
            takers, far = takers[far < 0], far[far < 0]
        if not len(takers):
            return None
        moves = self._moved(one, takers) - self._moved(one, np.array([giver]))
        return _Wish(partition, giver, takers, far, moves)

    def _moved(self, partitions: Longs, members: Longs | Ints) -> Longs:
        held = self.bench.held[partitions]
        return np.asarray((held >= 0) & (held != members), dtype=np.int64)

    def _good(self, far: Longs, moves: Longs) -> Bools:
        """Whether a change of these costs is wanted and allowed."""
        wanted = far < 0 if self.aim == "crossing" else moves < 0
        return np.asarray(
            wanted & (self.bench.crossed + far <= max(self.crossing, self.bench.crossed))
        )

    def _shift(self, wish: _Wish) -> tuple[int, int | None] | None:
        """To whom it goes alone."""
        bench, terms = self.bench, self.bench.terms
        if bench.count[wish.giver] <= terms.least[wish.giver]:
            return None
        takers = wish.takers
        after = (bench.work[takers] + terms.load[wish.partition]) / terms.capacity[takers]
        good = self._good(wish.far, wish.moves)
        good &= (bench.count[takers] < terms.most[takers]) & (after <= self.limit)
        if not good.any():
            return None
        return int(takers[np.lexsort((takers, after, wish.moves, wish.far, ~good))[0]]), None

    def _exchange(self, wish: _Wish) -> tuple[int, int | None] | None:
        """To whom it goes, and what comes back for it."""
        bench, terms, giver = self.bench, self.bench.terms, np.array([wish.giver])
        at = np.full(len(terms.kind) + 1, -1, dtype=np.int64)  # the last: nobody
        at[wish.takers] = np.arange(len(wish.takers))
        theirs = np.flatnonzero(at[bench.owner] >= 0)
        theirs = theirs[terms.may(theirs, giver)]
        taker = bench.owner[theirs]
        place = at[taker]
        gain = terms.load[wish.partition] - terms.load[theirs]
        far = wish.far[place] + terms.crossing(theirs, giver) - terms.crossing(theirs, taker)
        moves = wish.moves[place] + self._moved(theirs, giver) - self._moved(theirs, taker)
        good = self._good(far, moves)
        good &= (bench.work[wish.giver] - gain) / terms.capacity[wish.giver] <= self.limit
        good &= (bench.work[taker] + gain) / terms.capacity[taker] <= self.limit
        best = np.flatnonzero(good)
        if not len(best):
            return None
        first, second = (far, moves) if self.aim == "crossing" else (moves, far)
        chosen = best[np.lexsort((theirs[best], second[best], first[best]))[0]]
        return int(taker[chosen]), int(theirs[chosen])
