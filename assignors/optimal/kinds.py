"""Load levelled between kinds of members before it is dealt within them: by exchanges that cost nothing.

Law: counts stay, and nothing crosses racks that did not. The most loaded kind exchanges its heavy partitions for light ones of
a less loaded kind, those that differ most first, until the two are even; until the most loaded cannot be lowered.
"""

import numpy as np

from assignors.columns import Floats, Longs
from assignors.optimal.terms import Terms, summed

CLOSE = 0.25  # of the tolerance: kinds need not be more even than this


def levelled_kinds(terms: Terms, there: Longs, kind: Longs, *, racks: bool) -> None:
    """Change the kinds that taken partitions go to, in place."""
    kinds = len(terms.signature)
    capacity = summed(terms.kind, terms.capacity, kinds)
    work = summed(kind[there], terms.load[there], kinds)
    block = terms.blocks.of_signature[terms.signature]
    for number in range(len(terms.blocks.level)):
        mine = np.flatnonzero(block == number)
        mean = float(work[mine].sum() / capacity[mine].sum())
        limit = mean * (1 + CLOSE * terms.wishes.load_tolerance)
        for _ in range(4 * len(mine)):
            ratio = work[mine] / capacity[mine]
            if ratio.max() <= limit:
                break
            giver = int(mine[np.argmax(ratio)])
            if not _lowered(terms, there, kind, work, capacity, giver, mine[np.argsort(ratio)], racks=racks):
                break


def _lowered(
    terms: Terms,
    there: Longs,
    kind: Longs,
    work: Floats,
    capacity: Floats,
    giver: int,
    takers: Longs,
    *,
    racks: bool,
) -> bool:
    """Exchange with the first of the takers that can relieve the giver."""
    heavy = there[kind[there] == giver]
    for taker in takers[takers != giver].tolist():
        if work[taker] * capacity[giver] >= work[giver] * capacity[taker]:
            break
        goal = (work[giver] * capacity[taker] - work[taker] * capacity[giver]) / (
            capacity[giver] + capacity[taker]
        )
        light = there[kind[there] == taker]
        gone = _exchangeable(terms, heavy, giver, taker, racks=racks)
        come = _exchangeable(terms, light, taker, giver, racks=racks)
        gone = gone[np.argsort(-terms.load[gone], kind="stable")]
        come = come[np.argsort(terms.load[come], kind="stable")]
        pairs = min(len(gone), len(come))
        gain = terms.load[gone[:pairs]] - terms.load[come[:pairs]]
        gain = gain[: int(np.searchsorted(-gain, 0.0))]  # decreasing: only what lowers
        if not len(gain):
            continue
        fits = int(np.searchsorted(np.cumsum(gain), goal, side="right"))
        if fits == 0:  # the one that comes nearest
            nearest = int(np.argmin(np.abs(gain - goal)))
            if gain[nearest] >= 2 * goal:
                continue
            chosen = slice(nearest, nearest + 1)
        else:
            chosen = slice(0, fits)
        kind[gone[chosen]], kind[come[chosen]] = taker, giver
        moved = float(gain[chosen].sum())
        work[giver] -= moved
        work[taker] += moved
        return True
    return False


def _exchangeable(terms: Terms, partitions: Longs, here: int, there: int, *, racks: bool) -> Longs:
    """Which of some partitions of one kind may go to another at no cost."""
    can = terms.allowed[terms.audience[partitions], there]
    if racks:
        sets = terms.rackset[partitions]
        worse = terms.far[sets, terms.rack[there]] & ~terms.far[sets, terms.rack[here]]
        can &= ~worse | (terms.weight[partitions] == 0)
    return np.asarray(partitions[can])
