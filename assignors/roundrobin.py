"""`roundrobin`: every partition of every topic to the next member that reads it.

Source: Apache Kafka's RoundRobinAssignor.
"""

import numpy as np

from assignors.assignment import NOBODY, Assignment
from assignors.columns import Ints
from assignors.group import Group


def roundrobin(group: Group) -> Assignment:
    """Walk the partitions by topic name and number, and a circle of the members beside them.

    Law: a partition goes to the first member from the circle's hand on that reads its topic, and the hand moves past it.
    Ties: the circle has static members first by instance id, then the others by member id.
    Cost: O(P) with equal subscriptions, O(P + T log M) otherwise.
    """
    circle = group.roster
    if group.equal_subscriptions:
        topics_read = group.subscribed_topic
        if len(topics_read) == len(group.topics) and len(circle):
            return Assignment(circle[np.arange(group.partition_count) % len(circle)])
    return Assignment(_unequal(group, circle))


def _unequal(group: Group, circle: Ints) -> Ints:
    """Each topic's readers are a smaller circle; only where it is entered depends on the topic before."""
    place = np.empty_like(circle)
    place[circle] = np.arange(len(circle), dtype=np.int32)
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    seats_of: dict[int, Ints] = {}  # by audience: its members' places in the circle, ascending
    bounds = group.topic_start.tolist()
    hand = 0
    for topic, audience in enumerate(group.audience.tolist()):
        if audience not in seats_of:
            seats_of[audience] = np.sort(place[group.readers(topic)])
        seats = seats_of[audience]
        count = bounds[topic + 1] - bounds[topic]
        if not len(seats) or not count:
            continue
        entry = int(np.searchsorted(seats, hand))
        taken = seats[(np.arange(entry, entry + count)) % len(seats)]
        owner[bounds[topic] : bounds[topic + 1]] = circle[taken]
        hand = int(taken[-1]) + 1
    return owner
