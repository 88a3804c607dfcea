"""Why a partition has its owner: what every other owner would cost.

Guarantees: every other member that may own the partition is tried, alone and in exchange for each
partition that it could return. An alternative is described by the changes of the objectives, in
order of importance; the best one comes first.
Ties: members and partitions by number.
Cost: O(P) for the partitions of those members.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from levelwind.assignors.optimal.model.model import Model, build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Floats, Longs
from levelwind.assignors.problem.drain import wait_seconds
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another owner for a partition and the changes of the objectives; above 0 is worse."""

    member: str
    """Id of the member that would own the partition."""
    exchange: str | None
    """Partition that the member would give in return; None if it gives none."""
    uneven: int
    """Members whose counts would leave the limits of `count_slack`."""
    load: float
    """Increase of the largest load, in seconds."""
    cross_rack: float
    """Change of the share of traffic that is read across racks."""
    wait: float
    """Increase of the mean wait of records in seconds, beyond the tolerance of load."""
    moves: int
    """Change of the number of partitions that are not with their current owner."""

    def as_json(self) -> dict[str, object]:
        """The alternative as a JSON object."""
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }

    def sentence(self) -> str:
        """The alternative in an operator's words."""
        head = f"{self.member}, in exchange for {self.exchange}" if self.exchange else self.member
        costs = [
            f"{self.uneven} uneven count{'s' if self.uneven > 1 else ''}" if self.uneven else "",
            f"{self.load:+,.1f} s on the largest load" if round(self.load, 1) else "",
            f"{self.cross_rack:+.2%} across racks" if self.cross_rack else "",
            f"{self.wait:+,.1f} s on the mean wait" if round(self.wait, 1) else "",
            f"{self.moves:+d} move{'s' if abs(self.moves) > 1 else ''}" if self.moves else "",
        ]
        return f"{head}: " + (", ".join(filter(None, costs)) or "the same in every respect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a partition has its owner."""

    partition: str
    """The partition as `topic-number`."""
    owner: str | None
    """Id of its owner; None if no member reads the topic."""
    reasons: tuple[str, ...]
    """Facts that speak for the owner, in an operator's words."""
    alternatives: tuple[Alternative, ...]
    """Other owners, the best one first."""

    def as_json(self) -> dict[str, object]:
        """The explanation as a JSON object."""
        return {
            "partition": self.partition,
            "owner": self.owner,
            "reasons": list(self.reasons),
            "alternatives": [alternative.as_json() for alternative in self.alternatives],
        }

    def lines(self) -> tuple[str, ...]:
        """The explanation in an operator's words."""
        head = f"{self.partition} is owned by {self.owner or 'no member'}"
        lines = [head + (f": {'; '.join(self.reasons)}" if self.reasons else "")]
        if self.alternatives:
            lines.append("the next best alternatives would cost:")
            lines += [f"  {alternative.sentence()}" for alternative in self.alternatives]
        return tuple(lines)


def explain(
    group: Group,
    assignment: Assignment,
    topic: str,
    number: int,
    *,
    alternatives: int = 3,
    **options: Any,
) -> Explanation:
    """Explain why a partition has the owner that an assignment gives it.

    Raises:
        ProblemError: the partition does not exist, or an option has the wrong shape.
    """
    partition = _partition_index(group, topic, number)
    model = build_model(group, Options.from_mapping(options))
    model = model.with_slack(model.limits.largest_slack)
    working = WorkingPlan.of(model, assignment.target, model.current_owner)
    owner = int(working.owner[partition])
    alternatives_found = _all_alternatives(working, partition, owner) if owner >= 0 else []
    best = sorted(alternatives_found, key=lambda found: found[0])[:alternatives]
    return Explanation(
        partition=_partition_label(group, partition),
        owner=group.members[owner] if owner >= 0 else None,
        reasons=tuple(_reasons(model, partition, owner)),
        alternatives=tuple(
            _alternative(working, cost, taker, exchange) for cost, taker, exchange in best
        ),
    )


def _partition_index(group: Group, topic: str, number: int) -> int:
    """Index of a partition.

    Raises:
        ProblemError: the group has no such topic or partition.
    """
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


def _reasons(model: Model, partition: int, owner: int) -> Iterable[str]:
    """The facts that speak for the owner."""
    group = model.group
    if owner < 0:
        yield "no member reads it"
        return
    candidates = np.flatnonzero(model.eligible[model.reader_set[partition]][model.member_class])
    if len(candidates) == 1:
        yield "no other member may own it"
    before = int(model.current_owner[partition])
    if before == owner:
        yield "this member owned it before"
    elif before >= 0:
        yield f"{group.members[before]} owned it before"
    racks = group.replica_rack[group.replica_start[partition] : group.replica_start[partition + 1]]
    if len(racks) and group.member_rack[owner] >= 0:
        remote = bool(model.rack_remote[model.rack_set[partition], group.member_rack[owner]])
        yield (
            "no replica is in the member's rack" if remote else "a replica is in the member's rack"
        )
    elif not model.cross_rack_cost(partition, owner):
        yield "the racks of the replicas or of the member are unknown"


CostChange = tuple[int, float, int, float, int]
"""Changes of the objectives: uneven counts, load, cross-rack cost, mean wait, moves."""


def _all_alternatives(
    working: WorkingPlan, partition: int, owner: int
) -> list[tuple[CostChange, int, int]]:
    """Every other possible owner with the best exchange for it.

    Returns the change of the objectives, the member, and the partition that it returns (-1 if
    none).
    """
    model = working.model
    takers = np.flatnonzero(model.eligible[model.reader_set[partition]][model.member_class])
    found = []
    for taker in takers[takers != owner].tolist():
        held = working.partitions_of(taker)
        returns = held[model.eligible[model.reader_set[held], model.member_class[owner]]]
        exchanges = np.append(returns, NOBODY)
        costs = _cost_changes(working, partition, owner, taker, exchanges)
        best = min(range(len(exchanges)), key=costs.__getitem__)
        found.append((costs[best], taker, int(exchanges[best])))
    return found


def _cost_changes(
    working: WorkingPlan, partition: int, owner: int, taker: int, exchanges: Longs
) -> list[CostChange]:
    """Changes of the objectives for each exchange.

    Args:
        working: the plan.
        partition: the partition that goes to the taker.
        owner: its owner.
        taker: the member that gets it.
        exchanges: the partitions that could come back; -1 if none comes back.
    """
    model = working.model
    alone = exchanges < 0
    load = np.where(alone, 0.0, model.load[exchanges])
    gain = model.load[partition] - load
    rest = working.drain_time()
    peak_before = float(rest.max())
    rest[[owner, taker]] = 0.0
    peak: Floats = np.maximum(
        (working.member_load[owner] - gain) / model.capacity[owner],
        (working.member_load[taker] + gain) / model.capacity[taker],
    )
    peak = np.maximum(peak, float(rest.max()))
    uneven = _uneven_change(working, owner, taker)
    cross_rack_change = model.cross_rack_change(partition, owner, taker) + np.where(
        alone, 0, model.cross_rack_change(exchanges, taker, owner)
    )
    moves = working.moves_change(partition, owner, taker) + np.where(
        alone, 0, working.moves_change(exchanges, taker, owner)
    )
    return [
        (uneven if is_alone else 0, max(new_peak - peak_before, 0.0), cross, wait, moved)
        for is_alone, new_peak, cross, wait, moved in zip(
            alone.tolist(),
            peak.tolist(),
            cross_rack_change.tolist(),
            _wait_increases(working, owner, taker, gain),
            moves.tolist(),
            strict=True,
        )
    ]


def _wait_increases(working: WorkingPlan, owner: int, taker: int, gain: Floats) -> list[float]:
    """Increases of the mean wait in seconds if so many records go from owner to taker.

    What is within the tolerance of load is none.
    """
    model, total = working.model, float(working.member_load.sum())
    if not total:
        return [0.0] * len(gain)
    waiting = np.zeros(len(gain))
    for member, change in ((owner, -gain), (taker, gain)):
        before, capacity = working.member_load[member], model.capacity[member]
        waiting += change * (2 * before + change) / capacity
    changes = waiting / (2 * total)
    least = model.options.load_tolerance * wait_seconds(working.drain_time(), model.capacity)
    increases: list[float] = np.where(changes > least, changes, 0.0).tolist()
    return increases


def _uneven_change(working: WorkingPlan, owner: int, taker: int) -> int:
    """Change of the number of members outside their count limits.

    One partition moves from owner to taker.
    """
    model, count = working.model, working.member_count
    off = 0
    for member, change in ((owner, -1), (taker, 1)):
        least, most = int(model.min_count[member]), int(model.max_count[member])
        was = not least <= count[member] <= most
        off += (not least <= count[member] + change <= most) - was
    return off


def _alternative(working: WorkingPlan, cost: CostChange, taker: int, exchange: int) -> Alternative:
    group = working.model.group
    uneven, load, cross_rack_change, wait, moves = cost
    traffic = max(int(working.model.weight.sum()), 1)
    return Alternative(
        member=group.members[taker],
        exchange=_partition_label(group, exchange) if exchange >= 0 else None,
        uneven=uneven,
        load=load,
        cross_rack=cross_rack_change / traffic,
        wait=wait,
        moves=moves,
    )


def _partition_label(group: Group, partition: int) -> str:
    topic = int(group.partition_topic[partition])
    return f"{group.topics[topic]}-{partition - int(group.topic_start[topic])}"
