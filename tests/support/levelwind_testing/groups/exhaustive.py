"""The best plan of a small group by trying every one: the oracle of `optimal`, written from the issue's words alone.

It shares no code with the strategy: counts by all count vectors that can be reached, then every assignment with such counts,
partition by partition. Its cost grows as members to the power of partitions.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.assignment import Assignment


@dataclass(frozen=True)
class Best:
    """The best value in each respect, given the ones before it."""

    counts: tuple[int, ...]  # descending
    drain: float
    crossing: float
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


def value(group, owner, horizon=60.0):
    """What a plan is worth: counts descending, time to drain, weight across racks, moves."""
    load = loads(group, horizon)
    count, work = [0] * len(group.members), [0.0] * len(group.members)
    crossing, moves = 0.0, 0
    held = Assignment.held(group).owner.tolist()
    for partition, member in enumerate(owner):
        if member >= 0:
            count[member] += 1
            work[member] += load[partition]
            crossing += group.traffic[partition] * crosses(group, partition, member)
        moves += held[partition] >= 0 and held[partition] != member
    drain = max((w / c for w, c in zip(work, group.capacity.tolist(), strict=True)), default=0.0)
    return Best(tuple(sorted(count, reverse=True)), drain, crossing, moves)


def best(group, tolerance=0.02, horizon=60.0, **wishes):
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
    crossing, moves = np.zeros(1), np.zeros(1, dtype=np.int64)
    for partition, theirs in enumerate(readers):
        grown = []
        for member in theirs:
            fits = np.flatnonzero(count[:, member] < most[member])
            more, heavier = count[fits], work[fits]
            more[:, member] += 1
            heavier[:, member] += load[partition]
            far = crossing[fits] + group.traffic[partition] * crosses(group, partition, member)
            grown.append((more, heavier, far, moves[fits] + (held[partition] not in (-1, member))))
        if theirs:
            count, work, crossing, moves = (
                np.concatenate(column) for column in zip(*grown, strict=True)
            )
        else:
            moves = moves + (held[partition] >= 0)
    wanted = np.array(sorted(good), dtype=np.int8).reshape(len(good), members)
    width = 16 ** np.arange(members, dtype=np.int64)
    right = np.isin(count @ width, wanted @ width)
    drain = (work[right] / group.capacity).max(axis=1, initial=0.0)
    crossing, moves = crossing[right], moves[right]
    near = drain <= drain.min() * (1 + tolerance)
    local = near & (crossing <= crossing[near].min())
    return Best(target, float(drain.min()), float(crossing[near].min()), int(moves[local].min()))


def _counts(readers, members):
    vectors = {(0,) * members}
    for theirs in readers:
        if theirs:
            vectors = {
                (*vector[:member], vector[member] + 1, *vector[member + 1 :])
                for vector in vectors
                for member in theirs
            }
    return vectors
