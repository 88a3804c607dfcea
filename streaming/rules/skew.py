"""When lag lies unevenly on a group's members, and for how long it has.

Skew is the largest member's lag per capacity over the mean of all members' (those without any included). It counts
while it is at least the threshold and the group's lag at least the floor: so many records, or a record that has waited
for so many seconds. It becomes a trigger once it has counted for `duration_ms` milliseconds without a break. All times are
event times, those of the samples; a clock that was set back is a break.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streaming.rules.event_time import UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRule:
    """The settings of the rule."""

    threshold: float = 1.5
    floor: int = 10_000
    floor_seconds: float = 30.0
    duration_ms: int = 30_000
    """Milliseconds; a longer silence between two moments is a break as well: nobody saw what lay in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRun:
    """How long skew has counted."""

    since: int = UNKNOWN
    """The first moment of the unbroken run; `UNKNOWN`: there is none."""
    evaluated_at: int = UNKNOWN
    """The last moment that was judged."""
    active: bool = False
    """Whether the run has become a trigger."""


def next_run(
    rule: SkewRule, run: SkewRun, *, at: int, skew: float, lag: int, seconds: float = 0.0
) -> SkewRun:
    """The run after one more moment; `seconds`: for how long the record has waited that has waited longest."""
    if skew < rule.threshold or (lag < rule.floor and seconds < rule.floor_seconds):
        return SkewRun(evaluated_at=at)
    silent = run.evaluated_at != UNKNOWN and not 0 <= at - run.evaluated_at <= rule.duration_ms
    since = at if run.since == UNKNOWN or (silent and not run.active) else run.since
    return replace(
        run, since=since, evaluated_at=at, active=run.active or at - since >= rule.duration_ms
    )
