"""How far the query has come with what was there to read: the share, the speed, and the time left.

Pure; seconds are monotonic and come in. A batch that leaves something unread was cut, and only then is the query catching
up: lag that it publishes meanwhile is as of the records read so far. What arrives while it reads counts too, so that a
query that is slower than its input says that it will not arrive, rather than a time that never comes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """In the middle of it."""

    share: float
    """Of all that there is to read, so much was read."""
    left: float | None
    """Seconds; None: it does not come nearer."""
    behind: int
    rows_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """Nothing is left that was there when the last batch began."""

    seconds: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What was read since it began, at the start of the query or with the first batch that was cut."""

    begun: float
    rows: int = 0
    over: bool = False
    first: tuple[float, int, int] | None = None
    """After the first batch, which pays for the start: the time, rows and what was left. Speed counts from there."""

    def batch(
        self, *, rows: int, behind: int | None, seconds: float, now: float
    ) -> tuple[CatchUp, Behind | CaughtUp | None]:
        """Take in a batch that took so many seconds; what there is to say of it, None if the query keeps pace.

        One that does not know what it left unread (`behind` is None) is counted, and nothing is said of it.
        """
        if behind is None:
            return replace(self, rows=self.rows + rows), None
        if self.over:
            if not behind:
                return self, None
            return CatchUp(begun=now - seconds).batch(
                rows=rows, behind=behind, seconds=seconds, now=now
            )
        after = replace(self, rows=self.rows + rows)
        if not behind:
            return replace(after, over=True), CaughtUp(seconds=now - self.begun, rows=after.rows)
        if self.first is None:
            speed, nearer = (
                rows / seconds if seconds > 0 else 0.0,
                rows / seconds if seconds > 0 else 0.0,
            )
            after = replace(after, first=(now, after.rows, behind))
        else:
            at, read, left = self.first
            span = max(now - at, 1e-3)
            speed, nearer = (after.rows - read) / span, (left - behind) / span
        return after, Behind(
            share=after.rows / (after.rows + behind),
            left=behind / nearer if nearer > 0 else None,
            behind=behind,
            rows_per_second=speed,
        )
