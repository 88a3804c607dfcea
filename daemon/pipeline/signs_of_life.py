"""Signs of life of the pipeline's process, and when their absence means that it is dead.

Pure; monotonic seconds are passed in. A process that ends is noticed by its exit code. One that
lives and does nothing is noticed by what it no longer writes: its heartbeat needs an answer of the
JVM (`daemon.pipeline.heartbeat`), and says whether the query gets on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_SIGN_SECONDS = 180.0
"""Seconds from the start of the process in which no sign is expected: Python and the JVM start."""
LATEST_WATCH_SECONDS = 5.0
"""Longest time between two looks. After a longer one the watcher itself was held up, and signs of
that time may be unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignsOfLife:
    """Times of the last signs of one process."""

    answer_timeout: float
    """Seconds without any sign after which the process counts as dead."""
    progress_timeout: float
    """Seconds without progress after which the process counts as dead."""
    answered_at: float
    """Time until which the JVM is known to have answered; invariant: no earlier than the last
    progress. Monotonic seconds, as all times here."""
    progressed_at: float
    """Time of the last progress: a batch, an idle query, or work on a batch."""
    watched_at: float
    """Time of the last look."""

    @staticmethod
    def of_start(now: float, *, answer_timeout: float, progress_timeout: float) -> SignsOfLife:
        """Return the signs of a process that starts now."""
        grace = max(FIRST_SIGN_SECONDS - min(answer_timeout, progress_timeout), 0.0)
        return SignsOfLife(
            answer_timeout=answer_timeout,
            progress_timeout=progress_timeout,
            answered_at=now + grace,
            progressed_at=now + grace,
            watched_at=now,
        )

    def look(self, now: float, *, answered: bool, progressed: bool) -> SignsOfLife:
        """Return the signs after a look at them.

        Args:
            now: the time of the look.
            answered: whether there was any sign since the last look.
            progressed: whether there was progress since the last look.
        """
        after = replace(self, watched_at=now)
        if now - self.watched_at > LATEST_WATCH_SECONDS:
            answered = progressed = True
        if answered or progressed:
            after = replace(after, answered_at=now)
        if progressed:
            after = replace(after, progressed_at=now)
        return after

    @property
    def silence(self) -> str | None:
        """Why the process counts as dead, in an operator's words; None while it does not."""
        silent = self.watched_at - self.answered_at
        if silent >= self.answer_timeout:
            return f"the JVM has not answered for {silent:.0f} s"
        stuck = self.watched_at - self.progressed_at
        if stuck >= self.progress_timeout:
            return f"the query has made no progress for {stuck:.0f} s"
        return None
