"""Buckets of topics and of groups: one of each for each task that works on them.

A bucket is one key of Spark's, since what Spark takes for a key is paid in each batch. A batch also
has a row and a few dozen calls of NumPy for each bucket of groups and topic, so that there are no
more buckets than tasks: with two instead of four, 20 groups of 100 topics took a third less CPU.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.topics import partition_for
from levelwind.streaming.messages.remembered import remembered

if TYPE_CHECKING:
    from levelwind.streaming.rules.event_time import Int64

TOPIC_KEY_PREFIX, GROUP_KEY_PREFIX = "t/", "g/"
"""The beginning of the state key of a bucket of topics, and of groups; the bucket's name
follows."""
DEFAULT_BUCKETS = 2
"""The number of buckets where a caller does not say it."""
REMEMBERED_GROUPS = REMEMBERED_TOPICS = 2**16
"""The number of groups, and of topics, whose state keys are remembered."""
REMEMBERED_LISTS, MAX_REMEMBERED_LIST = 64, 4096
"""The number of lists of groups whose buckets are remembered, and the length of one."""
_SEED = 42
_WORD = 2**32 - 1


_group_bucket = lru_cache(maxsize=REMEMBERED_GROUPS)(partition_for)


def group_key(group: str, buckets: int) -> str:
    """The state key of a group's bucket, one of `buckets`."""
    return bucket_keys(GROUP_KEY_PREFIX, buckets)[_group_bucket(group, buckets)]


@remembered(REMEMBERED_LISTS, MAX_REMEMBERED_LIST)
def group_buckets(groups: tuple[str, ...], buckets: int) -> Int64:
    """The bucket of each group, as an index of `bucket_keys`."""
    return np.array([_group_bucket(group, buckets) for group in groups], np.int64)


@lru_cache(maxsize=REMEMBERED_TOPICS)
def topic_key(topic: str, buckets: int) -> str:
    """The state key of a topic's bucket, one of `buckets`."""
    return bucket_keys(TOPIC_KEY_PREFIX, buckets)[partition_for(topic, buckets)]


@cache
def bucket_keys(prefix: str, buckets: int) -> tuple[str, ...]:
    """State keys with a prefix that Spark spreads over as many tasks, one to each."""
    by_task: dict[int, str] = {}
    for number in count():
        key = f"{prefix}{number}"
        by_task.setdefault(task_of(key, buckets), key)
        if len(by_task) == buckets:
            break
    return tuple([by_task[task] for task in range(buckets)])


def task_of(key: str, tasks: int) -> int:
    """The task to which Spark gives the rows of a state key: its murmur3 hash, modulo the tasks.

    It differs from the usual murmur3 in that each byte after the last whole word is mixed in like a
    word (`Murmur3_x86_32.hashUnsafeBytes`). The key is in ASCII.
    """
    content, hashed = key.encode("ascii"), _SEED
    whole = len(content) // 4 * 4
    words = [int.from_bytes(content[at : at + 4], "little") for at in range(0, whole, 4)]
    for word in (*words, *content[whole:]):
        mixed = _rotated(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
        hashed = (_rotated(hashed ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    hashed ^= len(content)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return signed % tasks


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _WORD
