"""Progress of the query through its backlog: the share read, the speed, and the time left.

Pure; monotonic seconds are passed in. A batch that leaves input unread was cut at its limit; only
then is the query catching up, and the lag that it publishes meanwhile is as of the records read so
far. Input that arrives in the meantime counts as well, so a query that is slower than its input
reports that it does not come nearer, instead of a time that never arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MIN_SPAN_SECONDS = 1e-3
"""Shortest time that a speed is computed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The query is catching up."""

    share: float
    """Records read, as a share of those read and those still unread."""
    seconds_left: float | None
    """Estimated time until everything is read; None: the query does not come nearer."""
    behind: int
    """Offsets that are still unread."""
    rows_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """The query has read everything that existed when its last batch began."""

    seconds: float
    """Time since the catching up began."""
    rows: int
    """Records read in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """One catching up: from the start of the query, or from the first batch that was cut."""

    began_at: float
    """Monotonic seconds."""
    rows: int = 0
    """Records read since then."""
    finished: bool = False
    """Whether the query has caught up; the next batch that is cut begins another `CatchUp`."""
    after_first_batch: tuple[float, int, int] | None = None
    """Monotonic seconds, records read and offsets unread after the first batch. The first batch
    pays for the start, so speed is measured from its end."""

    def add_batch(
        self, *, rows: int, behind: int | None, seconds: float, now: float
    ) -> tuple[CatchUp, Behind | CaughtUp | None]:
        """Add a batch; the new state, and the news to report, None while the query keeps pace.

        Args:
            rows: records that the batch read.
            behind: offsets that it left unread; None: unknown, so its rows count and nothing is
                reported.
            seconds: duration of the batch.
            now: monotonic seconds at its end.
        """
        if behind is None:
            return replace(self, rows=self.rows + rows), None
        if self.finished:
            if not behind:
                return self, None
            return CatchUp(began_at=now - seconds).add_batch(
                rows=rows, behind=behind, seconds=seconds, now=now
            )
        after = replace(self, rows=self.rows + rows)
        if not behind:
            return after.finish(now)
        if self.after_first_batch is None:
            speed = approach = rows / seconds if seconds > 0 else 0.0
            after = replace(after, after_first_batch=(now, after.rows, behind))
        else:
            first_at, first_rows, first_behind = self.after_first_batch
            span = max(now - first_at, MIN_SPAN_SECONDS)
            speed, approach = (after.rows - first_rows) / span, (first_behind - behind) / span
        return after, Behind(
            share=after.rows / (after.rows + behind),
            seconds_left=behind / approach if approach > 0 else None,
            behind=behind,
            rows_per_second=speed,
        )

    def finish(self, now: float) -> tuple[CatchUp, CaughtUp | None]:
        """Note that nothing is left to read; the new state, and the news, None if that is none."""
        if self.finished:
            return self, None
        return replace(self, finished=True), CaughtUp(seconds=now - self.began_at, rows=self.rows)
