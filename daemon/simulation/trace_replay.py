"""From a trace and a problem to a world: whose partitions, who reads them, how fast, and what moves.

Members are those of the problem; without one there are so many alike, dealt to the racks that the trace tells of. Replicas
stand where the trace says, and where it says nothing as the problem has it. Where no speed is given, consumers are as fast as
makes the trace's records take the given share of what all of them can read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from assignors.json_problems import (
    parse_line,
    parse_problem,
)
from assignors.problem.group import Group
from assignors.problem.inputs import ProblemError
from daemon.simulation.fleet import Consumer, Event, Fleet, Moved, World
from daemon.simulation.scenario import RECORD_BYTES
from daemon.simulation.trace import Replayed, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignors.problem.inputs import (
        Member,
        Topic,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Who reads."""

    consumers: tuple[Consumer, ...]
    topics: Mapping[str, Topic]
    owned: Mapping[str, Mapping[str, Sequence[int]]]


def readers_of(line: bytes) -> Readers:
    """The members and topics of a problem, as `levelwind assign` reads it.

    Raises:
        ProblemError: it is no problem, or has no members.
    """
    problem = parse_problem({"strategy": "range"} | parse_line(line))
    if not problem.members:
        raise ProblemError("problem: it has no members, so nobody would read the trace")
    Group.build(problem.topics, problem.members)  # says what is wrong with a field
    return Readers(
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
    )


def readers_alike(count: int, trace: Trace) -> Readers:
    """So many members that are alike, dealt to the trace's racks."""
    names = sorted(
        {
            r
            for layouts in trace.racks.values()
            for _, racks in layouts
            for one in racks
            for r in one
        }
    )
    return Readers(
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


def replayed(
    trace: Trace,
    readers: Readers,
    *,
    name: str,
    tick: float,
    speed: float | None,
    utilisation: float,
) -> World:
    """The world of a trace.

    Raises:
        ProblemError: nobody reads what the trace tells of, or what a member owns is not there.
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
    capacity = sum(consumer.capacity for consumer in readers.consumers)
    for member, owned in readers.owned.items():
        for topic, numbers in owned.items():
            if topic in counts and any(not 0 <= number < counts[topic] for number in numbers):
                raise ProblemError(
                    f"member {member!r}: owns a partition of {topic!r} that is not there"
                )
    fleet = Fleet.made(
        topics=counts,
        consumers=readers.consumers,
        racks={topic: _racks(topic, trace, readers) for topic in counts},
        speed=speed or arrived / seconds / capacity / utilisation,
        owned=readers.owned,
        backlog={
            topic: [trace.lags.get(topic, {}).get(number, 0) for number in range(count)]
            for topic, count in counts.items()
        },
        record_bytes=dict.fromkeys(counts, RECORD_BYTES),
    )
    place = {
        topic: (int(begin), counts[topic])
        for topic, begin in zip(fleet.topics, fleet.topic_start[:-1].tolist(), strict=True)
    }
    return World(
        name=name,
        fleet=fleet,
        arrivals=Replayed(trace, place, tick),
        events=_moves(trace, place),
        ticks=max(ceil(seconds / tick), 1),
        tick=tick,
    )


def _counts(trace: Trace, readers: Readers) -> dict[str, int]:
    """By topic that anybody reads, how many partitions it has."""
    everything = any(consumer.topics == "*" for consumer in readers.consumers)
    read = {
        topic
        for consumer in readers.consumers
        if consumer.topics != "*"
        for topic in consumer.topics
    }
    counts = {topic: one.partitions for topic, one in readers.topics.items()}
    for topic, count in trace.partitions().items():
        if everything or topic in read:
            counts[topic] = max(count, counts.get(topic, 0))
    known = sum(topic in trace.ends for topic in counts)
    if not known:
        raise ProblemError(
            f"trace: no member of the problem reads any of its topics ({', '.join(sorted(trace.ends))})"
        )
    return counts


def _racks(topic: str, trace: Trace, readers: Readers) -> Sequence[Sequence[str]]:
    if layouts := trace.racks.get(topic):
        return layouts[0][1]
    known = readers.topics.get(topic)
    return [tuple(one) for one in known.replica_racks] if known and known.replica_racks else ()


def _moves(trace: Trace, place: Mapping[str, tuple[int, int]]) -> tuple[Event, ...]:
    events: list[Event] = []
    for topic, layouts in trace.racks.items():
        if topic in place:
            begin, count = place[topic]
            for (_, before), (at, after) in pairwise(layouts):
                moved = {
                    begin + number: racks
                    for number, racks in enumerate(after[:count])
                    if number >= len(before) or before[number] != racks
                }
                events.append(Moved(at=(at - trace.begin) / 1000, racks=moved))
    return tuple(sorted(events, key=lambda event: event.at))
