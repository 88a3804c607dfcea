"""`range`: each topic in consecutive ranges, near its replicas where racks are known.

Source: Apache Kafka's RangeAssignor, with KIP-881's rack-awareness.
"""

import numpy as np

from assignors.assignment import NOBODY, Assignment
from assignors.columns import Ints, within
from assignors.group import Group


def range_(group: Group) -> Assignment:
    """Cut each topic into one range for each reader; the first ones get one partition more where it does not divide.

    Law: without racks, reader i of k of a topic of n partitions gets n // k, and the first n % k one more.
    Ties: static members first by instance id, then the others by member id.
    Cost: O(P + S).
    """
    return Assignment(_by_number(group))


def _by_number(group: Group) -> Ints:
    """Ranges by partition number, for all topics at once."""
    queue = _queues(group)
    sizes = np.diff(group.topic_start)
    readers = np.diff(group.reader_start)[group.audience]
    quota, extra = np.divmod(sizes, np.maximum(readers, 1))
    number = within(sizes)
    topic = group.partition_topic
    quota_of, extra_of = quota[topic], extra[topic]
    longer = extra_of * (quota_of + 1)  # partitions before this number are in ranges that are one longer
    place = np.where(
        number < longer,
        number // (quota_of + 1),
        extra_of + (number - longer) // np.maximum(quota_of, 1),
    )
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    read = readers[topic] > 0
    owner[read] = queue[group.reader_start[group.audience[topic[read]]] + place[read]]
    return owner


def _queues(group: Group) -> Ints:
    """The readers of each audience in Kafka's order, laid out as `group.reader` is."""
    place = np.empty_like(group.roster)
    place[group.roster] = np.arange(len(group.roster), dtype=np.int32)
    audience = np.repeat(np.arange(len(group.reader_start) - 1), np.diff(group.reader_start))
    keys = audience.astype(np.int64) * max(len(place), 1) + place[group.reader]
    queues: Ints = group.roster[np.sort(keys) % max(len(place), 1)]
    return queues
