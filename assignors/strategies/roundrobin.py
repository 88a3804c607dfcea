"""`roundrobin`: every partition of every topic to the next member that reads it.

Source: Apache Kafka's RoundRobinAssignor.
"""

import numpy as np

from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Ints,
    within,
)
from assignors.problem.group import Group
from assignors.strategies.range import seated


def roundrobin_strategy(group: Group) -> Assignment:
    """Walk the partitions by topic name and number, and a circle of the members beside them.

    Law: a partition goes to the first member from the circle's hand on that reads its topic, and the hand moves past it.
    Ties: the circle has static members first by instance id, then the others by member id.
    Cost: O(P) with equal subscriptions, O(P + T log M) otherwise.
    """
    circle = group.members_in_kafka_order
    if group.equal_subscriptions:
        topics_read = group.subscribed_topic
        if len(topics_read) == len(group.topics) and len(circle):
            return Assignment(circle[np.arange(group.partition_count) % len(circle)])
    return Assignment(_unequal(group, circle))


def _unequal(group: Group, circle: Ints) -> Ints:
    """Each topic's readers are a smaller circle; only where it is entered depends on the topic before."""
    seats, bounds = seated(group), group.reader_start.tolist()
    sizes = np.diff(group.topic_start)
    entries = np.zeros(len(sizes), dtype=np.int64)
    hand = 0
    for topic, (reader_set, size) in enumerate(
        zip(group.reader_set.tolist(), sizes.tolist(), strict=True)
    ):
        theirs = seats[bounds[reader_set] : bounds[reader_set + 1]]
        if len(theirs) and size:
            entry = int(theirs.searchsorted(hand))
            entries[topic] = entry
            hand = int(theirs[(entry + size - 1) % len(theirs)]) + 1
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    readers = np.diff(group.reader_start)[group.reader_set]
    turn = (np.repeat(entries, sizes) + within(sizes)) % np.repeat(np.maximum(readers, 1), sizes)
    read = np.repeat(readers > 0, sizes)
    seat = np.repeat(group.reader_start[group.reader_set], sizes) + turn
    owner[read] = circle[seats[seat[read]]]
    return owner
