"""What nobody holds, poured into the least loaded readers of its topic, and then dealt to the near ones of these.

Law: topics go by fewest readers, then most partitions, then name, and each one's partitions raise its readers evenly. Rack by
rack, the places that a topic's partitions found there go to those near to it that have the fewest racks to come; what no
place is near to takes the places that are left.
Cost: O(S log M) and O(P log P) for each rack.
"""

import numpy as np

from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Ints,
    Longs,
    within,
)
from assignors.problem.group import Group
from assignors.problem.water_filling import (
    scarcest_first,
    water_fill,
)
from assignors.sticky.transfer_graph import Network


def pour(group: Group, owner: Ints) -> Longs:
    """Give every partition that has none an owner, in place and blind to racks; the partitions that it gave one."""
    count = np.bincount(owner[owner >= 0], minlength=len(group.members))
    free = np.flatnonzero((owner < 0) & group.has_reader())
    bounds = np.searchsorted(free, group.topic_start).tolist()
    for topic in scarcest_first(group):
        mine = free[bounds[topic] : bounds[topic + 1]]
        if len(mine):
            readers = group.readers(topic)
            gained = water_fill(count[readers], len(mine))
            count[readers] += gained
            owner[mine] = np.repeat(readers, gained)
    return free


def deal_near(group: Group, network: Network, owner: Ints, free: Longs) -> None:
    """Exchange these partitions within their topics, in place, so that most are near."""
    places, topic, kind = owner[free], group.partition_topic[free], network.kind[free]
    rack = group.member_rack[places] % network.width
    near = ~network.far
    to_come = np.cumsum(near[:, ::-1], axis=1)[
        :, ::-1
    ]  # by kind and rack: near racks from there on
    dealt = np.full(len(free), NOBODY, dtype=np.int32)
    left = np.ones(len(free), dtype=np.bool_)  # by place
    for here in np.unique(rack).tolist():
        wanting = np.flatnonzero((dealt == NOBODY) & near[kind, here])
        wanting = wanting[np.lexsort((to_come[kind[wanting], here], topic[wanting]))]
        offered = np.flatnonzero(left & (rack == here))
        wanted = np.bincount(topic[wanting], minlength=len(group.topics))
        there = np.bincount(topic[offered], minlength=len(group.topics))
        wanting = wanting[within(wanted) < there[topic[wanting]]]
        offered = offered[within(there) < wanted[topic[offered]]]
        dealt[wanting] = places[offered]
        left[offered] = False
    dealt[dealt == NOBODY] = places[left]
    owner[free] = dealt
