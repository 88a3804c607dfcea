"""What the query tells of itself after each batch, as plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

COUNTS = "levelwind_counts"
"""The name under which the counts are observed, and"""
NEWEST = "newest"
"""among them that of the newest record's time."""


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
    tell: Callable[[Progress | Terminated], None], query: str, labels: Mapping[str, tuple[str, str]]
) -> Any:
    """Spark's listener that tells each batch of a query that is about to be started, and its end.

    Args:
        tell: called in a thread of Spark's; must not block.
        query: its name; the session may run others.
        labels: by column of the observed counts, ("rejected" or "skipped", and the reason or kind).
    """
    return _Listener(tell, query, labels)


class _Listener(StreamingQueryListener):  # type: ignore[misc] # pyspark is not followed
    def __init__(
        self, tell: Callable[[Progress | Terminated], None], query: str, labels: Mapping[str, tuple[str, str]]
    ) -> None:
        self._tell = tell
        self._query = query
        self._labels = labels
        self._run: Any = (
            None  # Spark's id of this start; a later start of the query has a listener of its own
        )

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name, as those below
        if self._run is None and event.name == self._query:
            self._run = event.runId

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.runId == self._run:
            self._tell(read(event.progress, self._labels))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId == self._run:
            self._tell(Terminated(error=event.exception))


def read(progress: Any, labels: Mapping[str, tuple[str, str]]) -> Progress:
    """One batch, from Spark's event."""
    counts: dict[str, dict[str, int]] = {"rejected": {}, "skipped": {}}
    observed = (progress.observedMetrics or {}).get(COUNTS)
    for column, (what, name) in labels.items():
        if observed is not None and (count := observed[column]):
            counts[what][name] = int(count)
    newest = None if observed is None else observed[NEWEST]
    operators = progress.stateOperators
    return Progress(
        batch=progress.batchId,
        rows=progress.numInputRows,
        rows_per_second=_number(progress.processedRowsPerSecond),
        batch_ms=int(progress.durationMs.get("triggerExecution", 0)),
        durations=dict(progress.durationMs),
        state_rows=sum(operator.numRowsTotal for operator in operators),
        state_bytes=sum(operator.memoryUsedBytes for operator in operators),
        behind=sum(behind(source.endOffset, source.latestOffset) for source in progress.sources)
        if "latestOffset" in progress.durationMs
        else None,
        newest=None if newest is None else int(newest),
        rejected=counts["rejected"],
        skipped=counts["skipped"],
    )


def behind(end: str | None, latest: str | None) -> int:
    """How many offsets lie between where a batch of the Kafka source ended and where its topics did."""
    read_to, there = _offsets(end), _offsets(latest)
    return sum(max(offset - read_to.get(place, 0), 0) for place, offset in there.items())


def _offsets(text: str | None) -> dict[tuple[str, str], int]:
    try:
        topics = json.loads(text or "null")
    except ValueError:
        return {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in (topics or {}).items()
        for partition, offset in partitions.items()
    }


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if number == number else 0.0  # noqa: PLR0124 - NaN
