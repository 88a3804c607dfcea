"""Rates and speeds from the differences of samples. Pure.

The brokers tell offsets and no times of commits, so a rate is the difference of the last and the
first offset over the time between their answers; commits come in steps, and the longer the
observation, the less one step weighs.

The speed of a member is what it committed over the time in which it was *behind*, with the law of
`streaming.rules.speed`: the record after each of its commits had been waiting since the sample
before, in the partitions that most of its records come from. A member that keeps pace shows how
much arrives, and not how much it could do: its speed is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from levelwind.streaming.rules.speed import BEHIND_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.assessment.observed_groups import (
        ClusterObservation,
        GroupMember,
        WholeReading,
    )

LEAST_SPEED_SECONDS = 8.0
"""Least time behind from which a speed counts: commits come every 5 s by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Rates of one group in records a second; what is not known is left out."""

    seconds: float = 0.0
    """Time between the first and the last commits that were read; 0: no rate is known."""
    arrivals: Mapping[TopicPartition, float] = field(default_factory=dict)
    consumed: Mapping[TopicPartition, float] = field(default_factory=dict)
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Speed by the name of the member, above 0."""
    still: Mapping[str, int] = field(default_factory=dict)
    """Records that wait in the partitions of a member that committed nothing from the first to the
    last sample, while records were waiting in all of them."""
    regrouped: bool = False
    """Whether a partition changed its owner meanwhile."""


def pace_of(observation: ClusterObservation, name: str) -> Pace:
    """Compute the rates of one group.

    Args:
        observation: the samples.
        name: the name of the group.
    """
    readings = observation.readings(name)
    if len(readings) < 2:
        return Pace()
    first, last = readings[0], readings[-1]
    seconds, between = last.at - first.at, last.ends_read_at - first.ends_read_at
    if seconds <= 0 or between <= 0:
        return Pace()
    read = {*last.commits, *last.group.owners}
    owners = [reading.group.owners for reading in readings]
    return Pace(
        seconds=seconds,
        arrivals=_rates(read, first.ends, last.ends, between),
        consumed=_rates(read, first.commits, last.commits, seconds),
        speeds=_speeds(readings),
        still=_still(readings),
        regrouped=any(each != owners[0] for each in owners),
    )


def _rates(
    partitions: Iterable[TopicPartition],
    before: Mapping[TopicPartition, int],
    after: Mapping[TopicPartition, int],
    seconds: float,
) -> dict[TopicPartition, float]:
    """Rates of offsets; without those that went back: the topic or the commit was set anew."""
    return {
        one: (after[one] - before[one]) / seconds
        for one in partitions
        if one in before and one in after and after[one] >= before[one]
    }


def _speeds(readings: list[WholeReading]) -> dict[str, float]:
    records: dict[str, int] = {}
    behind_for: dict[str, float] = {}
    for before, after in pairwise(readings):
        for member in _kept(before, after):
            advance = _advance(member, before, after)
            if advance is not None:
                records[member.name] = records.get(member.name, 0) + advance
                behind_for[member.name] = behind_for.get(member.name, 0.0) + after.at - before.at
    return {
        name: count / behind_for[name]
        for name, count in records.items()
        if count > 0 and behind_for[name] >= LEAST_SPEED_SECONDS
    }


def _kept(before: WholeReading, after: WholeReading) -> Iterable[GroupMember]:
    """The members that own the same partitions in two readings."""
    earlier = {each.id: each.owned for each in before.group.members}
    return [
        each for each in after.group.members if each.owned and earlier.get(each.id) == each.owned
    ]


def _advance(member: GroupMember, before: WholeReading, after: WholeReading) -> int | None:
    """Records that a member committed between two readings; None where it was not behind."""
    advance = behind = 0
    waiting = False
    for partition in member.owned:
        start, end = before.commits.get(partition), after.commits.get(partition)
        if start is None or end is None or end < start:
            continue
        has_waited = end < before.ends.get(partition, end)
        waiting = waiting or has_waited
        advance += end - start
        behind += end - start if has_waited else 0
    return advance if waiting and behind >= BEHIND_SHARE * advance else None


def _still(readings: list[WholeReading]) -> dict[str, int]:
    first, last = readings[0], readings[-1]
    stuck: dict[str, int] = {}
    owners = first.group.owners
    if any(reading.group.owners != owners for reading in readings):
        return stuck
    for member in _kept(first, last):
        before = _known(member, first.commits.get)
        after = _known(member, last.commits.get)
        if before != after or not after:
            continue
        waiting = {
            partition: last.ends[partition] - commit
            for partition, commit in after.items()
            if commit < first.ends.get(partition, commit) and partition in last.ends
        }
        if waiting:
            stuck[member.name] = sum(waiting.values())
    return stuck


def _known(
    member: GroupMember, commit_of: Callable[[TopicPartition], int | None]
) -> dict[TopicPartition, int]:
    found = ((partition, commit_of(partition)) for partition in member.owned)
    return {partition: commit for partition, commit in found if commit is not None}
