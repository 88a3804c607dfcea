"""Messages that wait to be handed out, and those of partitions that the application paused."""

from collections import deque
from types import SimpleNamespace

import pytest

from levelwind.assignors.clients.confluent.fetched_records import FetchedRecords

A, B = ("orders", 0), ("orders", 1)


def message(pair, offset):
    return SimpleNamespace(
        topic=lambda: pair[0], partition=lambda: pair[1], offset=lambda: offset, error=lambda: None
    )


@pytest.fixture
def grants():
    return {A: 1, B: 2}


@pytest.fixture
def fetched(grants):
    """A buffer that has fetched two messages of each partition; more come with `arrive`."""
    arriving = deque()
    consumer = SimpleNamespace(poll=lambda _timeout: arriving.popleft() if arriving else None)
    fetched = FetchedRecords(consumer, grants)

    def arrive(pair, offset):
        arriving.append(message(pair, offset))
        fetched.fetch(1, 0)

    fetched.arrive = arrive
    for offset in (0, 1):
        for pair in (A, B):
            fetched.arrive(pair, offset)
    return fetched


def taken(fetched):
    return [(each.partition(), each.offset()) for each in fetched.take(100)]


def test_a_paused_partition_keeps_its_messages_back_until_it_is_resumed(fetched):
    fetched.pause([A])
    assert len(fetched) == 2
    fetched.arrive(A, 2)
    assert taken(fetched) == [(1, 0), (1, 1)]
    fetched.arrive(B, 2)
    fetched.resume([A])
    assert taken(fetched) == [(0, 0), (0, 1), (0, 2), (1, 2)]


def test_to_pause_and_to_resume_twice_is_to_do_it_once(fetched):
    for _ in range(2):
        fetched.pause([A])
    for _ in range(2):
        fetched.resume([A])
    assert taken(fetched) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_pause_ends_with_the_grant_and_its_messages_are_dropped(fetched, grants):
    fetched.pause([A])
    del grants[A]
    fetched.drop_outdated()
    grants[A] = 3
    fetched.arrive(A, 7)
    assert taken(fetched) == [(1, 0), (1, 1), (0, 7)]


def test_a_pause_outlasts_a_seek(fetched):
    fetched.pause([A])
    fetched.drop(A)
    fetched.arrive(A, 9)
    assert taken(fetched) == [(1, 0), (1, 1)]
    fetched.resume([A])
    assert taken(fetched) == [(0, 9)]


def test_messages_that_are_put_back_come_first(fetched):
    messages = fetched.take(3)
    assert [(m.partition(), m.offset()) for m in messages] == [(0, 0), (1, 0), (0, 1)]
    fetched.pause([A])
    fetched.put_back(messages)
    assert taken(fetched) == [(1, 0), (1, 1)]
    fetched.resume([A])
    assert taken(fetched) == [(0, 0), (0, 1)]
