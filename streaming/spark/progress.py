"""What the query tells of itself after each batch, as plain values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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


def read_progress(event: Mapping[str, Any], reasons: Collection[str]) -> Progress:
    """One batch, from Spark's event."""
    rejected: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    newest: int | None = None
    for counted in event.get("observedMetrics", {}).get(COUNTS, {}).get(COUNTS) or ():
        reason, n = counted["reason"], int(counted["n"])
        if reason == NEWEST:
            newest = n if newest is None else max(newest, n)
        else:
            (rejected if reason in reasons else skipped)[reason] += n
    operators = event["stateOperators"]
    durations = event["durationMs"]
    return Progress(
        batch=event["batchId"],
        rows=event["numInputRows"],
        rows_per_second=float(
            event.get("processedRowsPerSecond", 0.0)
        ),  # left out where it is not a number
        batch_ms=int(durations.get("triggerExecution", 0)),
        durations=durations,
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        behind=sum(
            unread_offsets(source.get("endOffset"), source.get("latestOffset"))
            for source in event["sources"]
        )
        if "latestOffset" in durations
        else None,
        newest=newest,
        rejected=dict(rejected),
        skipped=dict(skipped),
    )


def unread_offsets(end: Any, latest: Any) -> int:
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
