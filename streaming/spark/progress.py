"""What the query tells of itself after each batch, as plain values."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark import SparkContext

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

COUNTS = "levelwind_counts"
"""The name under which the counts are observed, each with what it counts, and"""
NEWEST = "newest"
"""what is said in place of that where the count is the newest record's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One batch."""

    batch: int
    rows: int
    """Kafka records read."""
    rows_per_second: float
    batch_ms: int
    durations: Mapping[str, int]
    """By Spark's name of the phase, milliseconds."""
    state_rows: int
    state_bytes: int
    """In the state stores' memory."""
    behind: int | None
    """Offsets of the input that this batch has left unread: 0 unless it was cut at `max_offsets_per_trigger`; None of a
    batch that a former start had planned, since it is done again without a look at what there is."""
    newest: int | None
    """The time of the newest record that was read; the query's clock, since all its rules are in event time."""
    rejected: Mapping[str, int]
    """By reason, in this batch."""
    skipped: Mapping[str, int]
    """By kind, in this batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """The query has ended; `error` says why, None if it was asked to."""

    error: str | None


def listener(
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
            self._on_progress(read(progress, self._reasons))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId().toString() == self._run:
            error = event.exception()
            self._on_progress(Terminated(error=error.get() if error.isDefined() else None))


def read(progress: Mapping[str, Any], reasons: Collection[str]) -> Progress:
    """One batch, from Spark's event."""
    rejected: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    newest: int | None = None
    for counted in progress.get("observedMetrics", {}).get(COUNTS, {}).get(COUNTS) or ():
        reason, n = counted["reason"], int(counted["n"])
        if reason == NEWEST:
            newest = n if newest is None else max(newest, n)
        else:
            (rejected if reason in reasons else skipped)[reason] += n
    operators = progress["stateOperators"]
    durations = progress["durationMs"]
    return Progress(
        batch=progress["batchId"],
        rows=progress["numInputRows"],
        rows_per_second=float(
            progress.get("processedRowsPerSecond", 0.0)
        ),  # left out where it is not a number
        batch_ms=int(durations.get("triggerExecution", 0)),
        durations=durations,
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        behind=sum(
            behind(source.get("endOffset"), source.get("latestOffset"))
            for source in progress["sources"]
        )
        if "latestOffset" in durations
        else None,
        newest=newest,
        rejected=dict(rejected),
        skipped=dict(skipped),
    )


def behind(end: Any, latest: Any) -> int:
    """How many offsets lie between where a batch of the Kafka source ended and where its topics did."""
    read, existing = _offsets(end), _offsets(latest)
    return sum(max(offset - read.get(partition, 0), 0) for partition, offset in existing.items())


def _offsets(said: Any) -> dict[tuple[str, str], int]:
    if not isinstance(said, dict):  # nothing yet
        return {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in said.items()
        for partition, offset in partitions.items()
    }
