"""What the control knows of a simulated group: its commits, its lag, and its members' speeds.

As in the pipeline, a record counts as read once its reader has committed it, what a member gives up
is committed at once, and what usually arrives between two commits is no lag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.drain import is_beyond_pace, sum_by_member, waiting_records
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.member_loads import RATE_SCALE, MemberLoads
from levelwind.streaming.rules.skew import WAITING_SECONDS
from levelwind.streaming.rules.speed import (
    BEHIND_MS,
    SpeedColumns,
    count_commits,
    end_windows,
    evaluate,
    speeds,
)

if TYPE_CHECKING:
    from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs
    from levelwind.daemon.simulation.traffic import RecentArrivals
    from levelwind.streaming.rules.skew import SkewFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When a group's members commit, and when its lag is sampled, in seconds."""

    commits: float = 0.0
    """Time between two commits of a member, at times of its own; 0: each tick ends with one."""
    samples: float = 0.0
    """Time between two samples. As in the pipeline, each is judged when the next one is taken. 0:
    one in each tick, judged at once."""
    begin: float = 0.0
    """Time of the first sample."""
    delay: float = 0.0
    """Time from the end of a sample until it is judged: what the pipeline needs; less than
    `samples`."""


class Observation:
    """Commits and speeds of P partitions and M members; changed tick by tick."""

    def __init__(self, partitions: int, members: int, rhythm: Rhythm) -> None:
        """Begin with nothing uncommitted and no speed known."""
        self._interval = rhythm.commits
        self._phase = np.arange(members) / max(members, 1) * rhythm.commits
        self._rhythm = rhythm
        self._newest: tuple[float, SkewFigures] | None = None
        self._unjudged: tuple[float, SkewFigures] | None = None  # the sample before the newest
        self._uncommitted = np.zeros(partitions, np.int64)
        self._committed_at = np.zeros(partitions)
        self._learned = SpeedColumns.unknown(members)

    @property
    def speeds(self) -> Floats:
        """Records a second (M); NaN where no speed is known."""
        return speeds(self._learned)

    def lag(self, left: Longs, rates: Floats, now: float) -> Longs:
        """Records that wait (P): those left, and those read that count as waiting.

        Args:
            left: P: records not read yet.
            rates: P: records that usually arrive a second.
            now: seconds from the start of the world.
        """
        if not self._interval:
            return left
        return waiting_records(left + self._uncommitted, rates, self._age_ms(now))

    def sampled(
        self,
        left: Longs,
        owner: Ints,
        live: Longs,
        capacity: Floats,
        now: float,
        recent: RecentArrivals,
    ) -> tuple[float, SkewFigures] | None:
        """Take a sample if one is due; return the time and the load of the one to judge, if any.

        Args:
            left: P: records not read yet.
            owner: P: member that owns a partition; -1 for nobody.
            live: members that the control believes to be live.
            capacity: M: announced relative speeds.
            now: seconds from the start of the world.
            recent: the arrivals.
        """
        before, rhythm = self._newest, self._rhythm
        taken_at = rhythm.begin if before is None else before[0] + rhythm.samples
        if now < taken_at:
            return self._judged(now)
        index = np.full(len(capacity) + 1, -1)  # owner -1 takes the last
        index[live] = np.arange(len(live))
        owned = np.flatnonzero(index[owner] >= 0)
        rates = recent.rates()
        lag = self.lag(left, rates, now)
        loads = MemberLoads.of(
            lag=lag[owned],
            rate=np.rint(rates[owned] * RATE_SCALE).astype(np.int64),
            owner=index[owner][owned],
            announced=capacity[live],
            speed=self.speeds[live],
        )
        old = recent.younger(WAITING_SECONDS)
        unread = left + self._uncommitted
        beyond = is_beyond_pace(unread, lag, self._age_ms(now))
        is_old = old is not None and bool((beyond & (unread > old)).any())
        is_behind = bool((self._learned.since[live] != UNKNOWN).any())
        self._newest = now, loads.figures(waiting=is_old or is_behind)
        if not rhythm.samples:
            return self._newest
        self._unjudged = before
        return self._judged(now)

    def _age_ms(self, now: float) -> Floats:
        """Time since the last commit of each partition."""
        age_ms: Floats = (now - self._committed_at) * 1000.0
        return age_ms

    def _judged(self, now: float) -> tuple[float, SkewFigures] | None:
        """The sample that is judged now, if any; each is judged once."""
        due = self._newest is not None and now - self._newest[0] >= self._rhythm.delay
        if self._unjudged is None or not due:
            return None
        judged, self._unjudged = self._unjudged, None
        return judged

    def read(
        self, done: Longs, left: Longs, owner: Ints, now: float, tick: float, recent: RecentArrivals
    ) -> None:
        """Take in what was read in a tick, and the commits that are due.

        Args:
            done: P: records read in this tick.
            left: P: records left after it.
            owner: P: member that owns a partition; -1 for nobody.
            now: time of the tick, in seconds from the start of the world.
            tick: seconds of a tick.
            recent: the arrivals up to this tick.
        """
        self._uncommitted += done
        due = np.append(self._due(now, tick), True)[owner]  # owner -1 takes the last
        advance = np.where(due, self._uncommitted, 0)
        self._uncommitted[due] = 0
        self._committed_at[due] = now
        waited = recent.younger(max(BEHIND_MS / 1000, tick))
        at, members = round(now * 1000), len(self._phase)
        behind = advance * (left > waited) if waited is not None else np.zeros_like(advance)
        behind_by_member = sum_by_member(behind, owner, members).astype(np.int64)
        count_commits(
            self._learned,
            sum_by_member(advance, owner, members).astype(np.int64),
            behind_by_member,
            np.where(behind_by_member > 0, at, UNKNOWN),
        )
        evaluate(self._learned, np.full(members, at))

    def _due(self, now: float, tick: float) -> Bools:
        """Whether each member (M) commits in the tick that ends at a time."""
        if not self._interval:
            return np.ones(len(self._phase), np.bool_)
        passed = np.floor((np.array([[now - tick], [now]]) + self._phase) / self._interval)
        due: Bools = passed[1] > passed[0]
        return due

    def moved(self, partitions: Bools, former: Ints, owner: Ints, now: float) -> None:
        """Take in that partitions (a mask of P) go from their former owners (P) to others (P)."""
        self._uncommitted[partitions] = 0
        self._committed_at[partitions] = now
        ends = np.zeros(len(self._phase) + 1, np.bool_)  # owner -1 takes the last
        ends[former[partitions]] = ends[owner[partitions]] = True
        end_windows(self._learned, ends[:-1])
