"""Lasting skew: lag that has been uneven between a group's members for long enough to be a trigger.

Skew is the largest lag per capacity of a member, over the mean of all members, idle ones included.
It counts while it is at least the threshold and the group's lag is at least the floor: a number of
records, or an age of the oldest unread record. It is a trigger once it has counted for
`duration_ms` without a break. All times are event times, those of the samples; a clock that was set
back is a break.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streaming.rules.event_time import UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRule:
    """Settings of the rule."""

    threshold: float = 1.5
    """Least skew that counts."""
    floor: int = 10_000
    """Least lag of the group, in records, with which skew counts."""
    floor_seconds: float = 30.0
    """Least age of the oldest unread record with which skew counts whatever the lag in records."""
    duration_ms: int = 30_000
    """Time for which skew must count to be a trigger. A longer silence between two samples is a
    break as well: the skew in between is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRun:
    """The current run of samples in which skew counts; times are milliseconds since the epoch."""

    since: int = UNKNOWN
    """Time of the first sample of the run; `UNKNOWN`: skew does not count now."""
    evaluated_at: int = UNKNOWN
    """Time of the last sample that was evaluated, whether skew counted or not."""
    active: bool = False
    """Whether the run has become a trigger. Invariant: never without `since`."""


def next_run(
    rule: SkewRule, run: SkewRun, *, at: int, skew: float, lag: int, seconds: float = 0.0
) -> SkewRun:
    """The run after one more sample.

    Args:
        rule: settings of the rule.
        run: the run up to the sample before.
        at: time of the sample.
        skew: skew of the group's members at the sample.
        lag: the group's lag, in records.
        seconds: age of the oldest unread record.
    """
    if skew < rule.threshold or (lag < rule.floor and seconds < rule.floor_seconds):
        return SkewRun(evaluated_at=at)
    silent = run.evaluated_at != UNKNOWN and not 0 <= at - run.evaluated_at <= rule.duration_ms
    since = at if run.since == UNKNOWN or (silent and not run.active) else run.since
    return replace(
        run, since=since, evaluated_at=at, active=run.active or at - since >= rule.duration_ms
    )
