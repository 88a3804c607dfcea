"""The best plan of a small group by trying every one: the oracle of `optimal`, written from the issue's words alone.

It shares no code with the strategy: counts by all count vectors that can be reached, then every assignment with such counts,
partition by partition. Its cost grows as members to the power of partitions.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.assignment import Assignment


@dataclass(frozen=True)
class PlanValues:
    """The best value in each respect, given the ones before it."""

    counts: tuple[int, ...]  # descending
    drain_time: float
    cross_rack_cost: float
    moves: int


def loads(group, horizon):
    return [
        float(round(lag + rate * horizon))
        for lag, rate in zip(group.lag.tolist(), group.rate.tolist(), strict=True)
    ]


def crosses(group, partition, member):
    racks = group.replica_rack[
        group.replica_start[partition] : group.replica_start[partition + 1]
    ].tolist()
    rack = int(group.member_rack[member])
    return bool(racks) and rack >= 0 and rack not in racks


def readers_of(group, drain=(), evacuate=(), pins=None):
    """By partition: the members that may have it."""
    avoided = {
        member
        for member, name in enumerate(group.members)
        if name in drain
        or (group.member_rack[member] >= 0 and group.racks[group.member_rack[member]] in evacuate)
    }
    found = []
    for partition in range(group.partition_count):
        topic = int(group.partition_topic[partition])
        readers = group.readers(topic).tolist()
        pinned = (
            (pins or {}).get(group.topics[topic], {}).get(partition - int(group.topic_start[topic]))
        )
        if pinned in [group.members[reader] for reader in readers]:
            found.append([group.members.index(pinned)])
        else:
            found.append([reader for reader in readers if reader not in avoided] or readers)
    return found


def plan_values(group, owner, horizon=60.0):
    """What a plan is worth: counts descending, time to drain, weight across racks, moves."""
    load = loads(group, horizon)
    count, work = [0] * len(group.members), [0.0] * len(group.members)
    cross_rack_cost, moves = 0.0, 0
    held = Assignment.held(group).owner.tolist()
    for partition, member in enumerate(owner):
        if member >= 0:
            count[member] += 1
            work[member] += load[partition]
            cross_rack_cost += group.traffic[partition] * crosses(group, partition, member)
        moves += held[partition] >= 0 and held[partition] != member
    drain_time = max(
        (w / c for w, c in zip(work, group.capacity.tolist(), strict=True)), default=0.0
    )
    return PlanValues(tuple(sorted(count, reverse=True)), drain_time, cross_rack_cost, moves)


def best_values(group, tolerance=0.02, horizon=60.0, **wishes):
    readers = readers_of(group, **wishes)
    vectors = _counts(readers, len(group.members))
    target = min(tuple(sorted(vector, reverse=True)) for vector in vectors)
    good = {vector for vector in vectors if tuple(sorted(vector, reverse=True)) == target}
    most = np.max(np.array(sorted(good), dtype=np.int64).reshape(len(good), -1), axis=0)
    load = loads(group, horizon)
    held = Assignment.held(group).owner.tolist()
    members = len(group.members)
    count = np.zeros((1, members), dtype=np.int8)
    work = np.zeros((1, members))
    cross_rack_cost, moves = np.zeros(1), np.zeros(1, dtype=np.int64)
    for partition, owners in enumerate(readers):
        grown = []
        for member in owners:
            fits = np.flatnonzero(count[:, member] < most[member])
            more, heavier = count[fits], work[fits]
            more[:, member] += 1
            heavier[:, member] += load[partition]
            cross_rack_cost_after = cross_rack_cost[fits] + group.traffic[partition] * crosses(
                group, partition, member
            )
            grown.append(
                (
                    more,
                    heavier,
                    cross_rack_cost_after,
                    moves[fits] + (held[partition] not in (-1, member)),
                )
            )
        if owners:
            count, work, cross_rack_cost, moves = (
                np.concatenate(column) for column in zip(*grown, strict=True)
            )
        else:
            moves = moves + (held[partition] >= 0)
    wanted = np.array(sorted(good), dtype=np.int8).reshape(len(good), members)
    width = 16 ** np.arange(members, dtype=np.int64)
    right = np.isin(count @ width, wanted @ width)
    drain_time = (work[right] / group.capacity).max(axis=1, initial=0.0)
    cross_rack_cost, moves = cross_rack_cost[right], moves[right]
    within_tolerance = drain_time <= drain_time.min() * (1 + tolerance)
    cheapest = within_tolerance & (cross_rack_cost <= cross_rack_cost[within_tolerance].min())
    return PlanValues(
        target,
        float(drain_time.min()),
        float(cross_rack_cost[within_tolerance].min()),
        int(moves[cheapest].min()),
    )


def _counts(readers, members):
    vectors = {(0,) * members}
    for owners in readers:
        if owners:
            vectors = {
                (*vector[:member], vector[member] + 1, *vector[member + 1 :])
                for vector in vectors
                for member in owners
            }
    return vectors
