"""Risks of a group that its owner should know, each by one rule. Pure.

A rule states what was seen and for how long, and no more: where something is not known, its rule is
silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.problem.drain import LONGEST_LAG_AT_PACE_SECONDS
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.assessment.observed_groups import EMPTY, REBALANCING, STABLE
from levelwind.daemon.console import age_text
from levelwind.daemon.observer.cluster_state import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.assessment.gain import LagByPartition
    from levelwind.daemon.assessment.observed_groups import (
        ClusterObservation,
        GroupDescription,
    )
    from levelwind.daemon.assessment.pace import Pace

MOST_NAMES = 3
"""Members or topics that a text names; it counts the others."""


class Risk(NamedTuple):
    """One finding about a group."""

    kind: str
    text: str


class _Seen(NamedTuple):
    """What the rules look at."""

    observation: ClusterObservation
    name: str
    group: GroupDescription
    commits: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    pace: Pace
    lag: LagByPartition


def risks_of(
    observation: ClusterObservation, name: str, pace: Pace, lag: LagByPartition
) -> tuple[Risk, ...]:
    """Apply every rule to a group.

    Args:
        observation: what was read.
        name: the name of the group.
        pace: its rates.
        lag: its lag.
    """
    readings = observation.readings(name)
    if not readings:
        return ()
    last = readings[-1]
    seen = _Seen(observation, name, last.group, last.commits, last.ends, pace, lag)
    return tuple(Risk(kind, text) for kind, rule in RULES.items() for text in rule(seen))


def _lag_grows(seen: _Seen) -> Iterator[str]:
    """More arrived than was committed, by more than commits can be late."""
    both = seen.pace.arrivals.keys() & seen.pace.consumed.keys()
    arrivals = sum(seen.pace.arrivals[one] for one in both)
    growth = arrivals - sum(seen.pace.consumed[one] for one in both)
    if growth * seen.pace.seconds > LONGEST_LAG_AT_PACE_SECONDS * arrivals > 0:
        yield f"lag grows by {growth:,.0f} records/s ({growth / arrivals:.0%} of what arrives)"


def _stands_still(seen: _Seen) -> Iterator[str]:
    if still := seen.pace.still:
        waiting = sum(still.values())
        yield (
            f"{_named(still, 'member')} committed nothing for {age_text(seen.pace.seconds)}, while"
            f" {waiting:,} records wait"
        )


def _idle_member(seen: _Seen) -> Iterator[str]:
    idle = [member.name for member in seen.group.members if not member.owned]
    if idle and seen.group.state == STABLE:
        yield f"without a partition: {_named(idle, 'member')}"


def _unclaimed(seen: _Seen) -> Iterator[str]:
    if seen.group.state != STABLE or not seen.group.members:
        return
    layout = seen.observation.layout.topics
    read = {
        (topic, number)
        for topic in seen.group.read_topics
        if topic in layout
        for number in range(layout[topic].partitions)
    }
    if free := read - seen.group.owners.keys():
        yield f"no member owns {_partitions(free)}"


def _no_leader(seen: _Seen) -> Iterator[str]:
    layout = seen.observation.layout.topics
    read = {*seen.group.owners, *seen.commits}
    dead = {
        (topic, number)
        for topic, number in read
        if topic in layout
        and number < layout[topic].partitions
        and layout[topic].leader[number] == UNKNOWN
    }
    if dead:
        yield f"{_partitions(dead)} without a leader: nobody can read there"


def _rebalances(seen: _Seen) -> Iterator[str]:
    states = [reading.group.state for reading in seen.observation.readings(seen.name)]
    if set(states) == {REBALANCING}:
        yield f"the group was rebalancing in all of {len(states)} samples"
    elif REBALANCING in states or seen.pace.regrouped:
        yield "the group rebalanced during the observation, so less is known of its members' speeds"


def _commit_out_of_log(seen: _Seen) -> Iterator[str]:
    begins, ends = seen.observation.begins, seen.ends
    lost = {
        one: begins[one] - commit
        for one, commit in seen.commits.items()
        if one in begins and commit < begins[one]
    }
    if lost:
        yield (
            f"{sum(lost.values()):,} records of {_partitions(lost)} were deleted before the group"
            " had committed them"
        )
    if beyond := {one for one, commit in seen.commits.items() if commit > ends.get(one, commit)}:
        yield f"the commits of {_partitions(beyond)} lie beyond the log: it was made anew or cut"


def _nobody_reads(seen: _Seen) -> Iterator[str]:
    if seen.group.members or seen.group.state != EMPTY or not seen.lag.total:
        return
    if any(rate > 0 for rate in seen.pace.consumed.values()):
        return
    mark = "≥" if seen.lag.unknown else ""
    yield f"the group has no member, and {mark}{seen.lag.total:,} records wait"


def _own_assignment(seen: _Seen) -> Iterator[str]:
    if not seen.group.members and any(rate > 0 for rate in seen.pace.consumed.values()):
        yield "commits advance without a member: its consumers assign their partitions themselves"


def _old_commits(seen: _Seen) -> Iterator[str]:
    """Commits that may be older than half of the time after which they expire.

    The brokers keep the commits of a group with members, and tell nobody when one was made: it is
    no younger than the record before it, unless the group commits an offset again.
    """
    minutes = seen.observation.retention_minutes
    if seen.group.members or minutes is None:
        return
    if any(rate > 0 for rate in seen.pace.consumed.values()):
        return
    old = seen.observation.old
    found = {one for one, commit in seen.commits.items() if one in old and commit <= old[one]}
    if found:
        half = age_text(minutes * 30)
        yield (
            f"the commits of {_partitions(found)} may be older than {half}: without a member they"
            f" expire after {age_text(minutes * 60)} (offsets.retention.minutes)"
        )


def _left_topics(seen: _Seen) -> Iterator[str]:
    if not seen.group.members:
        return
    left = {topic for topic, _ in seen.commits} - seen.group.read_topics
    if left:
        yield f"no member reads {_named(sorted(left), 'topic')} any more: its commits will expire"


RULES: Mapping[str, Callable[[_Seen], Iterable[str]]] = {
    "no_leader": _no_leader,
    "lost_records": _commit_out_of_log,
    "unclaimed": _unclaimed,
    "member_stands_still": _stands_still,
    "lag_grows": _lag_grows,
    "nobody_reads": _nobody_reads,
    "rebalancing": _rebalances,
    "old_commits": _old_commits,
    "idle_member": _idle_member,
    "own_assignment": _own_assignment,
    "left_topics": _left_topics,
}
"""Rules by the kind of their risk, the most urgent first."""


def _named(names: Iterable[str], noun: str) -> str:
    """The first names with their noun, and the number of the others."""
    found = list(names)
    first = ", ".join(found[:MOST_NAMES])
    more = len(found) - MOST_NAMES
    return f"{noun} {first}" + (f" and {more:,} more" if more > 0 else "")


def _partitions(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, as ranges."""
    texts = ranges.texts(ranges.by_topic(set(partitions)))
    found = [f"{topic}:{text}" for topic, text in sorted(texts.items())]
    more = len(found) - MOST_NAMES
    first = " ".join(found[:MOST_NAMES])
    return first + (f" and of {more:,} more topics" if more > 0 else "")
