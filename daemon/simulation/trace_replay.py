"""Trace replay: the world of a trace and of a problem's members.

Members are those of the problem; without a problem, equal members are spread over the racks of the
trace. Replica racks are those of the trace, and of the problem where the trace has none. Topics
that no member reads count nowhere. A member reads at the speed that the problem says. The others
are as fast for their capacity as a given speed says, else as the median of the members with a
speed, else as makes the trace's records take the given share of all consumers' speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from levelwind.assignors.json_problems import parse_line, parse_problem
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.daemon.simulation.fleet import Consumer, Event, Fleet, Moved, World
from levelwind.daemon.simulation.scenario import RECORD_BYTES
from levelwind.daemon.simulation.trace import Trace, TraceArrivals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.problem.inputs import Member, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReaders:
    """Consumers of a replay, with the topics and claims of their problem."""

    consumers: tuple[Consumer, ...]
    topics: Mapping[str, Topic]
    owned: Mapping[str, Mapping[str, Sequence[int]]]


def readers_of_problem(line: bytes) -> TraceReaders:
    """Members and topics of a problem, as `levelwind assign` reads it.

    Raises:
        ProblemError: the line is not a problem, or the problem has no members.
    """
    problem = parse_problem({"strategy": "range"} | parse_line(line))
    if not problem.members:
        raise ProblemError("problem: it has no members, so no consumer would read the trace")
    Group.build(problem.topics, problem.members)  # checks the fields, and raises for a wrong one
    return TraceReaders(
        consumers=tuple(map(_consumer, problem.members)),
        topics=problem.topics,
        owned={member.id: member.owned for member in problem.members if member.owned},
    )


def _consumer(member: Member) -> Consumer:
    return Consumer(
        id=member.id,
        topics="*" if member.topics == "*" else tuple(member.topics),
        rack=member.rack,
        capacity=member.capacity,
        priority=member.priority,
        container=member.container,
        instance_id=member.instance_id,
        speed=member.speed,
    )


def uniform_readers(count: int, trace: Trace) -> TraceReaders:
    """Equal members, spread over the racks of the trace."""
    names = sorted(
        {
            rack
            for layouts in trace.racks.values()
            for _, partitions in layouts
            for racks in partitions
            for rack in racks
        }
    )
    return TraceReaders(
        consumers=tuple(
            Consumer(
                id=f"member-{number:04}",
                topics="*",
                rack=names[number % len(names)] if names else None,
            )
            for number in range(count)
        ),
        topics={},
        owned={},
    )


def replay_world(
    trace: Trace,
    readers: TraceReaders,
    *,
    name: str,
    tick: float,
    speed: float | None,
    utilisation: float,
) -> World:
    """Build the world of a trace.

    Raises:
        ProblemError: no member reads a topic of the trace, or a member owns an unknown partition.
    """
    counts = _counts(trace, readers)
    seconds = (trace.end - trace.begin) / 1000
    arrived = sum(
        samples[-1][1] - samples[0][1]
        for topic, partitions in trace.ends.items()
        if topic in counts
        for samples in partitions.values()
    )
    if not arrived:
        raise ProblemError("trace: no record arrives in a topic that a member of the problem reads")
    for member, owned in readers.owned.items():
        for topic, numbers in owned.items():
            if topic in counts and any(not 0 <= number < counts[topic] for number in numbers):
                raise ProblemError(
                    f"member {member!r}: owns a partition of {topic!r} that does not exist"
                )
    fleet = Fleet.build(
        topics=counts,
        consumers=readers.consumers,
        racks={topic: _racks(topic, trace, readers) for topic in counts},
        speed=speed or _unit_speed(readers.consumers, arrived / seconds / utilisation),
        owned=readers.owned,
        backlog={
            topic: [trace.lags.get(topic, {}).get(number, 0) for number in range(count)]
            for topic, count in counts.items()
        },
        record_bytes=dict.fromkeys(counts, RECORD_BYTES),
    )
    ranges = {
        topic: (int(begin), counts[topic])
        for topic, begin in zip(fleet.topics, fleet.topic_start[:-1].tolist(), strict=True)
    }
    return World(
        name=name,
        fleet=fleet,
        arrivals=TraceArrivals(trace, ranges, tick),
        events=_moves(trace, ranges),
        ticks=max(ceil(seconds / tick), 1),
        tick=tick,
    )


def _unit_speed(consumers: Sequence[Consumer], wanted: float) -> float:
    """Records that a consumer of capacity 1 reads per second.

    Args:
        consumers: the consumers.
        wanted: records that all read per second where no consumer's speed is known.
    """
    known = [each.speed / each.capacity for each in consumers if each.speed is not None]
    return median(known) if known else wanted / sum(each.capacity for each in consumers)


def _counts(trace: Trace, readers: TraceReaders) -> dict[str, int]:
    """Number of partitions by topic that a consumer reads."""
    everything = any(consumer.topics == "*" for consumer in readers.consumers)
    read = {
        topic
        for consumer in readers.consumers
        if consumer.topics != "*"
        for topic in consumer.topics
    }
    counts = {name: topic.partitions for name, topic in readers.topics.items()}
    for topic, count in trace.partitions().items():
        counts[topic] = max(count, counts.get(topic, 0))
    counts = {topic: count for topic, count in counts.items() if everything or topic in read}
    if not any(topic in trace.ends for topic in counts):
        raise ProblemError(
            f"trace: no member of the problem reads any of its topics"
            f" ({', '.join(sorted(trace.ends))})"
        )
    return counts


def _racks(topic: str, trace: Trace, readers: TraceReaders) -> Sequence[Sequence[str]]:
    if layouts := trace.racks.get(topic):
        return layouts[0][1]
    given = readers.topics.get(topic)
    return [tuple(racks) for racks in given.replica_racks] if given and given.replica_racks else ()


def _moves(trace: Trace, ranges: Mapping[str, tuple[int, int]]) -> tuple[Event, ...]:
    events: list[Event] = []
    for topic, layouts in trace.racks.items():
        if topic in ranges:
            begin, count = ranges[topic]
            for (_, before), (at, after) in pairwise(layouts):
                moved = {
                    begin + number: racks
                    for number, racks in enumerate(after[:count])
                    if number >= len(before) or before[number] != racks
                }
                events.append(Moved(at=(at - trace.begin) / 1000, racks=moved))
    return tuple(sorted(events, key=lambda event: event.at))
