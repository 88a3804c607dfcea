"""Speed of members: records a second that a member consumes while records wait for it.

A member at the end of its log shows how much arrives, not how much it could do. So it is measured
only while it is *behind*: the record after a commit had already been waiting for `BEHIND_MS` before
the sample that precedes the commit. Commits come in steps and order the measurement: a *window*
lasts from one such commit to another, at least `WINDOW_MS` later, and its speed is what was
committed in between over the time between the two commits, both by the coordinator's clock. How
often a member commits makes no difference, nor does the time of the samples.

The speed of a member is the third largest of its last `WINDOWS` windows, of fewer the second or
the largest: a stall spoils two windows at most, a member that has become slower is known after
four, one that has become faster after three.
A window counts only where most of its records come from partitions that are behind: one that is
stuck says nothing of a member that keeps pace with its others. A speed is forgotten once the member
has not been behind for `FORGET_MS`: whatever made it slow may be over, and a member that gets
little work never shows that it could do more.

All functions take columns by member and know neither groups nor topics.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from levelwind.streaming.rules.event_time import JUMP_MS, UNKNOWN

if TYPE_CHECKING:
    from levelwind.streaming.rules.event_time import Floats, Int64, Mask

BEHIND_MS = 1500
"""Time for which a record must have waited, by the samples, for its reader to be behind."""
WINDOW_MS = 3000
"""Least length of a window."""
FIRST_WINDOW_MS = 2000
"""Least length of a member's first window: a rough speed is better than none."""
WINDOWS = 6
"""Number of windows that are kept."""
BEHIND_SHARE = 0.4
"""Least share of a window's records that must come from partitions that are behind."""
CAUGHT_UP_MS = 6000
"""Time after the last commit that was behind, after which one that is not ends the window."""
FORGET_MS = 30 * 60 * 1000
CHANGE = 0.05
"""Relative change from which a speed is worth publishing again."""

NO_COMMIT, CAUGHT_UP, BEHIND, CHANGED = 0, 1, 2, 3
"""What a member's commits since the last evaluation show; the greatest counts. `CHANGED`: nothing,
since its partitions have changed."""


@dataclass(frozen=True, slots=True)
class SpeedColumns:
    """What is known of the speed of some members; every column is indexed by member.

    The functions below change the columns in place.
    """

    since: Int64
    """Time of the commit at which the open window began; `UNKNOWN`: none is open."""
    latest: Int64
    """Time of the newest commit that was behind; `UNKNOWN`: there was none."""
    records: Int64
    """Records committed in the open window."""
    behind: Int64
    """Those of them in partitions that were behind."""
    shown: Int64
    """`NO_COMMIT`, `CAUGHT_UP`, `BEHIND` or `CHANGED`. Invariant: a member without an open window
    that is not behind has `NO_COMMIT`, whatever it commits."""
    windows: Floats
    """A matrix: speeds of the last windows, the newest first; 0: no window."""
    published: Floats
    """Speed that was published last; 0: none."""
    published_windows: Int64
    """Number of windows that it rested on."""

    @classmethod
    def unknown(cls, members: int) -> SpeedColumns:
        """The columns of members of which nothing is known."""
        none = np.full((2, members), UNKNOWN, np.int64)
        zeros = np.zeros((4, members), np.int64)
        return cls(
            since=none[0],
            latest=none[1],
            records=zeros[0],
            behind=zeros[1],
            shown=zeros[2],
            windows=np.zeros((members, WINDOWS)),
            published=np.zeros(members),
            published_windows=zeros[3],
        )

    def take(self, members: Int64 | Mask) -> SpeedColumns:
        """Copies of the columns of some members."""
        return SpeedColumns(*(getattr(self, column.name)[members] for column in fields(self)))


def count_commits(
    columns: SpeedColumns, records: Int64, behind: Int64, latest_behind: Int64
) -> None:
    """Take in what members have committed in a topic between two of its samples.

    Args:
        columns: of the members; changed.
        records: records by which the member's commits advanced.
        behind: those of them in partitions that were behind.
        latest_behind: time of the newest commit that was behind; `UNKNOWN`: there was none.
    """
    is_open = columns.since != UNKNOWN
    columns.records[is_open] += records[is_open]
    columns.behind[is_open] += behind[is_open]
    caught_up = is_open & (records > 0)
    shown = np.where(behind > 0, BEHIND, np.where(caught_up, CAUGHT_UP, NO_COMMIT))
    np.maximum(columns.shown, shown, out=columns.shown)
    latest_behind = np.where(columns.shown == CHANGED, UNKNOWN, latest_behind)
    set_back = (latest_behind != UNKNOWN) & (columns.latest - latest_behind >= JUMP_MS)
    latest = np.where(set_back, latest_behind, np.maximum(columns.latest, latest_behind))
    columns.latest[:] = latest


def evaluate(columns: SpeedColumns, at: Int64) -> None:
    """Close windows that are long enough, and begin and end them by what the commits show.

    Args:
        columns: of the members; changed.
        at: time of the samples that were taken in.
    """
    is_open = columns.since != UNKNOWN
    behind = columns.shown == BEHIND
    length = columns.latest - columns.since
    first = columns.windows[:, 0] == 0
    due = is_open & behind & (length >= np.where(first, FIRST_WINDOW_MS, WINDOW_MS))
    counts = due & (columns.behind >= BEHIND_SHARE * columns.records)
    if (closed := np.flatnonzero(counts)).size:
        speed = columns.records[closed] * 1000.0 / length[closed]
        columns.windows[closed, 1:] = columns.windows[closed, :-1]
        columns.windows[closed, 0] = np.float32(speed)
    begins = due | (behind & (~is_open | (length < 0)))
    columns.since[begins] = columns.latest[begins]
    age = at - columns.latest
    idle = (columns.shown == CAUGHT_UP) & ((age >= CAUGHT_UP_MS) | (age < -JUMP_MS))
    end_windows(columns, idle)
    columns.records[begins] = 0
    columns.behind[begins] = 0
    columns.shown[:] = NO_COMMIT
    forgotten = (columns.latest != UNKNOWN) & (age >= FORGET_MS)
    if forgotten.any():
        columns.windows[forgotten] = 0
        columns.latest[forgotten] = UNKNOWN
        end_windows(columns, forgotten)


def end_windows(columns: SpeedColumns, members: Mask) -> None:
    """Drop the open windows of some members, as when they got other partitions."""
    columns.since[members] = UNKNOWN
    columns.records[members] = 0
    columns.behind[members] = 0
    columns.shown[members] = NO_COMMIT


def window_counts(columns: SpeedColumns) -> Int64:
    """The number of windows that each member's speed rests on."""
    count: Int64 = np.count_nonzero(columns.windows, axis=1)
    return count


def speeds(columns: SpeedColumns) -> Floats:
    """The speed of each member in records a second; NaN: nothing is known."""
    count = window_counts(columns)
    ordered = -np.sort(-columns.windows, axis=1)
    speed = ordered[np.arange(count.size), np.maximum(count // 2 - 1, 0)]
    return np.where(count > 0, speed, np.nan)


def sureness(windows: Int64) -> Floats:
    """How sure speeds are that rest on some windows: 0 for none, half for one, more towards 1."""
    sure: Floats = windows / (windows + 1.0)
    return sure


def worth_publishing(columns: SpeedColumns) -> Mask:
    """Whether the speed of a member differs enough from the one that was published."""
    count = window_counts(columns)
    speed = np.nan_to_num(speeds(columns))
    changed: Mask = np.abs(speed - columns.published) >= CHANGE * columns.published
    worth: Mask = (count != columns.published_windows) | ((count > 0) & changed)
    return worth


def mark_published(columns: SpeedColumns) -> None:
    """Note the speeds of all members as published."""
    columns.published[:] = np.nan_to_num(speeds(columns))
    columns.published_windows[:] = window_counts(columns)
