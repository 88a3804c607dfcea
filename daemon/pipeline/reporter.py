"""Progress of the query as log events: batches, catching up, and the cause of a failure."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from levelwind.daemon.pipeline.liveness.heartbeat import BATCH
from levelwind.daemon.pipeline.progress_totals import ProgressTotals
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms
from levelwind.streaming.spark import checkpoint
from levelwind.streaming.spark.batches.catch_up import Behind, CatchUp, CaughtUp
from levelwind.streaming.spark.batches.progress import NothingToRead, Progress, Terminated
from levelwind.streaming.spark.failure_diagnosis import FailureCause, diagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.streaming.spark.batches.progress import QueryNews
    from levelwind.streaming.spark.checkpoint import SetAside
    from levelwind.streaming.spark.store.checkpoint_files import CheckpointFiles

log = Logger()

PROGRESS_INTERVAL_SECONDS = 10.0
"""The least time between two events of progress; a batch with rejected records is always logged."""
CATCH_UP_INTERVAL_SECONDS = 2.0
"""The least time between two events of catching up."""

NOT_STARTED = (
    "Spark refused to start: see its lines before, and check pipeline.spark; log.level = debug logs"
    " the trace"
)


def emit(event: Mapping[str, Any]) -> None:
    """Write one event for the parent, at any log level: its metrics count every batch."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class ProgressReporter:
    """Logs the progress of the query, and marks its checkpoint by the cause of a failure.

    A thread of Spark's calls all methods.
    """

    def __init__(
        self,
        files: CheckpointFiles | None,
        *,
        begun: float,
        clock: Callable[[], float] = time.monotonic,
        emit: Callable[[Mapping[str, Any]], None] = emit,
        totals: ProgressTotals | None = None,
    ) -> None:
        self.files = files
        """The directory of the checkpoint; None while it is not open."""
        self._totals = totals or ProgressTotals(instance="", started_at=0)
        self._clock = clock
        self._emit = emit
        self._catching_up = CatchUp(began_at=begun)
        self._next_progress_at = float("-inf")
        self._next_catch_up_at = float("-inf")
        self._rebuilt = False
        self._failures_cleared = False
        """Whether the checkpoint's count of failed starts has been reset since the first batch."""
        self.caught_up = threading.Event()
        self.ended = threading.Event()
        """Set when the query has ended; `caught_up` is set with it, to end every wait."""

    @property
    def batches(self) -> int:
        """Number of batches that were reported."""
        return self._totals.batches

    def on_set_aside(self, former: SetAside) -> None:
        """Log that the state is rebuilt, and why."""
        self._rebuilt = self._totals.rebuilt = True
        log.warning(
            "pipeline.checkpoint_set_aside", moved_to=str(former.moved_to), reason=former.reason
        )

    def on_progress(self, news: QueryNews) -> None:
        """Report a batch, that nothing is left to read, or the end of the query."""
        match news:
            case Progress():
                self._on_batch(news)
            case NothingToRead():
                now = self._clock()
                self._catching_up, state = self._catching_up.finish(now)
                self._on_catch_up(state, now)
            case Terminated(error=error, at_start=at_start):
                try:
                    self._on_death(error or "the query was stopped", at_start=at_start)
                finally:  # else the process would wait for ever beside a query that is gone
                    self.ended.set()
                    self.caught_up.set()

    def _on_death(self, error: str, *, at_start: bool) -> None:
        failure = diagnose(error)
        if at_start and failure.cause is FailureCause.UNKNOWN:
            failure = replace(failure, summary=f"{NOT_STARTED} ({failure.summary})")
        quarantined = False
        if self.files is None:
            pass
        elif failure.cause is FailureCause.CHECKPOINT:
            quarantined = checkpoint.quarantine(self.files, failure.summary)
        elif failure.cause is FailureCause.UNKNOWN and not self.batches and not at_start:
            quarantined = checkpoint.record_failed_start(self.files, failure.summary)
        self._totals.error = failure.summary
        log.debug("pipeline.trace", error=error)
        log.error(
            "pipeline.failed", error=failure.summary, cause=failure.cause.value, rebuild=quarantined
        )

    def _on_batch(self, batch: Progress) -> None:
        if not self._failures_cleared and self.files is not None:
            self._failures_cleared = checkpoint.clear_failures(self.files)
        now = self._clock()
        if batch.rejected:
            log.warning("pipeline.rejected", batch=batch.batch, rejected=dict(batch.rejected))
        at = now_ms()
        self._totals.add(batch, at=at)
        self._emit(batch_event(batch, at=at))
        self._catching_up, state = self._catching_up.add_batch(
            rows=batch.rows, behind=batch.behind, seconds=batch.batch_ms / 1000, now=now
        )
        self._on_catch_up(state, now)
        if now < self._next_progress_at:
            return
        self._next_progress_at = now + PROGRESS_INTERVAL_SECONDS
        log.info(
            "pipeline.progress",
            batch=batch.batch,
            rows=batch.rows,
            rows_per_second=round(batch.rows_per_second),
            batch_ms=batch.batch_ms,
            behind=batch.behind,
            newest=batch.newest,
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            skipped=dict(batch.skipped),
        )

    def _on_catch_up(self, state: Behind | CaughtUp | None, now: float) -> None:
        match state:
            case Behind() if now >= self._next_catch_up_at:
                self._totals.caught_up = state.share
                self._next_catch_up_at = now + CATCH_UP_INTERVAL_SECONDS
                log.info(
                    "pipeline.catching_up",
                    percent=math.floor(100 * state.share),
                    seconds_left=None
                    if state.seconds_left is None
                    else math.ceil(state.seconds_left),
                    behind=state.behind,
                    rows_per_second=round(state.rows_per_second),
                )
            case CaughtUp(seconds=seconds, rows=rows):
                self._totals.caught_up = 1.0
                log.info(
                    "pipeline.caught_up",
                    seconds=round(seconds, 1),
                    rows=rows,
                    rows_per_second=round(rows / seconds) if seconds > 0 else 0,
                    rebuilt=self._rebuilt,
                )
                self._rebuilt = False
                self.caught_up.set()


def batch_event(batch: Progress, *, at: int) -> dict[str, Any]:
    """Return a batch as an event for the parent's metrics.

    Args:
        batch: the batch.
        at: the time, in milliseconds since the epoch.
    """
    return {
        "event": BATCH,
        "level": "debug",
        "batch": batch.batch,
        "rows": batch.rows,
        "rows_per_second": batch.rows_per_second,
        "batch_ms": batch.batch_ms,
        "durations": dict(batch.durations),
        "behind": batch.behind,
        "newest": batch.newest,
        "delay_ms": batch.delay_ms(at),
        "state_rows": batch.state_rows,
        "state_bytes": batch.state_bytes,
        "rejected": dict(batch.rejected),
        "skipped": dict(batch.skipped),
    }
