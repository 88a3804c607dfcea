"""Where subscriptions differ, a heavy partition that leaves through others: a chain of light ones keeps the counts.

Law: the most loaded member passes one of its heaviest partitions to a reader, and the counts that this upsets are mended along
the shortest chain of members, each passing its lightest on to the next that may have it. A chain is taken only where everybody
on it then has less than the most loaded had, and nothing more crosses racks than may.
Ties: the lightest partitions, then the least loaded takers.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.model.working_plan import WorkingPlan
from assignors.problem.columns import (
    Floats,
    Longs,
)

LARGEST = 200  # members of a group that is searched
HEAVIEST = 8  # partitions of the giver that are tried


@dataclass(frozen=True, slots=True)
class Chain:
    """Partitions and where each goes, in order."""

    partitions: tuple[int, ...]
    members: tuple[int, ...]


def chained(bench: WorkingPlan, giver: int, effort: WorkBudget, crossing: int | None) -> bool:
    """Relieve a member through a chain, if there is one."""
    terms = bench.terms
    if len(terms.kind) > LARGEST or bool((terms.allowed == terms.allowed[:1]).all()):
        return False
    drain = bench.drain()
    mine = bench.of_member(giver)
    heavy = mine[np.argsort(-terms.load[mine], kind="stable")][:HEAVIEST]
    heavy = heavy[terms.load[heavy] > 0]
    lightest = _lightest(bench)
    for partition in heavy.tolist():
        takers = np.flatnonzero(terms.may(np.array([partition]), np.arange(len(terms.kind))))
        after = (bench.work[takers] + terms.load[partition]) / terms.capacity[takers]
        takers = takers[(takers != giver) & (after < drain[giver])]
        for taker in takers[np.argsort(drain[takers], kind="stable")].tolist():
            if not effort.spend(len(terms.kind) ** 2):
                return False
            chain = _chain(bench, lightest, partition, giver, taker)
            if chain is not None and _taken(bench, chain, float(drain[giver]), crossing):
                return True
    return False


def _lightest(bench: WorkingPlan) -> Longs:
    """By audience and member: the lightest partition of it that the member has, -1 none."""
    terms = bench.terms
    owned = np.flatnonzero(bench.owner >= 0)
    order = owned[np.lexsort((-owned, -terms.load[owned]))]
    lightest = np.full((len(terms.allowed), len(terms.kind)), -1, dtype=np.int64)
    lightest[terms.reader_set[order], bench.owner[order]] = (
        order  # the last one written is the lightest
    )
    return lightest


def _chain(
    bench: WorkingPlan, lightest: Longs, partition: int, giver: int, taker: int
) -> Chain | None:
    terms = bench.terms
    short = bench.count[giver] <= terms.least[giver]
    full = bench.count[taker] >= terms.most[taker]
    if not short and not full:
        return Chain((partition,), (taker,))
    spare = np.flatnonzero((bench.count > terms.least) & (terms.block == terms.block[giver]))
    room = np.flatnonzero((bench.count < terms.most) & (terms.block == terms.block[giver]))
    begins = [taker] if full else sorted({taker, *spare.tolist()} - {giver})
    ends = {giver} if short else set(room.tolist())
    came: dict[int, tuple[int, int]] = dict.fromkeys(begins, (-1, -1))
    queue = deque(begins)
    while queue:
        here = queue.popleft()
        if here in ends and here not in begins:
            return _back(came, partition, taker, here)
        parts = lightest[:, here]
        parts = parts[(parts >= 0) & (parts != partition)]
        parts = parts[np.argsort(terms.load[parts], kind="stable")]
        for part in parts.tolist():
            for onward in np.flatnonzero(
                terms.allowed[terms.reader_set[part]][terms.kind]
            ).tolist():
                if onward not in came:
                    came[onward] = (here, part)
                    queue.append(onward)
    return None


def _back(came: dict[int, tuple[int, int]], partition: int, taker: int, end: int) -> Chain:
    partitions, members = [partition], [taker]
    here = end
    while came[here][0] >= 0:
        before, part = came[here]
        partitions.append(part)
        members.append(here)
        here = before
    return Chain(tuple(partitions), tuple(members))


def _taken(bench: WorkingPlan, chain: Chain, peak: float, crossing: int | None) -> bool:
    """Pass everything on, unless that is no better."""
    terms = bench.terms
    parts, members = np.array(chain.partitions), np.array(chain.members)
    if len(set(chain.partitions)) < len(parts):
        return False
    before = bench.owner[parts]
    work: Floats = bench.work.copy()
    np.subtract.at(work, before, terms.load[parts])
    np.add.at(work, members, terms.load[parts])
    if float((work / terms.capacity)[members].max()) >= peak * (1 - 1e-12):
        return False
    far = int((terms.crossing(parts, members) - terms.crossing(parts, before)).sum())
    if crossing is not None and far > max(crossing - bench.crossed, 0):
        return False
    for part, member in zip(chain.partitions, chain.members, strict=True):
        bench.give(part, member)
    return True
