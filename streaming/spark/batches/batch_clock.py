"""The clock that tells Spark when to begin a batch, by the cadence instead of a fixed interval.

Spark's trigger waits for the next multiple of its interval by a clock. Nothing of Spark's takes
another clock for a query that is started by `writeStream`, so this one is put in its place.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from py4j.protocol import Py4JError

from levelwind.streaming.rules.cadence import Batch, Cadence

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from levelwind.streaming.rules.cadence import CadenceRule
    from levelwind.streaming.spark.batches.progress import Progress

NEWS_MS = 100
"""Milliseconds within which the listener has been told of the batch that has just ended."""


class BatchClock:
    """Implementation of Spark's Java interface of a clock.

    The query's thread calls its methods, a listener's thread `on_batch`.
    """

    Java: ClassVar = SimpleNamespace(implements=["org.apache.spark.util.Clock"])
    """The name of the interface, where py4j looks for it."""

    def __init__(self, rule: CadenceRule, is_watched: Callable[[], bool] = lambda: False) -> None:
        """Keep to a rule; `is_watched` tells after each batch whether somebody watches."""
        self._is_watched = is_watched
        self._cadence = Cadence(rule=rule)
        self._changed = threading.Condition()
        self._batch_reported = False
        """Whether a batch was reported since the last wait."""
        self._query: StreamingQuery | None = None
        """The query that is to keep to this clock, until it does."""

    def pace(self, query: StreamingQuery) -> None:
        """Let a query that was started keep to this clock, from its next batch on."""
        self._query = query

    def _take_over(self, query: StreamingQuery) -> None:
        """Put this clock in the place of Spark's, which the query has once it does batches.

        Another release of Spark's may have no such place: then the trigger's interval is fixed.
        """
        with suppress(Py4JError):
            executor: Any = query._jsq.streamingQuery().triggerExecutor()  # noqa: SLF001 - pyspark has no other access
            clock = executor.getClass().getDeclaredField("clock")
            clock.setAccessible(True)
            clock.set(executor, self)

    def on_batch(self, progress: Progress) -> None:
        """Take a batch that has just ended."""
        if self._query is not None:
            self._take_over(self._query)
            self._query = None
        with self._changed:
            self._cadence = self._cadence.after(
                Batch(
                    began_at=self.getTimeMillis() - progress.batch_ms,
                    length_ms=progress.batch_ms,
                    records=progress.rows,
                    cut=bool(progress.behind),
                    at_stake=progress.at_stake or self._is_watched(),
                )
            )
            self._batch_reported = True
            self._changed.notify_all()

    def getTimeMillis(self) -> int:  # noqa: N802 - Spark's name, as those below
        """Milliseconds of a clock that nobody sets."""
        return self.nanoTime() // 1_000_000

    def nanoTime(self) -> int:  # noqa: N802
        """Nanoseconds of the same clock."""
        return time.monotonic_ns()

    def waitTillTime(self, target: int) -> int:  # noqa: N802
        """Wait until the next batch may begin; Spark's own time is a multiple of its interval.

        Where Spark found nothing to read, that time counts: the last batch is long over. It may be
        that of another clock, which Spark asked before this one was in its place.
        """
        with self._changed:
            begun = self.getTimeMillis()
            latest = begun + self._cadence.rule.shortest_ms
            look_at = max(min(target, latest), begun + NEWS_MS)
            while True:
                now = self.getTimeMillis()
                due = self._cadence.due_at if self._batch_reported else look_at
                if now >= due:
                    self._batch_reported = False
                    return now
                self._changed.wait((due - now) / 1000)
