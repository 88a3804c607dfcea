"""Why a partition is where it is: what any other place would have cost.

Law: each other member that may have the partition is tried, alone and in exchange for each partition that could come back; a
place is described by how the plan's objectives would change, in their order, and the best one comes first.
Ties: members and partitions by number.
Cost: O(P) for the partitions of those members.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assignors.optimal.model.model import (
    Model,
    terms,
)
from assignors.optimal.model.plan_options import Options
from assignors.optimal.model.working_plan import WorkingPlan
from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Floats,
    Longs,
)
from assignors.problem.group import Group
from assignors.problem.inputs import ProblemError


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another place for a partition, and what it changes; above 0 is worse."""

    member: str
    exchange: str | None  # the partition that comes back for it
    uneven: int  # members whose counts would no longer be what they should be
    load: float  # of the longest time to drain
    crossing: float  # of the share of traffic that crosses racks
    moves: int

    def as_json(self) -> dict[str, object]:
        """By name."""
        return {
            "member": self.member,
            "exchange": self.exchange,
            "uneven": self.uneven,
            "load": round(self.load, 6),
            "cross_rack": round(self.crossing, 6),
            "moves": self.moves,
        }

    def sentence(self) -> str:
        """In an operator's words."""
        how = f"{self.member}, in exchange for {self.exchange}" if self.exchange else self.member
        costs = [
            f"{self.uneven} uneven count{'s' if self.uneven > 1 else ''}" if self.uneven else "",
            f"{self.load:+,.0f} on the largest load" if round(self.load) else "",
            f"{self.crossing:+.2%} across racks" if self.crossing else "",
            f"{self.moves:+d} move{'s' if abs(self.moves) > 1 else ''}" if self.moves else "",
        ]
        return f"{how}: " + (", ".join(filter(None, costs)) or "the same in every respect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a partition is with its owner."""

    partition: str
    owner: str | None
    reasons: tuple[str, ...]
    alternatives: tuple[Alternative, ...]  # others, the best first

    def as_json(self) -> dict[str, object]:
        """By name."""
        return {
            "partition": self.partition,
            "owner": self.owner,
            "reasons": list(self.reasons),
            "alternatives": [alternative.as_json() for alternative in self.alternatives],
        }

    def lines(self) -> tuple[str, ...]:
        """In an operator's words."""
        head = f"{self.partition} is with {self.owner or 'nobody'}"
        told = [head + (f": {'; '.join(self.reasons)}" if self.reasons else "")]
        if self.alternatives:
            told.append("the next best alternatives would cost:")
            told += [f"  {alternative.sentence()}" for alternative in self.alternatives]
        return tuple(told)


def explain(
    group: Group,
    assignment: Assignment,
    topic: str,
    number: int,
    *,
    alternatives: int = 3,
    **options: Any,
) -> Explanation:
    """Say why a partition is where an assignment has it.

    Raises:
        ProblemError: there is no such partition, or an option has the wrong shape.
    """
    partition = _found(group, topic, number)
    stated = terms(group, Options.read(options))
    bench = WorkingPlan.of(stated, assignment.target, stated.before)
    owner = int(bench.owner[partition])
    others = _others(bench, partition, owner) if owner >= 0 else []
    best = sorted(others, key=lambda other: other[0])[:alternatives]
    return Explanation(
        partition=_name(group, partition),
        owner=group.members[owner] if owner >= 0 else None,
        reasons=tuple(_reasons(stated, partition, owner)),
        alternatives=tuple(_described(bench, cost, taker, back) for cost, taker, back in best),
    )


def _found(group: Group, topic: str, number: int) -> int:
    if topic not in group.topics:
        raise ProblemError(
            f"topic {topic!r}: not in the group; it has {', '.join(group.topics) or 'none'}"
        )
    first, end = group.topic_start[group.topics.index(topic) :][:2].tolist()
    if not 0 <= number < end - first:
        raise ProblemError(
            f"topic {topic!r}: has no partition {number}, only 0 to {end - first - 1}"
        )
    return int(first) + number


def _reasons(stated: Model, partition: int, owner: int) -> Iterable[str]:
    group = stated.group
    if owner < 0:
        yield "no member reads it"
        return
    one, him = np.array([partition]), np.array([owner])
    may = np.flatnonzero(stated.wanted[stated.reader_set[partition]][stated.kind])
    if len(may) == 1:
        yield "no other member may have it"
    before = int(stated.before[partition])
    if before == owner:
        yield "it was there before"
    elif before >= 0:
        yield f"{group.members[before]} had it"
    racks = group.replica_rack[group.replica_start[partition] : group.replica_start[partition + 1]]
    if len(racks) and group.member_rack[owner] >= 0:
        away = bool(stated.far[stated.rackset[partition], group.member_rack[owner]])
        yield "it has no replica in its rack" if away else "it has a replica in its rack"
    elif not bool(stated.crossing(one, him)[0]):
        yield "racks are not known on both sides"


Cost = tuple[int, float, int, int]  # uneven counts, load, weight across racks, moves: differences


def _others(bench: WorkingPlan, partition: int, owner: int) -> list[tuple[Cost, int, int]]:
    """Every other member, with the best way to give it the partition: what it costs, who, and what comes back."""
    stated = bench.terms
    takers = np.flatnonzero(stated.wanted[stated.reader_set[partition]][stated.kind])
    found = []
    for taker in takers[takers != owner].tolist():
        theirs = bench.of_member(taker)
        back = theirs[stated.wanted[stated.reader_set[theirs], stated.kind[owner]]]
        ways = np.append(back, NOBODY)
        costs = _costs(bench, partition, owner, taker, ways)
        best = min(range(len(ways)), key=costs.__getitem__)
        found.append((costs[best], taker, int(ways[best])))
    return found


def _costs(bench: WorkingPlan, partition: int, owner: int, taker: int, ways: Longs) -> list[Cost]:
    stated = bench.terms
    alone = ways < 0
    load = np.where(alone, 0.0, stated.load[ways])
    gain = stated.load[partition] - load
    rest = bench.drain()
    now = float(rest.max())
    rest[[owner, taker]] = 0.0
    peak: Floats = np.maximum(
        (bench.work[owner] - gain) / stated.capacity[owner],
        (bench.work[taker] + gain) / stated.capacity[taker],
    )
    peak = np.maximum(peak, float(rest.max()))
    uneven = _uneven(bench, owner, taker)
    far = _far(stated, np.array([partition]), owner, taker) + np.where(
        alone, 0, _far(stated, ways, taker, owner)
    )
    moves = _moved(stated, np.array([partition]), owner, taker) + np.where(
        alone, 0, _moved(stated, ways, taker, owner)
    )
    return [
        (uneven if lonely else 0, max(higher - now, 0.0), cross, moved)
        for lonely, higher, cross, moved in zip(
            alone.tolist(), peak.tolist(), far.tolist(), moves.tolist(), strict=True
        )
    ]


def _uneven(bench: WorkingPlan, owner: int, taker: int) -> int:
    """How many more counts are off when one partition goes from one to the other."""
    stated, count = bench.terms, bench.count
    off = 0
    for member, change in ((owner, -1), (taker, 1)):
        least, most = int(stated.least[member]), int(stated.most[member])
        was = not least <= count[member] <= most
        off += (not least <= count[member] + change <= most) - was
    return off


def _far(stated: Model, partitions: Longs, before: int, after: int) -> Longs:
    gone = stated.crossing(partitions, np.array([before]))
    return np.asarray(stated.crossing(partitions, np.array([after])) - gone)


def _moved(stated: Model, partitions: Longs, before: int, after: int) -> Longs:
    held = stated.before[partitions]
    return np.asarray((held == before).astype(np.int64) - (held == after))


def _described(bench: WorkingPlan, cost: Cost, taker: int, back: int) -> Alternative:
    group = bench.terms.group
    uneven, load, far, moves = cost
    traffic = max(int(bench.terms.weight.sum()), 1)
    return Alternative(
        member=group.members[taker],
        exchange=_name(group, back) if back >= 0 else None,
        uneven=uneven,
        load=load,
        crossing=far / traffic,
        moves=moves,
    )


def _name(group: Group, partition: int) -> str:
    topic = int(group.partition_topic[partition])
    return f"{group.topics[topic]}-{partition - int(group.topic_start[topic])}"
