"""Totals of one start of the pipeline, and its records in `levelwind.triggers`. Pure."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import PipelineRecord

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import PipelineState
    from levelwind.streaming.spark.batches.progress import Progress

REPORT_INTERVAL_SECONDS = 4.0
"""Time between two records of the pipeline: a daemon that takes over, which it does after 6 s, then
knows at once whether the pipeline of the one before has ended with it."""


@dataclass(slots=True)
class ProgressTotals:
    """What the pipeline did since its start; Spark's thread adds, another makes the records."""

    instance: str
    """Name of this start."""
    started_at: int
    """Milliseconds since the epoch."""
    daemon: str | None = None
    """The daemon whose child the pipeline is; None for an application of its own."""
    batches: int = 0
    rows: int = 0
    rebuilt: bool = False
    """Whether a checkpoint was set aside."""
    error: str | None = None
    """Why the query has ended."""
    caught_up: float | None = None
    """Share of the backlog that has been read; None before it is known."""
    last: Progress | None = None
    """The last batch."""
    newest: int | None = None
    """Time of the newest record that was read, in milliseconds since the epoch."""
    delay_ms: int | None = None
    """Age of the newest record of the last batch that had any."""
    phases: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, batch: Progress, *, at: int) -> None:
        """Add a batch that ended `at`, in milliseconds since the epoch."""
        with self._lock:
            self.batches += 1
            self.rows += batch.rows
            self.last = batch
            if batch.newest is not None:
                self.newest, self.delay_ms = batch.newest, batch.delay_ms(at)
            self.phases.update(batch.durations)
            self.rejected.update(batch.rejected)
            self.skipped.update(batch.skipped)

    def record(self, *, at: int, epoch: int) -> PipelineRecord:
        """Return the record of the state now.

        Args:
            at: milliseconds since the epoch.
            epoch: the epoch of this start.
        """
        with self._lock:
            last = self.last
            return PipelineRecord(
                at=at,
                epoch=epoch,
                instance=self.instance,
                daemon=self.daemon,
                started_at=self.started_at,
                interval_ms=round(REPORT_INTERVAL_SECONDS * 1000),
                state=self._state(),
                error=self.error,
                rebuilt=self.rebuilt,
                batch=last.batch if last else None,
                batches=self.batches,
                batch_ms=last.batch_ms if last else None,
                delay_ms=self.delay_ms,
                newest=self.newest,
                behind=last.behind if last else None,
                caught_up=self.caught_up,
                rows=self.rows,
                state_rows=last.state_rows if last else None,
                state_bytes=last.state_bytes if last else None,
                phases=dict(self.phases),
                rejected=dict(self.rejected),
                skipped=dict(self.skipped),
            )

    def _state(self) -> PipelineState:
        if self.error is not None:
            return "ended"
        if self.last is None:
            return "starting"
        return "running" if self.caught_up == 1 else "catching_up"
