"""Progress of the query after each batch, as plain values read from Spark's event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

COUNTS = "levelwind_counts"
"""Name of the observed metric: a list of counts, each with its reason."""
AT_STAKE = "levelwind_at_stake"
"""Name of the observed metric: the number of buckets with a group whose skew is at stake."""
FOLLOWED = "followed"
"""Reason of the entries of `COUNTS` that count records of plans and of who follows them."""
NEWEST = "newest"
"""Reason of the one entry of `COUNTS` that is no count but the time of the newest record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One batch of the query."""

    batch: int
    """Number of the batch in the checkpoint."""
    rows: int
    """Kafka records read."""
    rows_per_second: float
    """Spark's figure; 0 where Spark leaves it out."""
    batch_ms: int
    """Duration of the batch, milliseconds."""
    durations: Mapping[str, int]
    """Milliseconds by phase, under Spark's names."""
    state_rows: int
    """Keys in the state stores: topics and groups."""
    state_bytes: int
    """Memory that the state stores use."""
    behind: int | None
    """Offsets of the input that this batch has left unread: 0 unless it was cut at
    `max_offsets_per_trigger`. None for a batch that was planned before a restart: it is repeated
    without a look at the topics' ends."""
    newest: int | None
    """Time of the newest record read, milliseconds since the epoch; None: the batch read none. It
    is the query's clock, since all its rules are in event time."""
    rejected: Mapping[str, int]
    """Records of this batch that could not be decoded, by reason."""
    skipped: Mapping[str, int]
    """Records of this batch that the pipeline has no use for, by kind."""
    read: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Offsets at which the batch ended, by topic and partition."""
    at_stake: bool = False
    """Whether somebody would act on the next batch: see `rules.cadence`."""

    def delay_ms(self, at: int) -> int | None:
        """Age of the newest record read, at a time in milliseconds since the epoch."""
        return None if self.newest is None else max(at - self.newest, 0)


@dataclass(frozen=True, slots=True)
class NothingToRead:
    """The query looked for input, and all of it has been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """The end of the query."""

    error: str | None
    """Spark's text of the error; None if the query was asked to stop."""
    at_start: bool = False
    """Whether the query was refused, and has never run."""


QueryNews = Progress | NothingToRead | Terminated


def read_progress(event: Mapping[str, Any], reasons: Collection[str]) -> Progress:
    """Read a batch from the JSON of Spark's event.

    Args:
        event: the event's JSON.
        reasons: the reasons for which records are rejected; any other count is of skipped records.
    """
    rejected: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    newest: int | None = None
    observed = event.get("observedMetrics", {})
    at_stake = bool(observed.get(AT_STAKE, {}).get(AT_STAKE))
    for counted in observed.get(COUNTS, {}).get(COUNTS) or ():
        reason, n = counted["reason"], int(counted["n"])
        if reason == NEWEST:
            newest = n if newest is None else max(newest, n)
        elif reason == FOLLOWED:
            at_stake = True
        else:
            (rejected if reason in reasons else skipped)[reason] += n
    operators = event["stateOperators"]
    durations = event["durationMs"]
    return Progress(
        batch=event["batchId"],
        rows=event["numInputRows"],
        # Spark leaves the rate out where it is not a number.
        rows_per_second=float(event.get("processedRowsPerSecond", 0.0)),
        batch_ms=int(durations.get("triggerExecution", 0)),
        durations=durations,
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        behind=_unread(event["sources"]) if "latestOffset" in durations else None,
        newest=newest,
        rejected=dict(rejected),
        skipped=dict(skipped),
        at_stake=at_stake,
        read={
            (topic, int(partition)): offset
            for source in event["sources"]
            for (topic, partition), offset in _offsets(source.get("endOffset")).items()
        },
    )


def _unread(sources: Collection[Mapping[str, Any]]) -> int:
    return sum(
        unread_offsets(source.get("endOffset"), source.get("latestOffset")) for source in sources
    )


def unread_offsets(end: Any, latest: Any) -> int:
    """Count the offsets between a batch's end and the end of its topics.

    Args:
        end: offsets at which a batch of the Kafka source ended, by topic and partition, from JSON.
        latest: offsets at which its topics ended, in the same form.
    """
    read, existing = _offsets(end), _offsets(latest)
    return sum(max(offset - read.get(partition, 0), 0) for partition, offset in existing.items())


def _offsets(by_topic: Any) -> dict[tuple[str, str], int]:
    """Offsets by topic and partition; none for Spark's null before the first batch."""
    if not isinstance(by_topic, dict):
        return {}
    return {
        (topic, partition): int(offset)
        for topic, partitions in by_topic.items()
        for partition, offset in partitions.items()
    }
