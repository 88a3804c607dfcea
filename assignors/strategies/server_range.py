"""`server-range`: each topic in consecutive ranges, regardless of racks.

Source: the RangeAssignor of Kafka's group coordinator (KIP-848).
"""

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.strategies.range import consecutive_ranges, readers_in_kafka_order


def server_range_strategy(group: Group) -> Assignment:
    """The broker's `range`: topics of equal size stay co-partitioned whatever their racks.

    Guarantees: of a topic of n partitions reader i of k gets n // k consecutive ones, the first n %
    k readers one more. Racks and claims change nothing; `range` is the strategy for rack locality.
    Ties: static members first by instance id, then the others by member id.
    Cost: O(P + S).
    """
    return Assignment(consecutive_ranges(group, readers_in_kafka_order(group)))
