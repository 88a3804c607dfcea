"""Unowned partitions to the least loaded readers, then exchanged within each topic for locality.

Guarantees: topics go by fewest readers, then most partitions, then name; each topic's partitions
raise its readers' counts evenly. The exchange goes rack by rack: the slots that a topic's
partitions got in a rack go to its partitions with a replica there, those with the fewest remaining
racks first; partitions that no slot is local to take the slots that are left. No member's count
changes.
Cost: O(S log M), and O(P log P) for each rack.
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Ints, Longs, within
from levelwind.assignors.problem.group import Group
from levelwind.assignors.sticky.transfer_graph import TransferGraph
from levelwind.assignors.sticky.water_filling import scarcest_first, water_fill


def fill_least_loaded(group: Group, owner: Ints) -> Longs:
    """Give every unowned partition an owner, in place; return those partitions."""
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
    """Exchange owners among `free` partitions of a topic, in place, for rack locality."""
    slot_owner, topic, partition_class = (
        owner[free],
        group.partition_topic[free],
        graph.partition_class[free],
    )
    rack = group.member_rack[slot_owner] % graph.width
    rack_local = ~graph.rack_remote
    # By partition class and rack: local racks from that rack on.
    racks_to_come = np.cumsum(rack_local[:, ::-1], axis=1)[:, ::-1]
    dealt = np.full(len(free), NOBODY, dtype=np.int32)
    # Slot i is the one that partition free[i] got: whether it is still to be dealt.
    free_slots = np.ones(len(free), dtype=np.bool_)
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
