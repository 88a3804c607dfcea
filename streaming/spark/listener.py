"""Listener of Spark's that reports the batches of one query, and its end."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark import SparkContext

from streaming.spark.progress import Progress, Terminated, read_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def query_listener(
    on_progress: Callable[[Progress | Terminated], None], query: str, reasons: Collection[str]
) -> Any:
    """Spark's listener that tells each batch of a query that is about to be started, and its end.

    Args:
        on_progress: called in a thread of Spark's; must not block.
        query: its name; the session may run others.
        reasons: what rejections are counted under; all else is skipped by kind.
    """
    return _Listener(on_progress, query, reasons)


class _Listener:
    """Implements Spark's interface itself, to fetch an event's JSON with one call.

    pyspark's own listener fetches an event's figures one by one: of what Spark's process computed at 200 commits a second
    that was a sixth, and this is less than a hundredth.
    """

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

    def __init__(
        self,
        on_progress: Callable[[Progress | Terminated], None],
        query: str,
        reasons: Collection[str],
    ) -> None:
        self._on_progress = on_progress
        self._query = query
        self._reasons = reasons
        self._run: str | None = (
            None  # Spark's id of this start; a later start of the query has a listener of its own
        )

    @cached_property
    def _jlistener(self) -> Any:  # where `addListener` looks for it
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(self)  # noqa: SLF001 - as pyspark's own does

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name, as those below
        if self._run is None and event.name() == self._query:
            self._run = event.runId().toString()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = json.loads(event.progress().json())
        if progress["runId"] == self._run:
            self._on_progress(read_progress(progress, self._reasons))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId().toString() == self._run:
            error = event.exception()
            self._on_progress(Terminated(error=error.get() if error.isDefined() else None))
