"""Commits of groups as the offsets topic holds them, in the order in which brokers applied them."""

import struct
from collections import defaultdict
from collections.abc import Collection

from confluent_kafka import Consumer, Message, TopicPartition

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind_testing.chaos.checker import CommitRecord
from levelwind_testing.chaos.journal import Partition
from levelwind_testing.waiting import wait_until

COMMIT_KEYS = (0, 1)
"""Versions of keys of offset commits."""

History = dict[str, dict[Partition, list[CommitRecord]]]


def read_commits(bootstrap: str, groups: Collection[str], wall_minus_boot: float) -> History:
    """Read all commits of groups.

    Args:
        bootstrap: address of the cluster.
        groups: names of the groups.
        wall_minus_boot: seconds between the wall clock and the boot clock.

    Raises:
        AssertionError: the topic could not be read to its end.
    """
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    history: History = {group: defaultdict(list) for group in groups}
    try:
        partitions = reader.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions
        reader.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in partitions])
        unread = set(partitions)

        def all_is_read() -> bool:
            for message in reader.consume(5000, 0.5):
                if message.error() is not None:
                    unread.discard(message.partition())
                else:
                    _take(history, message, wall_minus_boot)
            return not unread

        wait_until(f"end of {OFFSETS_TOPIC}", all_is_read, pause=0, shown=lambda: sorted(unread))
    finally:
        reader.close()
    return history


def _take(history: History, message: Message, wall_minus_boot: float) -> None:
    key, value = message.key(), message.value()
    if key is None or value is None or struct.unpack_from(">h", key)[0] not in COMMIT_KEYS:
        return
    group, start = _text(key, 2)
    topic, start = _text(key, start)
    if group not in history:
        return
    (number,) = struct.unpack_from(">i", key, start)
    (offset,) = struct.unpack_from(">q", value, 2)  # behind the version
    _, at = message.timestamp()
    commit = CommitRecord(at / 1000 - wall_minus_boot, offset)
    history[group][Partition(topic, number)].append(commit)


def _text(data: bytes, start: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, start)
    end = start + 2 + size
    return data[start + 2 : end].decode(), end
