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
from assignors.sticky.transfer_graph import TransferGraph


def fill_least_loaded(group: Group, owner: Ints) -> Longs:
    """Give every partition that has none an owner, in place and blind to racks; the partitions that it gave one."""
    count = np.bincount(owner[owner >= 0], minlength=len(group.members))
    free = np.flatnonzero((owner < 0) & group.has_reader())
    bounds = np.searchsorted(free, group.topic_start).tolist()
    for topic in scarcest_first(group):
        unowned = free[bounds[topic] : bounds[topic + 1]]
        if len(unowned):
            readers = group.readers(topic)
            gained = water_fill(count[readers], len(unowned))
            count[readers] += gained
            owner[unowned] = np.repeat(readers, gained)
    return free


def deal_rack_local(group: Group, graph: TransferGraph, owner: Ints, free: Longs) -> None:
    """Exchange these partitions within their topics, in place, so that most are near."""
    slot_owner, topic, partition_class = (
        owner[free],
        group.partition_topic[free],
        graph.partition_class[free],
    )
    rack = group.member_rack[slot_owner] % graph.width
    rack_local = ~graph.rack_remote
    racks_to_come = np.cumsum(rack_local[:, ::-1], axis=1)[
        :, ::-1
    ]  # by kind and rack: near racks from there on
    dealt = np.full(len(free), NOBODY, dtype=np.int32)
    free_slots = np.ones(len(free), dtype=np.bool_)  # by place
    for current_rack in np.unique(rack).tolist():
        candidates = np.flatnonzero((dealt == NOBODY) & rack_local[partition_class, current_rack])
        candidates = candidates[
            np.lexsort(
                (racks_to_come[partition_class[candidates], current_rack], topic[candidates])
            )
        ]
        slots = np.flatnonzero(free_slots & (rack == current_rack))
        candidates_per_topic = np.bincount(topic[candidates], minlength=len(group.topics))
        slots_per_topic = np.bincount(topic[slots], minlength=len(group.topics))
        candidates = candidates[within(candidates_per_topic) < slots_per_topic[topic[candidates]]]
        slots = slots[within(slots_per_topic) < candidates_per_topic[topic[slots]]]
        dealt[candidates] = slot_owner[slots]
        free_slots[slots] = False
    dealt[dealt == NOBODY] = slot_owner[free_slots]
    owner[free] = dealt
