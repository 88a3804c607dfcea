"""Lasting skew: work that is uneven between a group's members for long enough to be a trigger.

Load is time to drain, as `levelwind.assignors.problem.drain` defines it. Skew counts while the
members differ from what a plan could reach, in one of two ways:

- *drain*: a load is above what it would be if all loads were level, by the ratio `threshold` and
  by `floor_seconds`.
- *utilisation*: a member needs `utilisation` or more of its capacity for what arrives, and a plan
  could lower that by `UTILISATION_GAIN`. So a member beyond its capacity counts before its lag has
  grown. A capacity that is only assumed says nothing of utilisation.

A partition that no plan can split is in the level load of its owner, so it raises no trigger by
itself; the level of the others is what is left for them. Skew is a
trigger once it has counted for `duration_ms` without a break. While the trigger is active, half of
each distance is enough to keep it so, and it ends as soon as that is missing. While no speed of a
member is known, seconds are guesses: then skew becomes no trigger before records wait beyond doubt,
by their age, by a commit that left them behind, or by their number. All times are event times,
those of the samples; a clock that was set back is a break.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from levelwind.streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from levelwind.streaming.rules.event_time import Floats, Mask

    Number: TypeAlias = float | Floats
    Flag: TypeAlias = bool | Mask

UTILISATION_GAIN = 0.1
"""Least share of a member's capacity by which a plan could lower the largest utilisation."""
RELEASE = 0.5
"""Share of each distance that keeps an active trigger."""
WAITING_SECONDS = 5.0
"""Age of the oldest unread record from which records wait.

A group that keeps pace and commits as rarely as clients do by default, every five seconds, reaches
that age just before it commits. So a partition's age counts only if its lag is beyond that of such
a reader, `drain.is_beyond_pace`.
"""
LONG_LAG_SECONDS = 20.0
"""Seconds that a member of assumed capacity needs for its lag alone, from which records wait.

Such a capacity is twice the arrivals. So even a member that uses a tenth of its true capacity is
still busy with that lag for four seconds, which is longer than a trigger takes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRule:
    """Settings of the rule."""

    threshold: float = 1.25
    """Least ratio of a load to the level one that counts."""
    floor_seconds: float = 3.0
    """Least difference of these loads that counts."""
    utilisation: float = 0.85
    """Least utilisation of a member that counts."""
    duration_ms: int = 2_000
    """Time for which skew must count to be a trigger. A silence between two samples that is longer
    than that and `SILENCE_MS` is a break as well: the skew in between is unknown."""


SILENCE_MS = 15_000
"""Silence between two samples that is no break, however short the duration is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewFigures:
    """Loads of a group at one sample, and the best that a plan could reach."""

    heaviest: float
    """Load in seconds that is furthest above the level of its rank: the largest one of a member, or
    beside a partition that no plan can split perhaps that of another."""
    best: float
    """That level, in seconds."""
    utilisation: float
    """Largest share of its capacity that the arrivals of a member need."""
    best_utilisation: float
    """Largest such share that no assignment is below."""
    assumed: bool
    """Whether no member's speed is known."""
    waiting: bool
    """Whether records wait beyond doubt: a member is behind, or its lag is old or long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRun:
    """The current run of samples in which skew counts; times are milliseconds since the epoch."""

    since: int = UNKNOWN
    """Time of the first sample of the run; `UNKNOWN`: skew does not count now."""
    evaluated_at: int = UNKNOWN
    """Time of the last sample that was evaluated, whether skew counted or not."""
    active: bool = False
    """Whether the run has become a trigger. Invariant: never without `since`."""


def drain_counts(rule: SkewRule, heaviest: Number, best: Number, share: Number) -> Flag:
    """Whether the members' loads differ enough from the best ones.

    Args:
        rule: settings of the rule.
        heaviest: load that is furthest above the level, in seconds, of one group or of several.
        best: that level, in seconds.
        share: share of the distances that is enough: 1, or `RELEASE` for an active trigger.
    """
    more = heaviest - best
    return (more >= rule.floor_seconds * share) & (more >= best * (rule.threshold - 1) * share)


def utilisation_counts(
    rule: SkewRule, largest: Number, best: Number, assumed: Flag, share: Number
) -> Flag:
    """Whether the utilisations of the members differ enough from the best ones.

    Args:
        rule: settings of the rule.
        largest: largest utilisation of a member, of one group or of several.
        best: largest utilisation that no assignment is below.
        assumed: whether the capacities are only assumed.
        share: share of the distances that is enough: 1, or `RELEASE` for an active trigger.
    """
    reaches = largest >= rule.utilisation - UTILISATION_GAIN * (1 - share)
    known = assumed == False  # noqa: E712 - of one group or, as an array, of several
    return reaches & (largest - best >= UTILISATION_GAIN * share) & known


def skew_counts(rule: SkewRule, figures: SkewFigures, *, active: bool) -> bool:
    """Whether a group's skew counts; `active`: its trigger is active."""
    share = RELEASE if active else 1.0
    drain = drain_counts(rule, figures.heaviest, figures.best, share)
    utilisation = utilisation_counts(
        rule, figures.utilisation, figures.best_utilisation, figures.assumed, share
    )
    return bool(drain | utilisation)


def longest_silence(rule: SkewRule) -> int:
    """Milliseconds between two samples beyond which a run breaks off."""
    return max(rule.duration_ms, SILENCE_MS)


def next_run(rule: SkewRule, run: SkewRun, figures: SkewFigures, *, at: int) -> SkewRun:
    """The run after one more sample.

    Args:
        rule: settings of the rule.
        run: the run up to the sample before.
        figures: the group's loads at the sample.
        at: time of the sample.
    """
    if not skew_counts(rule, figures, active=run.active):
        return SkewRun(evaluated_at=at)
    silence = 0 if run.evaluated_at == UNKNOWN else at - run.evaluated_at
    silent = not 0 <= silence <= longest_silence(rule)
    since = at if run.since == UNKNOWN or (silent and not run.active) else run.since
    lasted = at - since >= rule.duration_ms and (figures.waiting or not figures.assumed)
    return replace(run, since=since, evaluated_at=at, active=run.active or lasted)
