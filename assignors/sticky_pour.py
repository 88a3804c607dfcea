"""What nobody holds, poured into the least loaded readers of its topic, and near where these levels allow it.

Law: topics go by fewest readers, then most partitions, then name, and each one's partitions raise its readers evenly. Of the
readers that this fills, those in a partition's racks get it: an exact transport problem for each topic.
Cost: O(S log M) and a small transport for each topic.
"""

from collections.abc import Iterator

import numpy as np

from assignors.columns import Ints, Longs, starts, within
from assignors.fair import scarcest_first
from assignors.group import Group
from assignors.near import Transport
from assignors.pouring import flooded, poured
from assignors.sticky_network import Network


def pour(group: Group, owner: Ints) -> None:
    """Give every partition that has none an owner, in place, blind to racks."""
    count = np.bincount(owner[owner >= 0], minlength=len(group.members))
    for free in _free_by_topic(group, owner):
        readers = group.readers(int(group.partition_topic[free[0]]))
        gained = poured(count[readers], len(free))
        count[readers] += gained
        owner[free] = np.repeat(readers, gained)


def pour_near(group: Group, network: Network, owner: Ints) -> None:
    """Give every partition that has none an owner, in place, near where it can be."""
    count = np.bincount(owner[owner >= 0], minlength=len(group.members))
    near = [np.flatnonzero(~row).tolist() for row in network.far]
    for free in _free_by_topic(group, owner):
        kind = network.kind[free]
        edges = network.seat_start[network.seats[kind[0], 0] :][: network.width + 1]
        members = network.sitting[edges[0] : edges[-1]]
        owner[free] = _shared(count[members], edges - edges[0], kind, near, members)
        np.add.at(count, owner[free], 1)


def _free_by_topic(group: Group, owner: Ints) -> Iterator[Longs]:
    """The partitions that somebody reads and nobody owns, topic by topic, scarcest first."""
    free = np.flatnonzero((owner < 0) & group.has_reader())
    bounds = np.searchsorted(free, group.topic_start).tolist()
    for topic in scarcest_first(group):
        if bounds[topic] < bounds[topic + 1]:
            yield free[bounds[topic] : bounds[topic + 1]]


def _shared(count: Longs, edges: Longs, kind: Longs, near: list[list[int]], members: Ints) -> Ints:
    """The owners of a topic's free partitions of these kinds; its readers stand rack by rack."""
    level, rest = flooded(count, len(kind))
    need, open_ = np.maximum(level - count, 0), np.flatnonzero(count <= level)
    base, extra = np.diff(starts(need)[edges]), np.diff(np.searchsorted(open_, edges))
    order = np.argsort(kind, kind="stable")
    kinds, supply = np.unique(kind, return_counts=True)
    sent = Transport(
        supply=supply.tolist(),
        racks=[near[k] for k in kinds.tolist()],
        base=base.tolist(),
        extra=extra.tolist(),
        pool=rest,
    ).solve()
    rack = _racks(sent, supply.tolist(), len(base))
    into = np.bincount(rack, minlength=len(base) + 1)[:-1]
    more = np.maximum(into - base, 0)
    longer = within(extra) < np.repeat(more, extra)
    longer[np.flatnonzero(~longer)[: rest - int(more.sum())]] = True
    need[open_[longer]] += 1
    places = np.repeat(members, need)
    slots = np.diff(starts(need)[edges])
    asked = within(slots) < np.repeat(into, slots)
    owner = np.empty_like(places)
    owner[order[np.argsort(rack, kind="stable")]] = np.concatenate([places[asked], places[~asked]])
    return owner


def _racks(sent: list[dict[int, int]], supply: list[int], none: int) -> Longs:
    """Where each partition goes, kind by kind; what is near to no place goes to `none`."""
    racks: list[int] = []
    for flow, there in zip(sent, supply, strict=True):
        end = len(racks) + there
        for rack, amount in flow.items():
            racks += [rack] * amount
        racks += [none] * (end - len(racks))
    return np.array(racks, dtype=np.int64)
