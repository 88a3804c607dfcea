"""The clock by which Spark begins batches, with the time in the hands of the test."""

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from levelwind.streaming.rules.cadence import CadenceRule
from levelwind.streaming.spark.batches.batch_clock import NEWS_MS, BatchClock
from levelwind.streaming.spark.batches.progress import read_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = read_progress(
    {
        "batchId": 1,
        "numInputRows": 10,
        "durationMs": {"triggerExecution": 250, "latestOffset": 1},
        "stateOperators": [],
        "sources": [],
    },
    (),
)
CALM = 2_000 + 550 - 250


class SetClock(BatchClock):
    """A clock whose time passes in its waits alone."""

    def __init__(self) -> None:
        super().__init__(CadenceRule(), lambda: self.watched)
        self.watched = False
        self.now = 10**9
        self.news: Iterator[object] = iter(())
        """What happens in the middle of each wait."""
        self._changed = Passing(self)  # type: ignore[assignment]

    def nanoTime(self) -> int:  # noqa: N802 - Spark's name
        return self.now * 1_000_000


class Passing:
    """A condition in whose waits the clock's time passes."""

    def __init__(self, clock: SetClock) -> None:
        self._clock = clock

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def notify_all(self) -> None: ...

    def wait(self, seconds: float) -> None:
        if next(self._clock.news, None) is None:
            self._clock.now += round(seconds * 1000)


@pytest.fixture
def clock() -> SetClock:
    clock = SetClock()
    clock.on_batch(BATCH)
    clock.waitTillTime(0)
    clock.on_batch(replace(BATCH, batch=2))
    return clock


def test_a_calm_query_waits_longer_than_sparks_interval(clock: SetClock) -> None:
    ended = clock.now
    assert clock.waitTillTime(ended + 300) == ended - BATCH.batch_ms + CALM


def test_a_query_that_is_watched_begins_its_batches_at_the_shortest_interval(
    clock: SetClock,
) -> None:
    clock.waitTillTime(clock.now)
    clock.watched = True
    clock.on_batch(BATCH)
    ended = clock.now
    assert clock.waitTillTime(ended) == ended - BATCH.batch_ms + 550


def test_a_query_with_nothing_to_read_looks_again_at_sparks_time(clock: SetClock) -> None:
    clock.waitTillTime(clock.now + 300)
    looked = clock.now
    assert clock.waitTillTime(looked + 300) == looked + 300


def test_a_batch_that_is_told_late_counts_all_the_same(clock: SetClock) -> None:
    clock.waitTillTime(clock.now)
    clock.now += 700
    ended = clock.now

    def news() -> "Iterator[object]":
        yield clock.on_batch(BATCH) or "a batch"

    clock.news = news()
    assert clock.waitTillTime(ended - 150) == ended - BATCH.batch_ms + CALM


def test_a_time_of_another_clock_is_no_time_to_wait_for(clock: SetClock) -> None:
    clock.waitTillTime(clock.now)
    looked = clock.now
    assert clock.waitTillTime(1_790_000_000_000) == looked + 550
    assert clock.waitTillTime(0) == looked + 550 + NEWS_MS


def test_news_in_the_middle_of_a_wait_end_it() -> None:
    """With the real condition: a batch that is reported late may have the next one begin."""
    clock = BatchClock(CadenceRule(shortest_ms=60_000, longest_ms=60_000))
    begun = threading.Event()
    returned: list[int] = []

    def wait() -> None:
        begun.set()
        returned.append(clock.waitTillTime(clock.getTimeMillis() + 60_000))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    begun.wait()
    cut = replace(BATCH, behind=5)
    clock.on_batch(cut)
    waiting.join(30)
    assert returned
