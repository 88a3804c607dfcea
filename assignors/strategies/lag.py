"""`lag`: each topic's lag spread evenly over its readers.

Source: KAFKA-5337 and the behaviour of its prototype.
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Ints, Longs, within
from levelwind.assignors.problem.group import Group

FEW_READERS = 64
"""Below this number of readers, Python's own sort of a round is faster than NumPy's."""


def lag_strategy(group: Group) -> Assignment:
    """Deal each topic by decreasing lag, always to the reader with the fewest partitions.

    Guarantees: topics are independent. A partition goes to the reader with the fewest partitions of
    the topic; of readers with as few, to the one with the least lag in the topic. The deal
    therefore has rounds in which every reader gets one partition, ordered by the lag gathered
    before the round.
    Ties: partitions of equal lag by number, members of equal count and lag by member id.
    Cost: O(P log P), and O(M log M) a round.
    """
    # A stable sort: partitions of equal lag stay in the order of their numbers.
    order = np.lexsort((-group.lag, group.partition_topic))
    position = within(np.diff(group.topic_start))
    reader_set = group.reader_set[group.partition_topic]
    readers = np.diff(group.reader_start)[reader_set]  # by position in `order`
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    # No reader has lag before the first round, so it goes by member id, for all topics at once.
    first = np.flatnonzero(position < readers)
    owner[order[first]] = group.reader[group.reader_start[reader_set[first]] + position[first]]
    for topic in _topics_of_more_rounds(group):
        partitions = order[group.topic_start[topic] : group.topic_start[topic + 1]]
        owner[partitions] = _deal(group.readers(topic), group.lag[partitions])
    return Assignment(owner)


def _topics_of_more_rounds(group: Group) -> list[int]:
    """Topics with more partitions than readers."""
    readers = np.diff(group.reader_start)[group.reader_set]
    return np.flatnonzero((readers > 0) & (np.diff(group.topic_start) > readers)).tolist()


def _deal(readers: Ints, lags: Longs) -> Ints:
    """Owners of one topic's partitions, in order of decreasing lag."""
    if len(readers) < FEW_READERS:
        return readers[_deal_to_few(len(readers), lags.tolist())]
    rounds = -(-len(lags) // len(readers))
    dealt = np.empty((rounds, len(readers)), dtype=np.int64)
    padded = np.zeros(dealt.size, dtype=np.int64)
    padded[: len(lags)] = lags
    total = np.zeros(len(readers), dtype=np.int64)
    for number, gained in enumerate(padded.reshape(dealt.shape)):
        dealt[number] = np.argsort(total, kind="stable")
        total[dealt[number]] += gained
    return readers[dealt.ravel()[: len(lags)]]


def _deal_to_few(readers: int, lags: list[int]) -> list[int]:
    """Indices of the readers in the order of the deal, by Python's own sort."""
    total = [0] * readers
    dealt: list[int] = []
    for begin in range(0, len(lags), readers):
        round_members = sorted(range(readers), key=total.__getitem__)
        for member, gained in zip(round_members, lags[begin : begin + readers], strict=False):
            total[member] += gained
            dealt.append(member)
    return dealt
