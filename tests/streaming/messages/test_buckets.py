"""The buckets of topics and of groups: one of each for a task, so that no task waits for others."""

from collections import Counter
from collections.abc import Callable

import pytest

from levelwind.streaming.messages.buckets import (
    GROUP_KEY_PREFIX,
    TOPIC_KEY_PREFIX,
    bucket_keys,
    group_key,
    task_of,
    topic_key,
)

WORDS = 2**32


def test_the_hash_is_sparks() -> None:
    """`SELECT hash('Spark')`, `hash('g/0')` and `hash('g/4')` of Spark 4.2: signed words."""
    hashes = {"Spark": 228093765, "g/0": 179422997}
    assert {key: task_of(key, WORDS) for key in hashes} == hashes
    assert {key: task_of(key, 7) for key in hashes} == {key: n % 7 for key, n in hashes.items()}


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 7, 64, 200])
@pytest.mark.parametrize("prefix", [TOPIC_KEY_PREFIX, GROUP_KEY_PREFIX])
def test_each_task_has_one_bucket(prefix: str, tasks: int) -> None:
    keys = bucket_keys(prefix, tasks)
    assert [task_of(key, tasks) for key in keys] == list(range(tasks))
    assert all(key.startswith(prefix) for key in keys)


@pytest.mark.parametrize("tasks", [2, 4, 12])
@pytest.mark.parametrize(
    ("prefix", "key_of"), [(TOPIC_KEY_PREFIX, topic_key), (GROUP_KEY_PREFIX, group_key)]
)
def test_names_are_in_all_buckets(
    prefix: str, key_of: Callable[[str, int], str], tasks: int
) -> None:
    keys = Counter(key_of(f"name-{number}", tasks) for number in range(100 * tasks))
    assert keys.keys() == set(bucket_keys(prefix, tasks))
    assert min(keys.values()) > 50
