"""`fair`: each partition to its least loaded reader, the most constrained topics first.

Source: KIP-49.
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.sticky.water_filling import scarcest_first, water_fill, water_fill_order


def fair_strategy(group: Group) -> Assignment:
    """Give each partition to the reader with the fewest partitions over all topics.

    Guarantees: topics with the fewest readers go first, so that the remaining choices stay wide; of
    topics with the same number of readers, the largest goes first. A partition goes to the reader
    that has the fewest partitions, counted over all topics.
    Ties: topics by name, partitions by number, members by id.
    Cost: O(S log M + P log P).
    """
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    count = np.zeros(len(group.members), dtype=np.int64)
    bounds = group.topic_start.tolist()
    for topic in scarcest_first(group):
        readers = group.readers(topic)
        size = bounds[topic + 1] - bounds[topic]
        if not size or not len(readers):
            continue
        gained = water_fill(count[readers], size)
        owner[bounds[topic] : bounds[topic + 1]] = readers[water_fill_order(count[readers], gained)]
        count[readers] += gained
    return Assignment(owner)
