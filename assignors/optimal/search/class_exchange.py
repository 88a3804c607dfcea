"""Load levelled between kinds of members before it is dealt within them.

Law: counts stay. The most loaded kind exchanges heavy partitions for lighter ones of a less loaded kind, until the two are
even; until the most loaded cannot be lowered. First by exchanges after which nothing crosses racks that did not; where load must
be paid for, then by those that bring most for what they cost.
Cost: O(P log P) for an exchange between few kinds; where members differ so much that kinds are many, within the effort.
"""

from dataclasses import dataclass

import numpy as np

from assignors.optimal.model.model import (
    Model,
    summed,
)
from assignors.optimal.model.work_budget import WorkBudget
from assignors.problem.columns import (
    Bools,
    Floats,
    Longs,
    radix,
)

CLOSE = 0.25  # of the tolerance: kinds need not be more even than this
TAKERS = 12  # kinds that are tried before the most loaded is left as it is
PAID = 0.5  # of the tolerance: what evenness is worth a price


def levelled_kinds(
    terms: Model, there: Longs, kind: Longs, effort: WorkBudget, *, racks: bool, pay: bool = False
) -> None:
    """Change the kinds that taken partitions go to, in place.

    Args:
        terms: the problem.
        there: the taken partitions.
        kind: by partition, the kind that it goes to.
        effort: how much may be tried.
        racks: whether the weight across racks counts.
        pay: whether more may cross where load needs it.
    """
    kinds = len(terms.signature)
    desk = _Desk(
        terms,
        there,
        kind,
        racks,
        effort,
        summed(terms.kind, terms.capacity, kinds),
        summed(kind[there], terms.load[there], kinds),
        _by_kind(there, kind, kinds),
    )
    block = terms.blocks.of_signature[terms.signature]
    for number in range(len(terms.blocks.level)):
        mine = np.flatnonzero(block == number)
        desk.level(mine, CLOSE, pay=False)
        if pay:
            desk.level(mine, PAID, pay=True)


def _by_kind(there: Longs, kind: Longs, kinds: int) -> dict[int, Longs]:
    ends = np.cumsum(np.bincount(kind[there], minlength=kinds))
    return dict(enumerate(np.split(there[radix(kind[there], kinds)], ends[:-1])))


@dataclass(frozen=True, slots=True)
class _Desk:
    terms: Model
    there: Longs
    kind: Longs
    racks: bool
    effort: WorkBudget
    capacity: Floats  # by kind
    work: Floats  # by kind
    mine: dict[int, Longs]  # by kind: its partitions, as far as they are known

    def level(self, mine: Longs, close: float, *, pay: bool) -> None:
        """Exchange between kinds of one block."""
        mean = float(self.work[mine].sum() / self.capacity[mine].sum())
        limit = mean * (1 + close * self.terms.wishes.load_tolerance)
        for _ in range(4 * len(mine)):
            ratio = self.work[mine] / self.capacity[mine]
            giver = int(mine[np.argmax(ratio)])
            takers = mine[np.argsort(ratio, kind="stable")][: TAKERS + 1]
            if ratio.max() <= limit or not any(
                self._exchanged(giver, taker, pay=pay) for taker in takers[takers != giver].tolist()
            ):
                break

    def _exchanged(self, giver: int, taker: int, *, pay: bool) -> bool:
        """Exchange until two kinds are even, or nothing suits any more."""
        own, other = self.capacity[giver], self.capacity[taker]
        goal = (self.work[giver] * other - self.work[taker] * own) / (own + other)
        size = len(self._of(giver)) + len(self._of(taker))
        if goal <= 0 or not self.effort.spend(size):
            return False
        gone, come = self._pairs(giver, taker, pay=pay)
        if not pay:  # evenly from all of them: neither kind shall lose all that is heavy or all that is light
            total = float((self.terms.load[gone] - self.terms.load[come]).sum())
            share = np.arange(len(gone) + 1) * min(goal / total, 1.0) if total else np.zeros(1)
            some = np.flatnonzero(np.diff(np.floor(share)))
            if len(some):
                gone, come = gone[some], come[some]
        gain = self.terms.load[gone] - self.terms.load[come]
        fits = int(np.searchsorted(np.cumsum(gain), goal, side="right"))
        chosen = slice(0, fits)
        if not fits:  # the one that comes nearest
            if not len(gain) or gain[nearest := int(np.argmin(np.abs(gain - goal)))] >= 2 * goal:
                return False
            chosen = slice(nearest, nearest + 1)
        self.kind[gone[chosen]], self.kind[come[chosen]] = taker, giver
        del self.mine[giver], self.mine[taker]
        moved = float(gain[chosen].sum())
        self.work[giver] -= moved
        self.work[taker] += moved
        return True

    def _of(self, kind: int) -> Longs:
        """A kind's partitions, ascending."""
        if kind not in self.mine:
            self.mine[kind] = self.there[self.kind[self.there] == kind]
        return self.mine[kind]

    def _pairs(self, giver: int, taker: int, *, pay: bool) -> tuple[Longs, Longs]:
        """What could go, and what could come for each; each pair lowers the giver, the best ones first."""
        gone, price = self._able(giver, taker)
        come, back = self._able(taker, giver)
        if not pay:
            return self._matched(gone[price <= 0], come[back <= 0])
        # One side pays: the heavy that leave their racks, or the light ones that do.
        ways = [
            self._matched(gone, come[back <= 0], price),
            self._matched(gone[price <= 0], come),
            self._matched(gone, come, price),
        ]
        load = self.terms.load
        return max(ways, key=lambda way: float(load[way[0][:1]].sum() - load[way[1][:1]].sum()))

    def _matched(self, gone: Longs, come: Longs, price: Longs | None = None) -> tuple[Longs, Longs]:
        load = self.terms.load
        worth = load[gone] if price is None else load[gone] / np.maximum(price, 1)
        gone = gone[np.argsort(-worth, kind="stable")]
        come = come[np.argsort(load[come], kind="stable")]
        pairs = min(len(gone), len(come))
        gone, come = gone[:pairs], come[:pairs]
        better: Bools = np.asarray(load[gone] > load[come])
        return gone[better], come[better]

    def _able(self, here: int, onward: int) -> tuple[Longs, Longs]:
        """Which of one kind's partitions may go to another, and what that adds across racks."""
        terms = self.terms
        parts = self._of(here)
        parts = parts[terms.allowed[terms.reader_set[parts], onward]]
        if not self.racks:
            return parts, np.zeros(len(parts), dtype=np.int64)
        sets = terms.rackset[parts]
        away = (
            terms.far[sets, terms.rack[onward]].astype(np.int64) - terms.far[sets, terms.rack[here]]
        )
        return parts, away * terms.weight[parts]
