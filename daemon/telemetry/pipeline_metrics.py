"""Metrics of the pipeline, fed by the events of a child process or by the records of another.

Events come for each batch; records come every ten seconds, with totals since the pipeline's start
and the figures of its last batch, which then stand for the batches between.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.records import PipelineRecord

BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
WHOLE_BATCH = "triggerExecution"
"""Spark's name for a batch as a whole, among the names of its phases."""


class PipelineMetrics:
    """The metrics `levelwind_pipeline_*`; every method may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "levelwind_pipeline"
        counter = partial(Counter, namespace=prefix, registry=registry)
        gauge = partial(Gauge, namespace=prefix, registry=registry)
        histogram = partial(Histogram, namespace=prefix, buckets=BUCKETS_SECONDS, registry=registry)
        self._up = gauge("up", "1 while the pipeline's query runs, else 0.")
        self._deaths = counter("deaths", "Ends of the pipeline's process.")
        self._set_aside = counter(
            "checkpoints_set_aside",
            "Checkpoints that could not be continued and were moved away.",
        )
        self._batch = histogram("batch_seconds", "Duration of a batch of the query, in seconds.")
        self._phase = counter(
            "phase_seconds", "Seconds that batches spent, by Spark's phase.", ("phase",)
        )
        self._records = counter("records", "Kafka records that the query has read.")
        self._behind = gauge("behind_records", "Kafka records that the last batch left unread.")
        self._caught_up = gauge(
            "caught_up_ratio",
            "Share of the backlog that has been read; 1 once the query keeps pace.",
        )
        self._delay = histogram(
            "delay_seconds",
            "Age of a batch's newest record at the end of the batch, in seconds.",
        )
        self._newest = gauge(
            "newest_timestamp_seconds",
            "Time of the newest record read, in seconds since the epoch; NaN before the first.",
        )
        self._newest.set(float("nan"))  # no time, so that no alert takes it for an old one
        self._state_rows = gauge("state_rows", "Keys in the query's state stores.")
        self._state_bytes = gauge("state_bytes", "Memory of the query's state stores, in bytes.")
        self._rejected = counter(
            "rejected_records",
            "Kafka records that could not be read, by reason.",
            ("reason",),
        )
        self._skipped = counter(
            "skipped_records",
            "Kafka records without information about lag, by kind.",
            ("kind",),
        )
        self._report_age = gauge(
            "report_age_seconds",
            "Seconds since the last record of a pipeline that runs elsewhere; NaN for a child.",
        )
        self._report_age.set(float("nan"))

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Count an event of the pipeline's process."""
        match event["event"]:
            case "pipeline.batch":
                self._on_batch(event)
            case "pipeline.started":
                self._up.set(1)
            case "pipeline.died":
                self._up.set(0)
                self._deaths.inc()
            case "pipeline.failed":
                self._up.set(0)
            case "pipeline.checkpoint_set_aside":
                self._set_aside.inc()
            case "pipeline.catching_up":
                self._caught_up.set(event["percent"] / 100)
            case "pipeline.caught_up":
                self._caught_up.set(1)
            case _:
                pass

    def on_end(self) -> None:
        """Note that the daemon watches no pipeline any more: what it last saw means nothing."""
        self._up.set(0)
        for gauge in (
            self._behind,
            self._caught_up,
            self._newest,
            self._state_rows,
            self._state_bytes,
            self._report_age,
        ):
            gauge.set(float("nan"))

    def _on_batch(self, batch: Mapping[str, Any]) -> None:
        self._batch.observe(batch["batch_ms"] / 1000)
        for phase, milliseconds in batch["durations"].items():
            if phase != WHOLE_BATCH:
                self._phase.labels(phase).inc(milliseconds / 1000)
        self._records.inc(batch["rows"])
        if batch["behind"] is not None:
            self._behind.set(batch["behind"])
        if batch["newest"] is not None:
            self._newest.set(batch["newest"] / 1000)
            self._delay.observe(batch["delay_ms"] / 1000)
        self._state_rows.set(batch["state_rows"])
        self._state_bytes.set(batch["state_bytes"])
        for reason, count in batch["rejected"].items():
            self._rejected.labels(reason).inc(count)
        for kind, count in batch["skipped"].items():
            self._skipped.labels(kind).inc(count)

    def on_record(self, record: PipelineRecord, before: PipelineRecord | None) -> None:
        """Count what a pipeline that runs elsewhere did between two of its records.

        Args:
            record: the record.
            before: the record before it, of the same start of the pipeline; None if this is the
                first one of its start.
        """
        self._up.set(record.state in {"catching_up", "running"})
        if record.state == "ended":
            self._deaths.inc()
        if record.rebuilt and (before is None or not before.rebuilt):
            self._set_aside.inc()
        if record.caught_up is not None:
            self._caught_up.set(record.caught_up)
        if record.batch is None or (before is not None and before.batches == record.batches):
            return
        self._on_batch(_batch_between(record, before))

    def on_report_age(self, seconds: float, *, silent: bool) -> None:
        """Show the age of the last record; a pipeline that is silent does not count as running."""
        self._report_age.set(seconds)
        if silent:
            self._up.set(0)


def _batch_between(record: PipelineRecord, before: PipelineRecord | None) -> dict[str, Any]:
    """What a pipeline did since a record of its start, in the fields of the event of a batch."""
    rows, phases, rejected, skipped, newest = (
        (0, {}, {}, {}, None)
        if before is None
        else (before.rows, before.phases, before.rejected, before.skipped, before.newest)
    )
    return {
        "batch_ms": record.batch_ms or 0,
        "durations": _growth(record.phases, phases),
        "rows": max(record.rows - rows, 0),
        "behind": record.behind,
        "newest": None if record.newest == newest else record.newest,
        "delay_ms": record.delay_ms or 0,
        "state_rows": record.state_rows or 0,
        "state_bytes": record.state_bytes or 0,
        "rejected": _growth(record.rejected, rejected),
        "skipped": _growth(record.skipped, skipped),
    }


def _growth(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {label: max(count - before.get(label, 0), 0) for label, count in now.items()}
