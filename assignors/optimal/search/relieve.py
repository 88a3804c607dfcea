"""The most loaded members relieved, by moves and exchanges that keep counts, and racks, as they are.

Law: the most loaded member passes a partition on, or exchanges one, with the taker with which the pair of them comes lowest.
Below the limit nothing more is asked: of the steps that reach it, the one that moves fewest partitions from their holders and
least across racks is taken. It ends when nobody is above the limit, the most loaded cannot be lowered, or the effort is spent;
where what is reached is good enough already, also when a step brings too little.
Ties: members and partitions by number.
"""

from typing import NamedTuple

import numpy as np

from assignors.optimal.model.model import Model
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.model.working_plan import WorkingPlan
from assignors.optimal.search.exchange_chains import chained
from assignors.problem.columns import (
    Floats,
    Ints,
    Longs,
)

WIDEST = 64  # partitions of a member that are tried against another's
TAKERS = 4  # members that are tried before the best step is taken
PAIRS = 60_000  # that are tried with as many others as can be, when none of them will do
WORTH = 12  # steps to the limit, as long as this one, that are still worth it where what is reached is good enough


class Step(NamedTuple):
    """A partition to a taker, perhaps one back; better ones are smaller."""

    peak: float  # what the more loaded of the two has then, at least the limit
    moves: int
    crossing: int
    taker: int
    partition: int
    back: int  # -1 none


def levelled(
    terms: Model,
    owner: Ints,
    held: Ints,
    limit: float,
    effort: WorkBudget,
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
    bench = WorkingPlan.of(terms, owner, held)
    while True:
        drain = bench.drain()
        giver = int(np.argmax(drain))
        if drain[giver] <= limit:
            break
        good = bool(drain[giver] <= enough)
        step = _best(bench, giver, _takers(bench, giver, drain), limit, effort, crossing)
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


def _takers(bench: WorkingPlan, giver: int, drain: Floats) -> Longs:
    """Who could relieve a member, the least loaded first."""
    block = bench.terms.block
    takers = np.flatnonzero((block == block[giver]) & (drain < drain[giver]))
    return takers[np.argsort(drain[takers], kind="stable")]


def _best(
    bench: WorkingPlan,
    giver: int,
    takers: Longs,
    limit: float,
    effort: WorkBudget,
    crossing: int | None,
) -> Step | None:
    """The best step to one of the least loaded, or else to one of as many others as can be tried."""
    mine = bench.of_member(giver)
    gone = _thinned(bench.terms, mine[bench.terms.load[mine] > 0])
    if not len(gone):
        return None
    fit = np.cumsum(np.minimum(bench.count[takers[TAKERS:]], WIDEST) + 1) * len(gone) <= PAIRS
    begin = 0
    for end in (TAKERS, TAKERS + int(np.count_nonzero(fit))):
        those = takers[begin:end]
        size = int((np.minimum(bench.count[those], WIDEST) + 1).sum())
        if not len(those) or not effort.spend(len(gone) * size):
            break
        step = _step(bench, giver, gone, those, limit, crossing)
        if step is not None:
            return step
        begin = end
    return None


def _step(
    bench: WorkingPlan, giver: int, gone: Longs, takers: Longs, limit: float, crossing: int | None
) -> Step | None:
    """The best step from a member to some others, if any lowers the higher of the two."""
    terms, him = bench.terms, np.array([giver])
    come, taker = _back(bench, giver, takers)
    if not len(come):
        return None
    back, given = np.maximum(come, 0), gone[:, None]
    gain = terms.load[given] - np.where(come < 0, 0.0, terms.load[back])
    peak = np.maximum(
        (bench.work[giver] - gain) / terms.capacity[giver],
        (bench.work[taker] + gain) / terms.capacity[taker],
    )
    now = bench.work[giver] / terms.capacity[giver]
    good = (
        (gain > 0)
        & (peak < now * (1 - 1e-12))
        & terms.allowed[terms.reader_set[gone]][:, terms.kind[taker]]
    )
    away = terms.far[terms.rackset[gone]] * terms.weight[given]
    far = away[:, terms.rack[terms.kind[taker]]] - away[:, terms.rack[terms.kind[him]]]
    far += np.where(come < 0, 0, terms.crossing(back, him) - terms.crossing(back, taker))
    if crossing is not None:
        good &= far <= max(crossing - bench.crossed, 0)
    if not good.any():
        return None
    lowest = np.where(good, np.maximum(peak, limit), np.inf)
    row, column = np.nonzero(lowest == lowest.min())
    moves = _moves(bench, gone[row], giver, taker[column])
    moves += np.where(come[column] < 0, 0, _moves(bench, back[column], taker[column], giver))
    best = np.lexsort((column, row, peak[row, column], far[row, column], moves))[0]
    at = int(row[best]), int(column[best])
    return Step(
        float(lowest[at]),
        int(moves[best]),
        int(far[at]),
        int(taker[at[1]]),
        int(gone[at[0]]),
        int(come[at[1]]),
    )


def _back(bench: WorkingPlan, giver: int, takers: Longs) -> tuple[Longs, Longs]:
    """What could come back, and from whom; -1: nothing does, where counts allow that."""
    terms = bench.terms
    theirs = [_thinned(terms, bench.of_member(taker)) for taker in takers.tolist()]
    come = np.concatenate(theirs)
    taker = np.repeat(takers, [len(parts) for parts in theirs])
    may = terms.may(come, np.array([giver]))
    room = takers[bench.count[takers] < terms.most[takers]]
    if bench.count[giver] <= terms.least[giver]:
        room = room[:0]
    return np.append(come[may], np.full(len(room), -1)), np.append(taker[may], room)


def _thinned(terms: Model, partitions: Longs) -> Longs:
    """So few that all pairs can be tried: the heaviest, the lightest, and evenly from those between."""
    if len(partitions) <= WIDEST:
        return partitions
    order = partitions[np.argsort(terms.load[partitions], kind="stable")]
    light, heavy = order[: WIDEST // 6], order[-WIDEST // 3 :]
    between = order[len(light) : -len(heavy)]
    places = np.linspace(0, len(between) - 1, WIDEST - len(light) - len(heavy)).astype(np.int64)
    return np.sort(np.concatenate([light, np.unique(between[places]), heavy]))


def _moves(bench: WorkingPlan, partitions: Longs, before: Longs | int, after: Longs | int) -> Longs:
    """By partition: how many more are away from their holders if it changes hands."""
    held = bench.held[partitions]
    return np.asarray((held == before).astype(np.int64) - (held == after))
