"""Listener of Spark's that reports the batches of one query, and its end."""

from __future__ import annotations

import json
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark import SparkContext

from levelwind.streaming.spark.batches.progress import NothingToRead, Terminated, read_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from levelwind.streaming.spark.batches.progress import QueryNews


def query_listener(
    on_progress: Callable[[QueryNews], None], query: str, reasons: Collection[str]
) -> Any:
    """Make a listener for a query that is about to start; Spark's `addListener` takes it.

    Args:
        on_progress: called with each batch, with the end, and every 10 s while there is nothing to
            read, in a thread of Spark's; must not block.
        query: name of the query; the session may run others.
        reasons: the reasons for which records are rejected; any other count is of skipped records.
    """
    return _Listener(on_progress, query, reasons)


class _Listener:
    """Implementation of Spark's Java interface that fetches an event's JSON with one call.

    pyspark's own listener fetches an event's figures one by one: at 200 commits a second that was a
    sixth of the CPU time of Spark's process, and this is less than a hundredth.
    """

    Java: ClassVar = SimpleNamespace(
        implements=["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
    )
    """The name of the interface, where py4j looks for it."""

    def __init__(
        self,
        on_progress: Callable[[QueryNews], None],
        query: str,
        reasons: Collection[str],
    ) -> None:
        self._on_progress = on_progress
        self._query = query
        self._reasons = reasons
        self._run: str | None = None
        """Spark's id of this start of the query; a later start has a listener of its own."""

    @cached_property
    def _jlistener(self) -> Any:
        """The Java object, under the name by which `addListener` fetches it."""
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - as pyspark's own listener does
        return jvm.PythonStreamingQueryListenerWrapper(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name, as those below
        if self._run is None and event.name() == self._query:
            self._run = event.runId().toString()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        if event.runId().toString() == self._run:
            self._on_progress(NothingToRead())

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = json.loads(event.progress().json())
        if progress["runId"] == self._run:
            self._on_progress(read_progress(progress, self._reasons))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId().toString() == self._run:
            error = event.exception()
            self._on_progress(Terminated(error=error.get() if error.isDefined() else None))
