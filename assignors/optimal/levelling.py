"""The most loaded members relieved, by moves and exchanges that keep counts, and racks, as they are.

Law: the most loaded member passes a partition on, or exchanges one, with the taker with which the pair of them comes lowest.
Below the limit nothing more is asked: of the steps that reach it, the one that moves fewest partitions from their holders and
least across racks is taken. It ends when nobody is above the limit, the most loaded cannot be lowered, or the effort is spent;
where what is reached is good enough already, also when a step brings too little.
Ties: members and partitions by number.
"""

from typing import NamedTuple

import numpy as np

from assignors.columns import Floats, Ints, Longs
from assignors.optimal.bench import Bench
from assignors.optimal.chains import chained
from assignors.optimal.effort import Effort
from assignors.optimal.terms import Terms

WIDEST = 96  # partitions of a member that are tried against another's
TAKERS = 4  # members that are tried before the best step is taken
MORE_TAKERS = 48  # and when none of them will do
WORTH = 32  # steps to the limit, as long as this one, that are still worth it where what is reached is good enough


class Step(NamedTuple):
    """A partition to a taker, perhaps one back; better ones are smaller."""

    peak: float  # what the more loaded of the two has then, at least the limit
    moves: int
    crossing: int
    exact: float  # the same below the limit too
    taker: int
    partition: int
    back: int  # -1 none


def levelled(
    terms: Terms,
    owner: Ints,
    held: Ints,
    limit: float,
    effort: Effort,
    *,
    crossing: int | None,
    enough: float = 0.0,
) -> Ints:
    """A plan with the most loaded members relieved.

    Args:
        terms: the problem.
        owner: the plan.
        held: by partition, who should keep it; -1 nobody.
        limit: the time to drain that is aimed at.
        effort: how much may be tried.
        crossing: the weight that may cross racks; None: as much as it takes.
        enough: the time to drain that is good enough, where it is above the limit.
    """
    if terms.drain(owner) <= limit:
        return owner
    bench = Bench.of(terms, owner, held)
    while True:
        drain = bench.drain()
        giver = int(np.argmax(drain))
        if drain[giver] <= limit:
            break
        good = bool(drain[giver] <= enough)
        takers = _takers(bench, giver, drain)[: TAKERS if good else MORE_TAKERS]
        step = _best(bench, giver, takers, limit, effort, crossing)
        if good and (step is None or (drain[giver] - step.peak) * WORTH < drain[giver] - limit):
            break
        if step is None:
            if chained(bench, giver, effort, crossing):
                continue
            break
        bench.give(step.partition, step.taker)
        if step.back >= 0:
            bench.give(step.back, giver)
    return bench.owner


def _takers(bench: Bench, giver: int, drain: Floats) -> Longs:
    """Who could relieve a member, the least loaded first."""
    block = bench.terms.block
    takers = np.flatnonzero((block == block[giver]) & (drain < drain[giver]))
    return takers[np.argsort(drain[takers], kind="stable")]


def _best(
    bench: Bench, giver: int, takers: Longs, limit: float, effort: Effort, crossing: int | None
) -> Step | None:
    best: Step | None = None
    for number, taker in enumerate(takers.tolist()):
        if best is not None and (number >= TAKERS or (best.peak <= limit and best.moves <= 0)):
            break
        mine, theirs = bench.of_member(giver), bench.of_member(taker)
        if not effort.spend(min(len(mine), WIDEST) * min(len(theirs) + 1, WIDEST)):
            return best
        step = _step(bench, giver, taker, limit, crossing)
        if step is not None and (best is None or step < best):
            best = step
    return best


def _step(bench: Bench, giver: int, taker: int, limit: float, crossing: int | None) -> Step | None:
    """The best step between two members, if any lowers the higher of them."""
    terms = bench.terms
    gone = bench.of_member(giver)
    gone = _thinned(terms, gone[terms.may(gone, np.full(1, taker)) & (terms.load[gone] > 0)])
    come = bench.of_member(taker)
    come = _thinned(terms, come[terms.may(come, np.full(1, giver))])
    shift = bench.count[giver] > terms.least[giver] and bench.count[taker] < terms.most[taker]
    if not len(gone) or not (len(come) or shift):
        return None
    gain = terms.load[gone][:, None] - np.append(terms.load[come], 0.0)[None, :]
    if not shift:
        gain[:, -1] = -1.0
    peak = np.maximum(
        (bench.work[giver] - gain) / terms.capacity[giver], (bench.work[taker] + gain) / terms.capacity[taker]
    )
    now = bench.work[giver] / terms.capacity[giver]
    good = (gain > 0) & (peak < now * (1 - 1e-12))
    far = _change(terms, gone, giver, taker)[:, None] + np.append(_change(terms, come, taker, giver), 0)
    if crossing is not None:
        good &= far <= max(crossing - bench.crossed, 0)
    if not good.any():
        return None
    lowest = np.where(good, np.maximum(peak, limit), np.inf)
    row, column = np.nonzero(lowest == lowest.min())
    moves = _moves(bench, gone, giver, taker)[row] + np.append(_moves(bench, come, taker, giver), 0)[column]
    best = np.lexsort((column, row, peak[row, column], far[row, column], moves))[0]
    at = int(row[best]), int(column[best])
    back = int(come[at[1]]) if at[1] < len(come) else -1
    return Step(
        float(lowest[at]), int(moves[best]), int(far[at]), float(peak[at]), taker, int(gone[at[0]]), back
    )


def _thinned(terms: Terms, partitions: Longs) -> Longs:
    """So few that all pairs can be tried: the heaviest, the lightest, and evenly from those between."""
    if len(partitions) <= WIDEST:
        return partitions
    order = partitions[np.argsort(terms.load[partitions], kind="stable")]
    light, heavy = order[: WIDEST // 6], order[-WIDEST // 3 :]
    between = order[len(light) : -len(heavy)]
    places = np.linspace(0, len(between) - 1, WIDEST - len(light) - len(heavy)).astype(np.int64)
    return np.sort(np.concatenate([light, np.unique(between[places]), heavy]))


def _change(terms: Terms, partitions: Longs, before: int, after: int) -> Longs:
    there = terms.crossing(partitions, np.full(1, after))
    return np.asarray(there - terms.crossing(partitions, np.full(1, before)))


def _moves(bench: Bench, partitions: Longs, before: int, after: int) -> Longs:
    """By partition: how many more are away from their holders if it changes hands."""
    held = bench.held[partitions]
    return np.asarray((held == before).astype(np.int64) - (held == after))
