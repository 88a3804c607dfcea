"""Watch over a pipeline that the daemon does not run: its records, and their absence.

The pipeline writes a record at least every `interval_ms` while it lives. Silence for three
intervals is logged and measured, and ends nothing: the daemon goes on with the lag that it knows.
Times are this machine's monotonic seconds, since the clock of the pipeline's machine may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.pipeline.progress_totals import REPORT_INTERVAL_SECONDS
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import PipelineRecord
    from levelwind.daemon.telemetry.pipeline_metrics import PipelineMetrics

log = Logger()

SILENT_INTERVALS = 3
"""Intervals without a record after which the pipeline counts as silent."""


class RemotePipeline:
    """The health of a pipeline elsewhere, for the term of one leadership."""

    def __init__(self, metrics: PipelineMetrics) -> None:
        self._metrics = metrics
        self._last: PipelineRecord | None = None
        self._arrived_at: float | None = None
        """When the last record arrived, or the first look without any; None before the first."""
        self._live = False
        """Whether a record has arrived, and the pipeline is not silent since."""
        self._notified = False
        """Whether the silence, or the end, was logged."""

    def look(self, record: PipelineRecord | None, now: float) -> None:
        """Look at the newest record.

        Args:
            record: the record; None: there is none.
            now: monotonic seconds.
        """
        if self._arrived_at is None:
            # It was read before this term, and may have been written at any time.
            self._arrived_at, self._last = now, record
        elif record is not None and record != self._last:
            self._take(record, now)
        silent = now - self._arrived_at
        interval = self._last.interval_ms / 1000 if self._last else REPORT_INTERVAL_SECONDS
        overdue = silent >= SILENT_INTERVALS * interval
        if overdue and not self._notified:
            self._live, self._notified = False, True
            instance = self._last.instance if self._last else None
            log.warning("pipeline.unreported", seconds=round(silent), instance=instance)
        self._metrics.on_report_age(silent, silent=overdue)

    def _take(self, record: PipelineRecord, now: float) -> None:
        last = self._last
        same = last is not None and last.instance == record.instance
        if record.state == "ended":
            log.error("pipeline.ended", instance=record.instance, error=record.error)
        elif not (self._live and same):
            log.info(
                "pipeline.reporting",
                instance=record.instance,
                state=record.state,
                batch=record.batch,
            )
        self._live = record.state != "ended"
        self._notified = not self._live
        self._metrics.on_record(record, last if same else None)
        self._last, self._arrived_at = record, now
