"""`failover`: one active member; the others stand by.

Source: the FailoverAssignor of "Understanding Kafka partition assignment strategies".
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.group import Group


def failover_strategy(group: Group) -> Assignment:
    """Active and passive: each topic whole to its reader of the highest priority.

    Guarantees: the highest number is the highest priority; a member without a priority has the
    highest possible. A topic that the first member does not read goes to the first member that
    does.
    Ties: members by id.
    Cost: O(P + S log M).
    """
    rank = np.empty(len(group.members), dtype=np.int64)
    rank[np.lexsort((np.arange(len(rank)), -group.priority))] = np.arange(len(rank))
    starts = group.reader_start
    first = np.full(len(starts) - 1, NOBODY, dtype=np.int32)  # by reader set
    filled = np.flatnonzero(np.diff(starts) > 0)
    if len(filled):
        best = np.minimum.reduceat(rank[group.reader], starts[filled])
        first[filled] = np.argsort(rank)[best]
    return Assignment(first[group.reader_set[group.partition_topic]])
