"""Load, time to drain and cross-rack reads of a group, as it is and at best. Pure.

At best is the plan that levelwind's strategy `optimal` makes of the same members, partitions, racks
and speeds, with the options of the settings; the daemon would make the same.
Guarantees: what is not known is None, and never 0. Seconds are given only where the speed of a
member is known; the busiest member's share is a ratio, which needs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.drain import (
    LONGEST_LAG_AT_PACE_SECONDS,
    drain_seconds,
    resolve_capacities,
    sum_by_member,
)
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import load_figures, score
from levelwind.assignors.protocol.partition_ranges import owners as owners_of
from levelwind.assignors.registry import certified_strategy
from levelwind.assignors.solver import SolverMissingError
from levelwind.daemon.assessment.following import NOT_STREAMS
from levelwind.daemon.assessment.observed_groups import STREAMS
from levelwind.daemon.control.gain.cross_rack import rack_reads
from levelwind.daemon.control.planning import USUAL_RECORD_BYTES, horizon_of, options_of
from levelwind.daemon.control.settings import EVERY, Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.problem.columns import Ints
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.assessment.observed_groups import ClusterObservation, GroupDescription
    from levelwind.daemon.assessment.pace import Pace
    from levelwind.daemon.control.settings import PlanSettings

NEVER = math.inf
"""Time to drain where lag does not fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagByPartition:
    """Records behind by partition, of those that a group reads."""

    known: Mapping[TopicPartition, int] = field(default_factory=dict)
    unknown: frozenset[TopicPartition] = frozenset()
    """Partitions of which it is not known: no commit yet, or no log end."""
    held: int | None = None
    """Records in the logs of those without a commit; None where that is not known either."""

    @property
    def total(self) -> int | None:
        """The sum of those that are known; None where none is."""
        return sum(self.known.values()) if self.known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossRack:
    """Reads from another rack than the member's own."""

    nominal: float | None = None
    """Share of the partitions without a replica in the member's rack."""
    effective: float | None = None
    """Share that members fetch from another rack, as the brokers let them (KIP-392)."""
    records: float | None = None
    """Records a second that cross racks, in effect."""
    bytes: float | None = None
    """Bytes a second that cross racks, in effect, by the size of records in the settings, or else
    by that of the logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one assignment."""

    drain: float | None = None
    """Seconds until the last member has no lag; `NEVER` where that of one does not fall."""
    busiest: float | None = None
    """Load of the busiest member over that of all if they shared the work by their speeds; 1 is
    even."""
    busiest_member: str | None = None
    cross_rack: CrossRack = CrossRack()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A group as it is, and at best."""

    now: Figures = Figures()
    best: Figures | None = None
    """None where nothing was planned: `unplanned` says why."""
    unplanned: str = ""
    moves: int = 0
    """Partitions that the plan moves."""
    proof: tuple[str, ...] = ()
    """What the plan's certificate says."""
    assumed: bool = True
    """Whether no member's speed is known."""


def lag_of(observation: ClusterObservation, name: str) -> LagByPartition:
    """Compute the lag of a group by its newest reading.

    A partition without a commit is behind by nothing if its log is empty; otherwise its lag depends
    on `auto.offset.reset`, which clients tell nobody.
    """
    readings = observation.readings(name)
    if not readings:
        return LagByPartition()
    reading = readings[-1]
    known: dict[TopicPartition, int] = {}
    unknown: set[TopicPartition] = set()
    held: list[int] = []
    for partition in _read_partitions(reading.group, reading.commits):
        end, commit = reading.ends.get(partition), reading.commits.get(partition)
        if end is not None and commit is not None:
            known[partition] = max(end - commit, 0)
        elif end is not None and end == observation.begins.get(partition):
            known[partition] = 0
        else:
            unknown.add(partition)
            if end is not None and partition in observation.begins:
                held.append(end - observation.begins[partition])
    return LagByPartition(known=known, unknown=frozenset(unknown), held=sum(held) if held else None)


def _read_partitions(
    group: GroupDescription, commits: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """What the members own and have committed; without members, all that was committed."""
    if not group.members:
        return set(commits)
    read = group.read_topics
    return {*group.owners, *(one for one in commits if one[0] in read)}


def gain_of(observation: ClusterObservation, name: str, pace: Pace, planning: PlanSettings) -> Gain:
    """Compare a group as it is with the plan of `optimal`.

    Args:
        observation: what was read.
        name: the name of the group.
        pace: its rates.
        planning: its settings, of which the options and the sizes of records count.
    """
    readings = observation.readings(name)
    described = readings[-1].group if readings else None
    if described is None:
        return Gain(unplanned="the group is not known")
    if not described.members:
        return Gain(unplanned="no member is there to plan for")
    if not described.owners:
        return Gain(unplanned="no member owns a partition now")
    problem = _Problem(observation, name, pace, planning, described)
    held = Assignment.held(problem.group)
    now = problem.standing(held.owner)
    if described.assignor == STREAMS:
        return Gain(now=now, unplanned=NOT_STREAMS, assumed=problem.group.assumed)
    options = {**horizon_of(Cause.SKEW, problem.group), **options_of(planning)}
    try:
        answer, certificate = certified_strategy("optimal", options)(problem.group)
    except SolverMissingError as error:
        return Gain(now=now, unplanned=str(error), assumed=problem.group.assumed)
    best = problem.standing(answer.target)
    if best.drain == NEVER and not problem.speeds_known:
        best = replace(best, drain=None)  # a member that was never behind may read any amount
    return Gain(
        now=now,
        best=best,
        moves=score(problem.group, answer).moved,
        proof=certificate.lines() if certificate else (),
        assumed=problem.group.assumed,
    )


class _Problem:
    """A group as the strategy sees it, with what its figures need besides."""

    def __init__(
        self,
        observation: ClusterObservation,
        name: str,
        pace: Pace,
        planning: PlanSettings,
        described: GroupDescription,
    ) -> None:
        self._layout = observation.layout
        self._pace = pace
        self._sizes = planning.record_bytes
        self._stored = observation.record_bytes
        self._racks = {member.name: member.rack for member in described.members}
        self.lag = lag_of(observation, name)
        self.speeds_known = all(member.name in pace.speeds for member in described.members)
        """Whether each member showed its speed."""
        topics = {
            topic: self._topic(topic)
            for topic in described.read_topics
            if (layout := self._layout.topics.get(topic)) is not None and layout.partitions
        }
        members = self._members(described, topics)
        self.group = Group.build(topics, members)

    def _topic(self, name: str) -> Topic:
        layout = self._layout.topics[name]
        numbers = range(layout.partitions)
        rates = [self._pace.arrivals.get((name, number), 0.0) for number in numbers]
        size = self._sizes.get(name, self._sizes.get(EVERY, USUAL_RECORD_BYTES))
        return Topic(
            partitions=layout.partitions,
            replica_racks=layout.racks,
            lags=[self.lag.known.get((name, number), 0) for number in numbers],
            rates=rates,
            bytes=[size * max(rate, 1.0) for rate in rates] if self._sizes else None,
        )

    def _members(self, described: GroupDescription, topics: Mapping[str, Topic]) -> list[Member]:
        speeds = self._speeds(described)
        shared = described.read_topics
        members = []
        for member in described.members:
            owned: dict[str, list[int]] = {}
            for topic, number in sorted(member.owned):
                if topic in topics and number < topics[topic].partitions:
                    owned.setdefault(topic, []).append(number)
            subscribed = member.detail.topics if member.detail else None
            reads = {*(shared if subscribed is None else subscribed), *owned}
            members.append(
                Member(
                    id=member.name,
                    topics=sorted(topic for topic in reads if topic in topics),
                    rack=member.rack,
                    speed=speeds.get(member.name),
                    owned=owned,
                )
            )
        return members

    def _speeds(self, described: GroupDescription) -> dict[str, float]:
        """What each member reads a second; empty while the speed of none is known.

        A member that keeps pace beside others that are behind shows a capacity of its own.
        """
        names = [member.name for member in described.members]
        if not any(name in self._pace.speeds for name in names):
            return {}
        lags, rates = self.lag.known, self._pace.arrivals
        of_members = [member.owned for member in described.members]
        capacities = resolve_capacities(
            np.ones(len(names)),
            np.array([self._pace.speeds.get(name, math.nan) for name in names]),
            float(sum(lags.values())),
            sum(rates.values()),
            pace=np.array([sum(rates.get(one, 0.0) for one in owned) for owned in of_members]),
            lag=np.array([float(sum(lags.get(one, 0) for one in owned)) for owned in of_members]),
        )
        return dict(zip(names, capacities.records_per_second.tolist(), strict=True))

    def standing(self, owner: Ints) -> Figures:
        """The figures of an assignment; partitions are indices of the group."""
        figures = load_figures(self.group, owner)
        members = len(self.group.members)
        lag = sum_by_member(self.group.lag, owner, members)
        rate = sum_by_member(self.group.rate, owner, members)
        load = (lag + rate * figures.horizon) / self.group.capacity
        return Figures(
            drain=self._drain(owner, lag, rate),
            busiest=figures.heaviest / figures.mean if figures.mean else None,
            busiest_member=self.group.members[int(load.argmax())] if figures.mean else None,
            cross_rack=self._cross_rack(owner),
        )

    def _drain(self, owner: Ints, lag: np.ndarray, rate: np.ndarray) -> float | None:
        """Seconds until nothing is behind; None where no rate or speed is known.

        A member that is no more behind than by what it has yet to commit has nothing to drain.
        """
        if not self._pace.seconds or self.lag.total is None:
            return None
        if bool((self.group.lag[owner < 0] > 0).any()):
            return NEVER
        at_pace = lag <= LONGEST_LAG_AT_PACE_SECONDS * rate
        if not self.group.assumed:
            at_pace &= rate <= self.group.capacity
        if bool(at_pace.all()):
            return 0.0
        if self.group.assumed:
            return None
        needed = drain_seconds(np.where(at_pace, 0.0, lag), rate, self.group.capacity)
        return float(needed.max(initial=0.0))

    def _cross_rack(self, owner: Ints) -> CrossRack:
        owners = owners_of(Assignment(owner).to_names(self.group))
        reads = list(rack_reads(owners, self._racks, self._layout.topics, self._layout.brokers))
        if not reads:
            return CrossRack()
        nominal = sum(read.nominal for read in reads) / len(reads)
        if any(read.effective is None for read in reads):
            return CrossRack(nominal=nominal)
        crossing = [read.partition for read in reads if read.effective]
        effective = len(crossing) / len(reads)
        rates = {one: self._consumed(one) for one in crossing}
        if not self._pace.seconds or None in rates.values():
            return CrossRack(nominal=nominal, effective=effective)
        read = {one: rate for one, rate in rates.items() if rate}
        sizes = {topic: self._size(topic) for topic, _ in read}
        known = {topic: size for topic, size in sizes.items() if size is not None}
        return CrossRack(
            nominal=nominal,
            effective=effective,
            records=sum(read.values()),
            bytes=sum(rate * known[topic] for (topic, _), rate in read.items())
            if len(known) == len(sizes)
            else None,
        )

    def _consumed(self, partition: TopicPartition) -> float | None:
        """Records a second that are read of a partition: none of a log that is empty and rests."""
        rate = self._pace.consumed.get(partition)
        rests = self._pace.arrivals.get(partition) == 0 and self.lag.known.get(partition) == 0
        return 0.0 if rate is None and rests else rate

    def _size(self, topic: str) -> float | None:
        """Bytes of a record; None where they are not known."""
        return self._sizes.get(topic, self._sizes.get(EVERY, self._stored.get(topic)))
