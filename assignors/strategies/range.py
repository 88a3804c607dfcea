"""`range`: each topic in consecutive ranges, near its replicas where racks are known.

Source: Apache Kafka's RangeAssignor (4.x), with KIP-881's rack-awareness.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
    distinct,
    radix,
    starts,
    within,
)
from assignors.problem.group import Group

RACKLESS = -1


def range_strategy(group: Group) -> Assignment:
    """Cut each topic into one range for each reader; the first ones get one partition more where it does not divide.

    Law: of a topic of n partitions each of k readers gets n // k, and n % k of them one more. Without racks these are
    consecutive numbers, reader by reader. Where the replicas' racks differ within some topic and readers are in them,
    every range is filled from partitions with a replica in the reader's rack first, and from what is left in a second
    pass. Topics of the same readers and the same number of partitions stay co-partitioned: there partition p goes to the
    first reader that has room and is near to p in all of them. A reader without a rack is near to everything.
    Ties: readers in Kafka's order, static members first by instance id, then the others by member id.
    Cost: O(P + S) without racks, O(P x replicas + S) with them.
    """
    ordered_readers = readers_in_kafka_order(group)
    owner = consecutive_ranges(group, ordered_readers)
    rack_sensitive = _rack_sensitive_topics(group)
    if rack_sensitive.any():
        co_partitioned, lone = _topics_to_match(group, rack_sensitive)
        for topics in co_partitioned:
            _match_co_partitioned(group, owner, topics, ordered_readers)
        if lone:
            _match_lone(group, owner, lone, ordered_readers)
    return Assignment(owner)


def readers_in_kafka_order(group: Group) -> Ints:
    """The readers of each audience in Kafka's order, laid out as `group.reader` is."""
    readers_in_kafka_order: Ints = group.members_in_kafka_order[reader_ranks(group)]
    return readers_in_kafka_order


def reader_ranks(group: Group) -> Longs:
    """The readers' places in Kafka's order, ascending within each audience, laid out as `group.reader` is."""
    members = np.arange(len(group.members_in_kafka_order))
    if np.array_equal(group.members_in_kafka_order, members):
        return group.reader.astype(np.int64)
    rank_of = np.empty(len(members), dtype=np.int64)
    rank_of[group.members_in_kafka_order] = members
    reader_set = np.repeat(np.arange(len(group.reader_start) - 1), np.diff(group.reader_start))
    first = reader_set * len(members)
    return np.sort(first + rank_of[group.reader]) - first


def consecutive_ranges(group: Group, ordered_readers: Ints) -> Ints:
    """Ranges of consecutive numbers, for all topics at once."""
    sizes = np.diff(group.topic_start)
    readers = np.diff(group.reader_start)[group.reader_set]
    quota, extra = np.divmod(sizes, np.maximum(readers, 1))
    topic = group.partition_topic
    quota_of, extra_of = quota[topic], extra[topic]
    number = within(sizes)
    long_ranges_end = extra_of * (
        quota_of + 1
    )  # partitions before this number are in ranges that are one longer
    reader_index = np.where(
        number < long_ranges_end,
        number // (quota_of + 1),
        extra_of + (number - long_ranges_end) // np.maximum(quota_of, 1),
    )
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    read = readers[topic] > 0
    owner[read] = ordered_readers[
        group.reader_start[group.reader_set[topic[read]]] + reader_index[read]
    ]
    return owner


def _rack_sensitive_topics(group: Group) -> Bools:
    """The topics for which a near reader could make a difference: by topic.

    Some reader shares a rack with some replica, and not every partition has replicas in all the racks of its topic.
    """
    sets, width = group.rack_local.shape
    keys = distinct(
        group.partition_topic * np.int64(sets) + group.rack_set, len(group.topics) * sets
    )
    topic, rack_set = np.divmod(keys, max(sets, 1))  # each topic's sets of racks
    replica_in = np.zeros(
        (len(group.topics), width), dtype=np.bool_
    )  # by topic and rack: a replica is there
    pair, rack = np.nonzero(group.rack_local[rack_set])
    replica_in[topic[pair], rack] = True
    reader_in = np.zeros(
        (len(group.reader_start) - 1, width), dtype=np.bool_
    )  # by audience and rack: a reader is
    reader_set = np.repeat(np.arange(len(reader_in)), np.diff(group.reader_start))
    reader_in[reader_set, group.member_rack[group.reader]] = True
    racks_differ = np.zeros(len(group.topics), dtype=np.bool_)
    racks_differ[topic[(replica_in[topic] & ~group.rack_local[rack_set]).any(axis=1)]] = True
    rack_sensitive: Bools = racks_differ & (replica_in & reader_in[group.reader_set]).any(axis=1)
    return rack_sensitive


def _topics_to_match(group: Group, rack_sensitive: Bools) -> tuple[list[list[int]], list[int]]:
    """The topics to match by racks: co-partitioned ones, and lone ones only if they are uneven themselves."""
    alike: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    readers = np.diff(group.reader_start)[group.reader_set]
    sizes = np.diff(group.topic_start)
    topics = np.flatnonzero((readers > 0) & (sizes > 0))
    for topic, *key in zip(
        topics.tolist(), group.reader_set[topics].tolist(), sizes[topics].tolist(), strict=True
    ):
        alike[key[0], key[1]].append(topic)
    co_partitioned = [topics for topics in alike.values() if len(topics) > 1]
    return co_partitioned, [
        topics[0] for topics in alike.values() if len(topics) == 1 and rack_sensitive[topics[0]]
    ]


def _match_co_partitioned(
    group: Group, owner: Ints, topics: list[int], ordered_readers: Ints
) -> None:
    """Assign co-partitioned topics anew, near first."""
    start, end = group.reader_start[group.reader_set[topics[0]] :][:2]
    size = int(group.topic_start[topics[0] + 1] - group.topic_start[topics[0]])
    ranges = _Ranges(size, int(end - start))
    ranges.fill_by_partition(
        _common_racks(group, topics, size), group.member_rack[ordered_readers[start:end]].tolist()
    )
    ranges.fill_up()
    owners = ordered_readers[start:end][ranges.reader_index]
    for topic in topics:
        owner[group.topic_start[topic] : group.topic_start[topic + 1]] = owners


def _match_lone(group: Group, owner: Ints, topics: list[int], ordered_readers: Ints) -> None:
    """Assign topics anew, each for itself, near first."""
    width = max(len(group.racks), 1)
    row = np.repeat(np.arange(group.partition_count), np.diff(group.replica_start))
    rack_of_topic = group.partition_topic[row].astype(np.int64) * width + group.replica_rack
    row = row[radix(rack_of_topic, len(group.topics) * width)]
    numbers = (
        row - group.topic_start[group.partition_topic[row]]
    ).tolist()  # numbers by topic and rack, ascending
    edges = starts(np.bincount(rack_of_topic, minlength=len(group.topics) * width)).tolist()
    racks, reader_set = group.member_rack[ordered_readers].tolist(), group.reader_set.tolist()
    bounds, first = group.reader_start.tolist(), group.topic_start.tolist()
    for topic in topics:
        start, end = bounds[reader_set[topic]], bounds[reader_set[topic] + 1]
        ranges = _Ranges(first[topic + 1] - first[topic], end - start)
        edge = edges[topic * width : (topic + 1) * width + 1]
        ranges.fill_by_reader([numbers[b:e] for b, e in pairwise(edge)], racks[start:end])
        ranges.fill_up()
        owner[first[topic] : first[topic + 1]] = ordered_readers[start:end][ranges.reader_index]


def _common_racks(group: Group, topics: list[int], size: int) -> list[list[int]]:
    """By partition number: the racks in which all the topics have a replica of it, ascending."""
    sets, numbers = len(group.rack_local), np.arange(size)
    rack_sets = group.rack_set[group.topic_start[topics][:, None] + numbers]
    number, rack_set = np.divmod(distinct((numbers * sets + rack_sets).ravel(), size * sets), sets)
    shared = np.logical_and.reduceat(group.rack_local[rack_set], np.searchsorted(number, numbers))
    racks_by_number: list[list[int]] = [[] for _ in range(size)]
    for partition, rack in np.argwhere(shared).tolist():
        racks_by_number[partition].append(rack)
    return racks_by_number


class _Ranges:
    """The ranges of one topic, or of several at once, while they are filled; readers go by their place in the queue."""

    __slots__ = ("extra", "filled", "quota", "reader_index")

    def __init__(self, size: int, readers: int) -> None:
        self.quota, self.extra = divmod(
            size, readers
        )  # `extra` falls as ranges grow past the quota
        self.filled = [0] * readers
        self.reader_index = [NOBODY] * size  # by partition number

    def room(self, reader: int) -> int:
        return self.quota + (self.extra > 0) - self.filled[reader]

    def assign(self, reader: int, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.reader_index[partition] = reader
        self.filled[reader] += len(partitions)
        if self.filled[reader] > self.quota:
            self.extra -= 1

    def fill_by_reader(self, numbers_by_rack: list[list[int]], racks: list[int]) -> None:
        """Each reader in turn takes the first partitions that are near to it, as many as its range holds."""
        left = [
            numbers[::-1] for numbers in numbers_by_rack
        ]  # by rack: partitions to take, the next one last
        left.append([*range(len(self.reader_index))][::-1] if RACKLESS in racks else [])
        reader_index = self.reader_index
        for reader, rack in enumerate(racks):
            stack, room = left[rack], self.quota + (self.extra > 0)
            taken = 0
            while stack and taken < room:
                partition = stack.pop()
                if reader_index[partition] == NOBODY:
                    reader_index[partition] = reader
                    taken += 1
            if taken:
                self.filled[reader] = taken
                self.extra -= taken > self.quota
            elif not room:
                break

    def fill_by_partition(self, racks_by_number: list[list[int]], racks: list[int]) -> None:
        """Each partition in turn goes to the first reader that is near to it and has room."""
        readers_by_rack: dict[int, list[int]] = defaultdict(
            list
        )  # by rack: readers, the next one last
        for reader in reversed(range(len(racks))):
            readers_by_rack[racks[reader]].append(reader)
        for partition, local_racks in enumerate(racks_by_number):
            first = len(racks)
            for rack in (RACKLESS, *local_racks):
                stack = readers_by_rack[rack]
                while stack and self.room(stack[-1]) <= 0:
                    stack.pop()
                if stack and stack[-1] < first:
                    first = stack[-1]
            if first < len(racks):
                self.assign(first, (partition,))

    def fill_up(self) -> None:
        """What no near reader took, in consecutive ranges."""
        left = [partition for partition, reader in enumerate(self.reader_index) if reader == NOBODY]
        begin = 0
        for reader in range(len(self.filled)):
            if begin == len(left):
                break
            room = self.room(reader)
            if room > 0:
                self.assign(reader, left[begin : begin + room])
                begin += min(room, len(left) - begin)
