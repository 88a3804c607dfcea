"""Exhaustive oracle of `optimal`: the best plan of a small group by trying every one.

It is written from the statement of the objectives alone and shares no code with the strategy:
counts by all count vectors that can be reached, then every assignment with such counts, partition
by partition. Its cost grows as members to the power of partitions. Only the count limits of each
slack above 0, which are a definition, are taken from the strategy's model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.assignment import Assignment


@dataclass(frozen=True)
class PlanValues:
    """Values of a plan, or the best values, each given the ones before it."""

    counts: tuple[int, ...]
    """Partitions of each member, descending."""
    drain_time: float
    cross_rack_cost: float
    moves: int


def works(group):
    """By partition: the records of the group's horizon, its lag and its arrivals.

    The horizon is the time to drain of the members that may own a partition.
    """
    read = group.has_reader()
    owners = [owner for candidates in readers_of(group) for owner in candidates]
    reading = np.isin(np.arange(len(group.members)), owners)
    backlog, arrivals = float(group.lag[read].sum()), float(group.rate[read].sum())
    spare = float(group.capacity[reading].sum()) - arrivals
    horizon = min(max(backlog / spare, 10.0), 3600.0) if spare > 0 else 3600.0
    return (group.lag + group.rate * (horizon if read.any() else 10.0)).tolist()


def is_cross_rack(group, partition, member):
    """Whether both racks are known and no replica is in the rack of the member."""
    racks = group.replica_rack[
        group.replica_start[partition] : group.replica_start[partition + 1]
    ].tolist()
    rack = int(group.member_rack[member])
    return bool(racks) and rack >= 0 and rack not in racks


def readers_of(group, drain=(), evacuate=(), pins=None):
    """By partition: the members that may own it."""
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


def plan_values(group, owner):
    """Values of a plan: counts descending, time to drain, cross-rack cost, moves."""
    load = works(group)
    count, work = [0] * len(group.members), [0.0] * len(group.members)
    cross_rack_cost, moves = 0.0, 0
    held = Assignment.held(group).owner.tolist()
    for partition, member in enumerate(owner):
        if member >= 0:
            count[member] += 1
            work[member] += load[partition]
            cross_rack_cost += group.traffic[partition] * is_cross_rack(group, partition, member)
        moves += held[partition] >= 0 and held[partition] != member
    drain_time = max(
        (w / c for w, c in zip(work, group.capacity.tolist(), strict=True)), default=0.0
    )
    return PlanValues(tuple(sorted(count, reverse=True)), drain_time, cross_rack_cost, moves)


def best_values(group, tolerance=0.02, level=None, **options):
    """The best values of any plan with the most even counts, by trying every one.

    `level` says which plans are level enough: it gets the loads of all, a row for each, and which
    of them are within the tolerance of the largest load and have the lowest cross-rack cost.
    """
    readers = readers_of(group, **options)
    vectors = _counts(readers, len(group.members))
    target = min(tuple(sorted(vector, reverse=True)) for vector in vectors)
    good = {vector for vector in vectors if tuple(sorted(vector, reverse=True)) == target}
    most = np.max(np.array(sorted(good), dtype=np.int64).reshape(len(good), -1), axis=0)
    load = works(group)
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
            cross_rack_cost_after = cross_rack_cost[fits] + group.traffic[
                partition
            ] * is_cross_rack(group, partition, member)
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
    loads = work[right] / group.capacity
    drain_time = loads.max(axis=1, initial=0.0)
    cross_rack_cost, moves = cross_rack_cost[right], moves[right]
    within_tolerance = drain_time <= drain_time.min() * (1 + tolerance) * (1 + 1e-9)
    cheapest = within_tolerance & (cross_rack_cost <= cross_rack_cost[within_tolerance].min())
    if level is not None:
        cheapest &= level(loads, cheapest)
    return PlanValues(
        target,
        float(drain_time.min()),
        float(cross_rack_cost[within_tolerance].min()),
        int(moves[cheapest].min()),
    )


def connected_members(group, **options):
    """Members that partitions connect, directly or through others: lists without a common one."""
    parts = []
    for owners in readers_of(group, **options):
        if owners:
            joined = set(owners).union(*(part for part in parts if part & set(owners)))
            parts = [part for part in parts if not part & joined] + [joined]
    return [sorted(part) for part in parts]


def rank_limits(loads, capacities, largest, tolerance, floor):
    """Limits of the loads by rank, from those of the most level plan, the largest first."""
    limits, highest = [], None
    for rank, load in enumerate(loads):
        work = sum(a * c for a, c in zip(loads[rank:], capacities[rank:], strict=True))
        mean = work / sum(capacities[rank:])
        if load <= max(mean * (1 + tolerance), floor) * (1 + 1e-12):
            rest = len(loads) - rank
            limits += [max(mean * (1 + tolerance), floor)] * rest
            break
        if highest is None or max(load * (1 + tolerance), floor) < highest:
            highest = load
        limits.append(max(highest * (1 + tolerance), floor))
    return [min(limit, largest) for limit in limits]


def least_in_order(loads, members):
    """The least loads of some members, the largest first, of any plan; a row for each plan."""
    return min(map(tuple, (-np.sort(-loads[:, members], axis=1)).tolist()))


def in_order_within(loads, members, limits):
    """Plans whose loads of some members are, in order, within limits."""
    return (-np.sort(-loads[:, members], axis=1) <= np.array(limits)).all(axis=1)


class EveryPlan:
    """Every plan of a group, with its values in columns."""

    def __init__(self, group, **options):
        load, held = works(group), Assignment.held(group).owner.tolist()
        members = len(group.members)
        self.count = np.zeros((1, members), dtype=np.int8)
        work = np.zeros((1, members))
        self.cross_rack_cost, self.moves = np.zeros(1), np.zeros(1, dtype=np.int64)
        for partition, owners in enumerate(readers_of(group, **options)):
            if not owners:
                self.moves = self.moves + (held[partition] >= 0)
                continue
            chosen = np.repeat(owners, len(work))
            rows = np.arange(len(chosen))
            self.count, work = (np.tile(c, (len(owners), 1)) for c in (self.count, work))
            self.count[rows, chosen] += 1
            work[rows, chosen] += load[partition]
            crossing = [is_cross_rack(group, partition, member) for member in range(members)]
            self.cross_rack_cost = np.tile(self.cross_rack_cost, len(owners)) + (
                group.traffic[partition] * np.array(crossing)[chosen]
            )
            moved = (held[partition] >= 0) & (chosen != held[partition])
            self.moves = np.tile(self.moves, len(owners)) + moved
        self.loads = work / group.capacity
        self.drain_time = self.loads.max(axis=1, initial=0.0)
        self.squares = (self.count.astype(np.int64) ** 2).sum(axis=1)
        self.worst_first = np.sort(self.count, axis=1)[:, ::-1]

    def within(self, least, most):
        """Plans whose counts are within limits by member."""
        return ((self.count >= least) & (self.count <= most)).all(axis=1)

    def waits(self, group):
        """Mean wait of the records of each plan, in seconds: half of their owners' loads."""
        work = self.loads * group.capacity
        total = np.maximum(work.sum(axis=1), 1e-300)
        return (work * self.loads).sum(axis=1) / (2 * total)

    def most_even(self):
        """Plans with the most even counts."""
        best = min(map(tuple, self.worst_first.tolist()))
        return (self.worst_first == np.array(best, dtype=np.int8)).all(axis=1)


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
