"""Time between the starts of two batches: short while somebody would act on their results.

A batch costs CPU whatever is in it. So one begins every `shortest_ms` only while something is at
stake: skew counts in a group, and has not for long; a plan is being followed; somebody watches.
Otherwise the query pauses longer, and promises that

- *a trigger is raised as soon as with the shortest interval.* Skew must count for
  `skew_duration_ms` before it is a trigger. Any batch within that time shows that it counts, and
  from then on the interval is the shortest. So a pause may take that time, and the shortest
  interval, which a sample may wait for its batch in any case, less what the batch itself takes.
  Skew by guesses, which has lasted and is a trigger once records wait, waits as long at most;
- *no more than `MOST_WAITING` records wait*, by the highest rate of the last minute: of a busy
  cluster lag changes more, and a pause saves less;
- *a backlog is read without a pause.*

All functions are pure. Times are milliseconds of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

AT_STAKE_MS = 5_000
"""Time for which something is at stake after the end of the batch that showed it; longer than the
second between two samples of a topic."""
LASTING_SKEW_MS = 60_000
"""Event time from the begin of skew after which it is no longer at stake, unless it takes longer to
be a trigger: nobody levels that group, or it is skewed by guesses alone and nothing waits there."""
MOST_WAITING = 16_000
"""Records that wait for a batch at most, where a pause is longer than the shortest."""
BUSY_MS = 60_000
"""Time for which the highest rate of records is expected to return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CadenceRule:
    """Settings of the rule."""

    shortest_ms: int = 550
    longest_ms: int = 2_500
    """No more than `shortest_ms`: the interval is always that."""
    skew_duration_ms: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch of the query showed."""

    began_at: int
    length_ms: int
    records: int
    """Records read."""
    cut: bool
    """Whether the batch left input unread."""
    at_stake: bool
    """Whether it showed that something is at stake."""

    @property
    def ended_at(self) -> int:
        """Its end."""
        return self.began_at + self.length_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Records a millisecond, the highest until a time."""

    records: float = 0.0
    until: int = 0

    def after(self, batch: Batch, came_in_ms: int) -> Rate:
        """The highest rate after a batch whose records came in a time."""
        records = batch.records / max(came_in_ms, 1)
        if records >= self.records or batch.ended_at >= self.until:
            return Rate(records=records, until=batch.ended_at + BUSY_MS)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """When the next batch begins, by all batches so far."""

    rule: CadenceRule
    last: Batch | None = None
    at_stake_until: int = 0
    busiest: Rate = Rate()
    interval_ms: int = 0
    """Time from the begin of the last batch to that of the next one."""

    @property
    def due_at(self) -> int:
        """Time from which the next batch may begin."""
        return self.last.began_at + self.interval_ms if self.last else 0

    def after(self, batch: Batch) -> Cadence:
        """The cadence after one more batch."""
        at_stake_until = batch.ended_at + AT_STAKE_MS if batch.at_stake else self.at_stake_until
        # How long the records of a backlog took to come is not known.
        former = None if self.last is None or self.last.cut else self.last
        busiest = self.busiest
        if former is not None:
            busiest = busiest.after(batch, batch.began_at - former.began_at)
        if batch.cut:
            interval = 0
        elif former is None or batch.ended_at < at_stake_until:
            interval = self.rule.shortest_ms
        else:
            interval = calm_interval(self.rule, batch.length_ms, busiest)
        return Cadence(
            rule=self.rule,
            last=batch,
            at_stake_until=at_stake_until,
            busiest=busiest,
            interval_ms=interval,
        )


def calm_interval(rule: CadenceRule, length_ms: int, busiest: Rate) -> int:
    """Time from the begin of a batch to that of the next one while nothing is at stake.

    Args:
        rule: settings of the rule.
        length_ms: the length of the batch.
        busiest: the rate of records that is expected at most.
    """
    longest = min(rule.longest_ms, rule.skew_duration_ms + rule.shortest_ms - length_ms)
    if busiest.records * longest > MOST_WAITING:
        longest = round(MOST_WAITING / busiest.records)
    return max(longest, rule.shortest_ms)
