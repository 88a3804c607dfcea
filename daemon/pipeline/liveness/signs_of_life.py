"""Signs of life of the pipeline's process, and when their absence means that it is dead.

Pure; monotonic seconds are passed in. A process that ends is noticed by its exit code. One that
lives and does nothing is noticed by what it no longer writes: its heartbeat needs an answer of the
JVM (`levelwind.daemon.pipeline.liveness.heartbeat`), and says whether the query gets on. A query
that a cluster gives no executors gets on never: Spark itself only warns, on its own log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

QUIET_SECONDS = 10.0
"""Seconds without any sign, or without progress of a query that has input, that are said: a pause
of Java's collector is shorter."""
FIRST_SIGN_SECONDS = 180.0
"""Seconds from the start of the process in which no sign is expected: Python and the JVM start."""
LATEST_WATCH_SECONDS = 5.0
"""Longest time between two looks. After a longer one the watcher itself was held up, and signs of
that time may be unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignsOfLife:
    """Times of the last signs of one process."""

    answer_timeout: float
    """Seconds without any sign, or without progress of a query that has input, after which the
    process counts as dead."""
    progress_timeout: float
    """Seconds without progress after which the process counts as dead in any case."""
    answered_at: float
    """Time until which the JVM is known to have answered; invariant: no earlier than the last
    progress. Monotonic seconds, as all times here."""
    progressed_at: float
    """Time of the last progress: a batch, an idle query, or work on a batch."""
    watched_at: float
    """Time of the last look."""
    fed: bool = False
    """Whether the query had input at the last look, from brokers that serve others."""
    unserved: str | None = None
    """What the brokers did not serve at the last look; None: nothing is known."""

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

    def look(
        self,
        now: float,
        *,
        answered: bool,
        progressed: bool,
        fed: bool = False,
        unserved: str | None = None,
    ) -> SignsOfLife:
        """Return the signs after a look at them.

        Args:
            now: the time of the look.
            answered: whether there was any sign since the last look.
            progressed: whether there was progress since the last look.
            fed: whether the query has input, from brokers that serve others.
            unserved: what the brokers do not serve, for which the query waits.
        """
        after = replace(self, watched_at=now, fed=fed, unserved=unserved)
        if now - self.watched_at > LATEST_WATCH_SECONDS:
            answered = progressed = True
        if answered or progressed:
            after = replace(after, answered_at=now)
        if progressed:
            after = replace(after, progressed_at=now)
        return after

    @property
    def quiet(self) -> str | None:
        """What has been missing for longer than it is in a process that lives; None: nothing."""
        return self._missing(
            min(QUIET_SECONDS, self.answer_timeout), self._standstill_limit(QUIET_SECONDS)
        )

    @property
    def silence(self) -> str | None:
        """Why the process counts as dead, in an operator's words; None while it does not."""
        return self._missing(self.answer_timeout, self._standstill_limit(self.answer_timeout))

    def _standstill_limit(self, fed_limit: float) -> float:
        return min(fed_limit, self.progress_timeout) if self.fed else self.progress_timeout

    def _missing(self, answer_limit: float, progress_limit: float) -> str | None:
        silent = self.watched_at - self.answered_at
        if silent >= answer_limit:
            return f"the JVM has not answered for {silent:.0f} s"
        stuck = self.watched_at - self.progressed_at
        if stuck >= progress_limit:
            beside = " although the brokers have input for it" if self.fed else ""
            why = f": {self.unserved}" if self.unserved else ""
            return f"the query has made no progress for {stuck:.0f} s{beside}{why}"
        return None


@dataclass(slots=True)
class SignCounts:
    """Signs of life so far; written by the thread that takes them."""

    answers: int = 0
    """Heartbeats and batches."""
    progress: int = 0
    """Batches, and heartbeats of a query that gets on."""
    fed: bool = False
    """Whether the last sign was a heartbeat of a query that has input and does not get on."""
    unserved: str | None = None
    """What the brokers did not serve at the last sign; None: nothing is known."""

    def add(self, *, progress: bool, fed: bool = False, unserved: str | None = None) -> None:
        """Count a sign."""
        self.answers += 1
        self.progress += progress
        self.fed, self.unserved = fed, unserved

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Count a heartbeat, or a batch, which has none of its fields."""
        self.add(
            progress=bool(event.get("progress", True)),
            fed=bool(event.get("fed")),
            unserved=event.get("unserved"),
        )


@dataclass(slots=True)
class CountedSigns:
    """The signs of one process as they are counted, for whoever looks at them again and again."""

    signs: SignsOfLife
    counts: SignCounts = field(default_factory=SignCounts)
    seen: SignCounts = field(default_factory=SignCounts)
    """The counts at the last look."""
    _quiet: bool = False
    """Whether something was missing at the last look."""

    def look(self, now: float) -> str | None:
        """Look at the signs; return why the process counts as dead, None while it does not."""
        counts = replace(self.counts)
        self.signs = self.signs.look(
            now,
            answered=counts.answers > self.seen.answers,
            progressed=counts.progress > self.seen.progress,
            fed=counts.fed,
            unserved=counts.unserved,
        )
        self.seen = counts
        return self.signs.silence

    def falls_quiet(self) -> str | None:
        """What has begun to be missing at the last look; None: nothing, or no longer only now."""
        before, missing = self._quiet, self.signs.quiet
        self._quiet = missing is not None
        return None if before else missing


@dataclass(slots=True)
class ExecutorWatch:
    """Whether a query that works on a batch has executors; times are monotonic seconds.

    A cluster may need minutes to start machines, so the wait is long; a worker that is lost with
    its executor is replaced within seconds.
    """

    patience: float
    """Seconds without any executor after which the query is taken to be refused them."""
    _lacking_since: float | None = None
    """Time of the first look without executors; None while there are any, or nothing to do."""

    def look(self, now: float, *, working: bool, executors: int) -> str | None:
        """Look at the number of executors.

        Args:
            now: the time.
            working: whether the query works on a batch.
            executors: the number of its executors.

        Returns:
            Why the query cannot go on, in an operator's words; None while it can.
        """
        if executors or not working:
            self._lacking_since = None
            return None
        if self._lacking_since is None:
            self._lacking_since = now
        lacking = now - self._lacking_since
        if lacking < self.patience:
            return None
        return (
            f"no executors for {lacking:.0f} s: the cluster's workers have too little memory or too"
            " few cores for them (spark.executor.memory, spark.executor.cores), cannot start them,"
            " or other applications hold what there is"
        )
