"""Questions to Spark about its query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from levelwind.streaming.spark.progress import Terminated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from levelwind.daemon.pipeline.liveness.signs_of_life import ExecutorWatch
    from levelwind.daemon.pipeline.reporter import ProgressReporter


class SparkProbe:
    """The questions of a heartbeat; implements `liveness.heartbeat.QueryProbe`."""

    def __init__(
        self,
        spark: SparkSession,
        reporter: ProgressReporter,
        executors: ExecutorWatch | None = None,
    ) -> None:
        self._spark = spark
        self._reporter = reporter
        self._executors = executors
        self.query: StreamingQuery | None = None
        """The query once it has been started."""

    def batches_done(self) -> int:
        """The number of batches that the query has reported."""
        return self._reporter.batches

    def is_working(self) -> bool:
        """Whether the query works on a batch; asks the JVM even before there is a query.

        A query that a cluster gives no executors is reported as ended.
        """
        from levelwind.streaming.spark import session  # noqa: PLC0415 - as in `process`

        working = session.is_working(self._spark, self.query)
        if self._executors is not None:
            count = session.executors(self._spark) if working else 0
            refused = self._executors.look(time.monotonic(), working=working, executors=count)
            if refused is not None and not self._reporter.ended.is_set():
                self._reporter.on_progress(Terminated(error=refused))
        return working
