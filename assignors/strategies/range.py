"""`range`: each topic in consecutive ranges, rack-local where racks are known.

Source: Apache Kafka's RangeAssignor (4.x), with KIP-881's rack-awareness.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Bools, Ints, Longs, distinct, radix, starts, within
from levelwind.assignors.problem.group import Group

RACKLESS = -1
"""Rack of a reader whose rack is unknown."""


def range_strategy(group: Group) -> Assignment:
    """Cut each topic into one range for each reader; the first readers get the remainder.

    Guarantees: of a topic of n partitions each of k readers gets n // k, and n % k of them one
    more. Without racks these are consecutive numbers, reader by reader. Where the replicas' racks
    differ within some topic and readers are in them, every range is filled from partitions with a
    replica in the reader's rack first, and from the remaining partitions in a second pass. Topics
    of the same readers and the same number of partitions stay co-partitioned: there partition p
    goes to the first reader that has room and is local to p in all of them. A reader of unknown
    rack is local to everything.
    Ties: readers in Kafka's order, static members first by instance id, then the others by member
    id.
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
    """Readers of each reader set in Kafka's order, laid out as `group.reader` is."""
    readers_in_kafka_order: Ints = group.members_in_kafka_order[reader_ranks(group)]
    return readers_in_kafka_order


def reader_ranks(group: Group) -> Longs:
    """Ranks of the readers in Kafka's order of members, ascending within each reader set.

    The column is laid out as `group.reader` is.
    """
    members = np.arange(len(group.members_in_kafka_order))
    if np.array_equal(group.members_in_kafka_order, members):
        return group.reader.astype(np.int64)
    rank_of = np.empty(len(members), dtype=np.int64)
    rank_of[group.members_in_kafka_order] = members
    reader_set = np.repeat(np.arange(len(group.reader_start) - 1), np.diff(group.reader_start))
    first = reader_set * len(members)
    return np.sort(first + rank_of[group.reader]) - first


def consecutive_ranges(group: Group, ordered_readers: Ints) -> Ints:
    """Owners by ranges of consecutive numbers, for all topics at once."""
    sizes = np.diff(group.topic_start)
    readers = np.diff(group.reader_start)[group.reader_set]
    quota, extra = np.divmod(sizes, np.maximum(readers, 1))
    topic = group.partition_topic
    quota_of, extra_of = quota[topic], extra[topic]
    number = within(sizes)
    # Partitions before this number are in the ranges that are one longer.
    long_ranges_end = extra_of * (quota_of + 1)
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
    """Topics for which rack-local readers could make a difference.

    Some reader shares a rack with some replica, and not every partition has replicas in all the
    racks of its topic.
    """
    sets, width = group.rack_local.shape
    keys = distinct(
        group.partition_topic * np.int64(sets) + group.rack_set, len(group.topics) * sets
    )
    topic, rack_set = np.divmod(keys, max(sets, 1))  # each topic with each of its rack sets
    # By topic and rack: whether a replica is in the rack.
    replica_in = np.zeros((len(group.topics), width), dtype=np.bool_)
    pair, rack = np.nonzero(group.rack_local[rack_set])
    replica_in[topic[pair], rack] = True
    # By reader set and rack: whether a reader is in the rack.
    reader_in = np.zeros((len(group.reader_start) - 1, width), dtype=np.bool_)
    reader_set = np.repeat(np.arange(len(reader_in)), np.diff(group.reader_start))
    reader_in[reader_set, group.member_rack[group.reader]] = True
    racks_differ = np.zeros(len(group.topics), dtype=np.bool_)
    racks_differ[topic[(replica_in[topic] & ~group.rack_local[rack_set]).any(axis=1)]] = True
    rack_sensitive: Bools = racks_differ & (replica_in & reader_in[group.reader_set]).any(axis=1)
    return rack_sensitive


def _topics_to_match(group: Group, rack_sensitive: Bools) -> tuple[list[list[int]], list[int]]:
    """Topics to match by racks: co-partitioned sets, and rack-sensitive lone topics."""
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
    """Reassign co-partitioned topics, rack-local readers first."""
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
    """Reassign lone topics, each by itself, rack-local readers first."""
    width = max(len(group.racks), 1)
    row = np.repeat(np.arange(group.partition_count), np.diff(group.replica_start))
    rack_of_topic = group.partition_topic[row].astype(np.int64) * width + group.replica_rack
    row = row[radix(rack_of_topic, len(group.topics) * width)]
    # Partition numbers by topic and rack, ascending.
    numbers = (row - group.topic_start[group.partition_topic[row]]).tolist()
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
    """Racks in which all the topics have a replica, ascending, by partition number."""
    sets, numbers = len(group.rack_local), np.arange(size)
    rack_sets = group.rack_set[group.topic_start[topics][:, None] + numbers]
    number, rack_set = np.divmod(distinct((numbers * sets + rack_sets).ravel(), size * sets), sets)
    shared = np.logical_and.reduceat(group.rack_local[rack_set], np.searchsorted(number, numbers))
    racks_by_number: list[list[int]] = [[] for _ in range(size)]
    for partition, rack in np.argwhere(shared).tolist():
        racks_by_number[partition].append(rack)
    return racks_by_number


class _Ranges:
    """Ranges of one topic, or of co-partitioned topics, while they are filled.

    A reader is its index among the topic's readers in Kafka's order.
    """

    __slots__ = ("extra", "filled", "quota", "reader_index")

    def __init__(self, size: int, readers: int) -> None:
        # `extra` falls as ranges grow past the quota.
        self.quota, self.extra = divmod(size, readers)
        self.filled = [0] * readers
        self.reader_index = [NOBODY] * size  # by partition number

    def room(self, reader: int) -> int:
        """Partitions that a reader may still take."""
        return self.quota + (self.extra > 0) - self.filled[reader]

    def assign(self, reader: int, partitions: Sequence[int]) -> None:
        """Give partitions to a reader."""
        for partition in partitions:
            self.reader_index[partition] = reader
        self.filled[reader] += len(partitions)
        if self.filled[reader] > self.quota:
            self.extra -= 1

    def fill_by_reader(self, numbers_by_rack: list[list[int]], racks: list[int]) -> None:
        """Let each reader take its first rack-local partitions, as many as its range holds.

        Args:
            numbers_by_rack: partition numbers with a replica in each rack, ascending.
            racks: rack of each reader.
        """
        # By rack: partitions to take, the next one last.
        left = [numbers[::-1] for numbers in numbers_by_rack]
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
        """Give each partition to the first rack-local reader with room.

        Args:
            racks_by_number: racks of each partition.
            racks: rack of each reader.
        """
        # By rack: readers, the next one last.
        readers_by_rack: dict[int, list[int]] = defaultdict(list)
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
        """Give the remaining partitions in consecutive ranges to the readers with room."""
        left = [partition for partition, reader in enumerate(self.reader_index) if reader == NOBODY]
        begin = 0
        for reader in range(len(self.filled)):
            if begin == len(left):
                break
            room = self.room(reader)
            if room > 0:
                self.assign(reader, left[begin : begin + room])
                begin += min(room, len(left) - begin)
