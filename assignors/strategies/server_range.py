"""`server-range`: each topic in consecutive ranges, blind to racks.

Source: the RangeAssignor of Kafka's group coordinator (KIP-848).
"""

from assignors.problem.assignment import Assignment
from assignors.problem.group import Group
from assignors.strategies.range import (
    consecutive_ranges,
    readers_in_kafka_order,
)


def server_range_strategy(group: Group) -> Assignment:
    """What the broker's `range` gives: topics of as many partitions stay co-partitioned whatever their racks.

    Law: of a topic of n partitions reader i of k gets n // k consecutive ones, the first n % k readers one more. Racks and
    claims change nothing; where locality counts, `range` is the one.
    Ties: static members first by instance id, then the others by member id.
    Cost: O(P + S).
    """
    return Assignment(consecutive_ranges(group, readers_in_kafka_order(group)))
