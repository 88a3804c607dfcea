"""`range`: each topic in consecutive ranges, near its replicas where racks are known.

Source: Apache Kafka's RangeAssignor (4.x), with KIP-881's rack-awareness.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from assignors.assignment import NOBODY, Assignment
from assignors.columns import Bools, Ints, Longs, within
from assignors.group import Group

RACKLESS = -1


def range_(group: Group) -> Assignment:
    """Cut each topic into one range for each reader; the first ones get one partition more where it does not divide.

    Law: of a topic of n partitions each of k readers gets n // k, and n % k of them one more. Without racks these are
    consecutive numbers, reader by reader. Where the replicas' racks differ within some topic and readers are in them,
    every range is filled from partitions with a replica in the reader's rack first, and from what is left in a second
    pass. Topics of the same readers and the same number of partitions stay co-partitioned: there partition p goes to the
    first reader that has room and is near to p in all of them. A reader without a rack is near to everything.
    Ties: readers in Kafka's order, static members first by instance id, then the others by member id.
    Cost: O(P + S) without racks, O(P x replicas + S) with them.
    """
    queue = queues(group)
    owner = by_number(group, queue)
    uneven = _uneven(group)
    if uneven.any():
        for topics in _together(group, uneven):
            start, end = group.reader_start[group.audience[topics[0]] :][:2]
            _rematch(group, owner, topics, queue[start:end])
    return Assignment(owner)


def queues(group: Group) -> Ints:
    """The readers of each audience in Kafka's order, laid out as `group.reader` is."""
    place = np.empty(len(group.roster), dtype=np.int64)
    place[group.roster] = np.arange(len(place))
    audience = np.repeat(np.arange(len(group.reader_start) - 1), np.diff(group.reader_start))
    keys = np.sort(audience * max(len(place), 1) + place[group.reader])
    queues: Ints = group.roster[keys % max(len(place), 1)]
    return queues


def by_number(group: Group, queue: Ints) -> Ints:
    """Ranges of consecutive numbers, for all topics at once."""
    sizes = np.diff(group.topic_start)
    readers = np.diff(group.reader_start)[group.audience]
    quota, extra = np.divmod(sizes, np.maximum(readers, 1))
    topic = group.partition_topic
    quota_of, extra_of = quota[topic], extra[topic]
    number = within(sizes)
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


def _uneven(group: Group) -> Bools:
    """The topics for which a near reader could make a difference: by topic.

    Some reader shares a rack with some replica, and not every partition has replicas in all the racks of its topic.
    """
    width = max(len(group.racks), 1)
    has = np.zeros((len(group.topics), width), dtype=np.bool_)  # by topic and rack: a replica is there
    sizes = np.diff(group.replica_start)
    has[np.repeat(group.partition_topic, sizes), group.replica_rack] = True
    reads = np.zeros(
        (len(group.reader_start) - 1, width), dtype=np.bool_
    )  # by audience and rack: a reader is there
    audience = np.repeat(np.arange(len(reads)), np.diff(group.reader_start))
    racks = group.member_rack[group.reader]
    reads[audience[racks >= 0], racks[racks >= 0]] = True
    fewer = np.zeros(len(group.topics), dtype=np.bool_)
    fewer[group.partition_topic[sizes < has.sum(axis=1)[group.partition_topic]]] = True
    uneven: Bools = fewer & (has & reads[group.audience]).any(axis=1)
    return uneven


def _together(group: Group, uneven: Bools) -> Iterable[list[int]]:
    """The topics to match by racks: co-partitioned ones together, lone ones only if they are uneven themselves."""
    same: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    readers = np.diff(group.reader_start)[group.audience]
    sizes = np.diff(group.topic_start)
    for topic in np.flatnonzero((readers > 0) & (sizes > 0)).tolist():
        same[int(group.audience[topic]), int(sizes[topic])].append(topic)
    return [topics for topics in same.values() if len(topics) > 1 or uneven[topics[0]]]


def _rematch(group: Group, owner: Ints, topics: list[int], queue: Ints) -> None:
    """Assign the topics anew, near first."""
    size = int(group.topic_start[topics[0] + 1] - group.topic_start[topics[0]])
    near = _near(group, topics, size)
    ranges = _Ranges(size, len(queue))
    racks = group.member_rack[queue].tolist()
    if len(topics) > 1:
        ranges.fill_by_partition(near, racks)
    else:
        ranges.fill_by_reader(near, racks)
    ranges.fill_up()
    theirs = queue[ranges.place]
    for topic in topics:
        owner[group.topic_start[topic] : group.topic_start[topic + 1]] = theirs


def _near(group: Group, topics: list[int], size: int) -> list[list[int]]:
    """By partition number: the racks in which all the topics have a replica of it, ascending."""
    width = max(len(group.racks), 1)
    found: Longs = np.zeros(size * width, dtype=np.int64)
    for topic in topics:
        starts = group.replica_start[group.topic_start[topic] : group.topic_start[topic + 1] + 1]
        number = np.repeat(np.arange(size), np.diff(starts))
        found[number * width + group.replica_rack[starts[0] : starts[-1]]] += 1
    near: list[list[int]] = [[] for _ in range(size)]
    for key in np.flatnonzero(found == len(topics)).tolist():
        near[key // width].append(key % width)
    return near


class _Ranges:
    """The ranges of one topic, or of several at once, while they are filled; readers go by their place in the queue."""

    __slots__ = ("extra", "filled", "place", "quota")

    def __init__(self, size: int, readers: int) -> None:
        self.quota, self.extra = divmod(size, readers)  # `extra` falls as ranges grow past the quota
        self.filled = [0] * readers
        self.place = [NOBODY] * size  # by partition number

    def room(self, reader: int) -> int:
        return self.quota + (self.extra > 0) - self.filled[reader]

    def give(self, reader: int, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.place[partition] = reader
        self.filled[reader] += len(partitions)
        if self.filled[reader] > self.quota:
            self.extra -= 1

    def fill_by_reader(self, near: list[list[int]], racks: list[int]) -> None:
        """Each reader in turn takes the first partitions that are near to it, as many as its range holds."""
        left: dict[int, list[int]] = defaultdict(list)  # by rack: partitions to take, the next one last
        for partition in reversed(range(len(near))):
            left[RACKLESS].append(partition)
            for rack in near[partition]:
                left[rack].append(partition)
        for reader, rack in enumerate(racks):
            room, stack = self.room(reader), left[rack]
            taken: list[int] = []
            while room > len(taken) and stack:
                partition = stack.pop()
                if self.place[partition] == NOBODY:
                    taken.append(partition)
            if taken:
                self.give(reader, taken)

    def fill_by_partition(self, near: list[list[int]], racks: list[int]) -> None:
        """Each partition in turn goes to the first reader that is near to it and has room."""
        waiting: dict[int, list[int]] = defaultdict(list)  # by rack: readers, the next one last
        for reader in reversed(range(len(racks))):
            waiting[racks[reader]].append(reader)
        for partition, there in enumerate(near):
            first = len(racks)
            for rack in (RACKLESS, *there):
                stack = waiting[rack]
                while stack and self.room(stack[-1]) <= 0:
                    stack.pop()
                if stack and stack[-1] < first:
                    first = stack[-1]
            if first < len(racks):
                self.give(first, (partition,))

    def fill_up(self) -> None:
        """What no near reader took, in consecutive ranges."""
        left = [partition for partition, reader in enumerate(self.place) if reader == NOBODY]
        begin = 0
        for reader in range(len(self.filled)):
            if begin == len(left):
                break
            room = self.room(reader)
            if room > 0:
                self.give(reader, left[begin : begin + room])
                begin += min(room, len(left) - begin)
