"""`roundrobin`: every partition of every topic to the next member that reads it.

Source: Apache Kafka's RoundRobinAssignor.
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Ints, within
from levelwind.assignors.problem.group import Group
from levelwind.assignors.strategies.range import reader_ranks


def roundrobin_strategy(group: Group) -> Assignment:
    """Walk the partitions by topic name and number, with a cursor over the members.

    Guarantees: a partition goes to the first member from the cursor on that reads its topic, and
    the cursor moves past that member; it wraps around.
    Ties: static members come first by instance id, then the others by member id.
    Cost: O(P) with equal subscriptions, O(P + T log M) otherwise.
    """
    kafka_order = group.members_in_kafka_order
    if group.equal_subscriptions:
        topics_read = group.subscribed_topic
        if len(topics_read) == len(group.topics) and len(kafka_order):
            return Assignment(kafka_order[np.arange(group.partition_count) % len(kafka_order)])
    return Assignment(_mixed_subscriptions(group, kafka_order))


def _mixed_subscriptions(group: Group, kafka_order: Ints) -> Ints:
    """Owners where subscriptions differ.

    Each topic goes round its readers; only the first reader depends on the topic before.
    """
    ranks, bounds = reader_ranks(group), group.reader_start.tolist()
    sizes = np.diff(group.topic_start)
    start_index = np.zeros(len(sizes), dtype=np.int64)
    cursor = 0
    for topic, (reader_set, size) in enumerate(
        zip(group.reader_set.tolist(), sizes.tolist(), strict=True)
    ):
        own_ranks = ranks[bounds[reader_set] : bounds[reader_set + 1]]
        if len(own_ranks) and size:
            start = int(own_ranks.searchsorted(cursor))
            start_index[topic] = start
            cursor = int(own_ranks[(start + size - 1) % len(own_ranks)]) + 1
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    readers = np.diff(group.reader_start)[group.reader_set]
    reader_index = (np.repeat(start_index, sizes) + within(sizes)) % np.repeat(
        np.maximum(readers, 1), sizes
    )
    read = np.repeat(readers > 0, sizes)
    position = np.repeat(group.reader_start[group.reader_set], sizes) + reader_index
    owner[read] = kafka_order[ranks[position[read]]]
    return owner
