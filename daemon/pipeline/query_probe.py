"""Questions to Spark about its query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from levelwind.streaming.spark.batches.progress import NothingToRead, Progress, Terminated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from levelwind.daemon.pipeline.liveness.signs_of_life import ExecutorWatch
    from levelwind.daemon.pipeline.liveness.unread_input import UnreadInput
    from levelwind.daemon.pipeline.reporter import ProgressReporter
    from levelwind.streaming.spark.batches.progress import QueryNews


class SparkProbe:
    """The questions of a heartbeat; implements `liveness.heartbeat.QueryProbe`."""

    def __init__(
        self,
        spark: SparkSession,
        reporter: ProgressReporter,
        unread: UnreadInput,
        executors: ExecutorWatch | None = None,
    ) -> None:
        self._spark = spark
        self._reporter = reporter
        self._unread = unread
        self._executors = executors
        self._query: StreamingQuery | None = None
        """The query once it has been started."""

    def follow(self, query: StreamingQuery) -> None:
        """Ask about a query that was started."""
        self._query = query
        self._unread.start()

    def on_progress(self, news: QueryNews) -> None:
        """Take and report a batch, that nothing is left to read, or the end of the query."""
        match news:
            case Progress():
                self._unread.on_batch(news.read)
            case NothingToRead():
                self._unread.on_idle()
        self._reporter.on_progress(news)

    def batches_done(self) -> int:
        """The number of batches that the query has reported."""
        return self._reporter.batches

    def is_fed(self) -> bool:
        """Whether the brokers serve others, and had input for the query since its last batch."""
        return self._unread.are_brokers_serving()

    def unserved(self) -> str | None:
        """What the brokers do not serve, for which the query waits; None: nothing is known."""
        return self._unread.unserved()

    def is_working(self) -> bool:
        """Whether the query works on a batch, or leaves input unread.

        The JVM is asked even before there is a query.

        A query that a cluster gives no executors is reported as ended.
        """
        from levelwind.streaming.spark import session  # noqa: PLC0415 - as in `process`

        working = session.is_working(self._spark, self._query)
        if self._executors is not None:
            count = session.executors(self._spark) if working else 0
            refused = self._executors.look(time.monotonic(), working=working, executors=count)
            if refused is not None and not self._reporter.ended.is_set():
                self._reporter.on_progress(Terminated(error=refused))
        return working or self._unread.is_left_unread()
