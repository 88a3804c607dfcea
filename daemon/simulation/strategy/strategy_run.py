"""Strategy run: the fleet under one strategy, tick by tick.

Guarantees: in each tick, first the due events are applied, then records arrive, then lag is sampled
as the pipeline samples it (commits are those up to the last tick), then the group is planned if the
policy finds a plan due, and last the consumers read. Nothing is read from a partition that is being
handed over, nor by a consumer that does not run. A consumer reads whole records at its speed: the
part of a record that a tick leaves over counts in the next one. Arrived records are those read and
those left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.drain import resolve_capacities, sum_by_member
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.protocol.partition_ranges import by_topic
from levelwind.daemon.control.gain.waiting import waiting_figures
from levelwind.daemon.control.policy import Proposal
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.simulation.fleet import Joined, Left, Moved, Slowed
from levelwind.daemon.simulation.strategy.group_control import Control, Rules
from levelwind.daemon.simulation.strategy.observation import Observation, Rhythm
from levelwind.daemon.simulation.traffic import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs
    from levelwind.daemon.simulation.fleet import Event, World
    from levelwind.daemon.simulation.strategy.candidates import PlanningStrategy
    from levelwind.daemon.simulation.traffic import ReadOrder, RecentArrivals

EACH_TICK = Rhythm()
"""Members commit, and lag is sampled, in every tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Conditions of a hand-over."""

    pause: float = 5.0
    """Seconds for which nobody reads a partition that moves."""
    eager: bool = False
    """Whether the whole group pauses, not only the partitions that move."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counters of a run; the columns are indexed by tick."""

    lag: Longs
    """Lag of the group in records."""
    drain: Floats
    """Time to drain of the most loaded consumer, in seconds."""
    above: Ints
    """Partitions in which a record waits longer than the target."""
    processed: int = 0
    """Records read."""
    crossed: float = 0.0
    """Bytes read from another rack."""
    located: float = 0.0
    """Bytes read by consumers with a rack, from partitions whose replicas have known racks."""
    plans: dict[Cause, int] = field(default_factory=dict)
    """Plans after the first, by cause."""
    moves: int = 0
    """Partitions that changed owner."""
    plan_seconds: list[float] = field(default_factory=list)
    """Seconds of each plan."""


class StrategyRun:
    """A strategy at work; its state changes from tick to tick."""

    def __init__(
        self,
        world: World,
        strategy: PlanningStrategy,
        rules: Rules,
        hand_over: HandOver,
        target: float,
        reader: ReadOrder = read,
        rhythm: Rhythm = EACH_TICK,
    ) -> None:
        """Begin a run.

        Args:
            world: fleet and events.
            strategy: what plans.
            rules: the rules of the control.
            hand_over: conditions of a hand-over.
            target: seconds that a record may wait.
            reader: how consumers divide their speed among their partitions.
            rhythm: when members commit, and when lag is sampled.
        """
        fleet = world.fleet
        self._reader = reader
        self._world, self._fleet, self._strategy = world, fleet, strategy
        self._hand_over, self._target = hand_over, target
        self.lag = fleet.backlog.copy()  # P: records left
        self.owner = fleet.owner.copy()  # P: owner by the last plan; -1 for nobody
        self.running_members = fleet.present.copy()  # M
        self.live_members = fleet.present.copy()  # M: members that the control believes to be live
        self._silent: dict[int, float] = {}  # by member that ended unannounced: time of its end
        self._capacity = np.array([consumer.capacity for consumer in fleet.consumers])  # M
        # M: records per second that a consumer reads at its whole speed.
        self._whole_speed = np.array(
            [each.reads_per_second(fleet.speed) for each in fleet.consumers]
        )
        self._factor = np.ones(len(fleet.consumers))  # M: share of its speed that a consumer has
        # M: part of a record that a consumer could still have read; 0 while it does not run.
        self._part_left = np.zeros(len(fleet.consumers))
        # P: time from which the partition is read; a hand-over delays it.
        self.free_at = np.zeros(fleet.partitions)
        # M: time before which nobody else gets what the member owns, since it died silently and may
        # still read; 0 for any other, and for owner -1, which takes the last.
        self._barred_until = np.zeros(len(fleet.consumers) + 1)
        names = sorted(
            {rack for replica_racks in fleet.racks for rack in replica_racks}
            | {consumer.rack or "" for consumer in fleet.consumers}
        )
        self._rack_number = {name: number for number, name in enumerate(names)}
        # M: number of the consumer's rack, and whether it has one.
        self._member_rack = np.array(
            [self._rack_number[consumer.rack or ""] for consumer in fleet.consumers]
        )
        self._has_rack = np.array(
            [consumer.rack is not None for consumer in fleet.consumers], dtype=np.bool_
        )
        self._racks = list(fleet.racks)
        # P x racks: whether the rack has a replica of the partition.
        self._rack_local = np.zeros((fleet.partitions, len(names)), dtype=np.bool_)
        self._set_racks(dict(enumerate(fleet.racks)))
        self.control = Control(rules=rules, members=frozenset(), racks=tuple(self._racks))
        self._rules = rules
        ticks = world.ticks
        self.tally = Tally(
            lag=np.zeros(ticks, np.int64), drain=np.zeros(ticks), above=np.zeros(ticks, np.int32)
        )
        self._observation = Observation(fleet.partitions, len(fleet.consumers), rhythm)
        self._upcoming = list(world.events)
        self._update_speeds()
        self._cross: Bools | None = None  # P; None after a change of owners or racks

    # -- a tick

    def tick(self, number: int, arrived: Longs, recent: RecentArrivals) -> Longs:
        """Play one tick; return the records read, by partition."""
        now = number * self._world.tick
        self._apply_due_events(now)
        self.lag += arrived
        self._sample(now, recent)
        if number == 0:
            self._plan(Cause.MEMBERSHIP, now, recent, first=True)
        elif (cause := self.control.due(now)) is not None:
            self._plan(cause, now, recent)
        running = np.append(self.running_members, False)[
            self.owner
        ]  # owner -1 takes the last, False
        readable = running & (self.free_at <= now)
        done = self._reader(self.lag, self.owner, self._budgets(), readable)
        self.lag -= done
        self._observation.read(done, self.lag, self.owner, now, self._world.tick, recent)
        self._count(number, done, recent)
        return done

    def _count(self, number: int, done: Longs, recent: RecentArrivals) -> None:
        tally = self.tally
        tally.processed += int(done.sum())
        tally.lag[number] = self.lag.sum()
        drain = sum_by_member(self.lag, self.owner, len(self._speed)) / self._speed
        tally.drain[number] = drain.max(initial=0.0)
        if (younger := recent.younger(self._target)) is not None:
            tally.above[number] = np.count_nonzero(self.lag > younger)
        if self._cross is None:
            self._cross, self._located = self._crossing()
        weight = done * self._fleet.record_bytes
        tally.crossed += float(weight[self._cross].sum())
        tally.located += float(weight[self._located].sum())

    def _crossing(self) -> tuple[Bools, Bools]:
        """Whether each partition (P) is read from another rack, and whether that is known."""
        located = self._rack_local.any(axis=1) & (self.owner >= 0)
        located[located] = self._has_rack[self.owner[located]]
        cross = located.copy()
        partitions = np.flatnonzero(located)
        cross[partitions] = ~self._rack_local[partitions, self._member_rack[self.owner[partitions]]]
        return cross, located

    # -- events

    def _apply_due_events(self, now: float) -> None:
        while self._upcoming and self._upcoming[0].at <= now:
            self._apply(self._upcoming.pop(0), now)
        for member, since in list(self._silent.items()):
            if now - since >= self._rules.dead_after:
                del self._silent[member]
                self.live_members[member] = False
                self._barred_until[member] = now + self._rules.grant
        barred = np.unique(self.owner[self._barred_until[self.owner] > now]).tolist()
        live = np.flatnonzero(self.live_members).tolist()
        self.control.membership(frozenset(live), frozenset(barred), now)

    def _apply(self, event: Event, now: float) -> None:
        match event:
            case Joined(member=member):
                self.running_members[member] = self.live_members[member] = True
                self._silent.pop(member, None)
                self._barred_until[member] = 0.0
            case Left(member=member, announced=True):
                self.running_members[member] = self.live_members[member] = False
            case Left(member=member):
                self.running_members[member] = False
                self._silent[member] = now
            case Slowed(member=member, factor=factor):
                self._factor[member] = factor
                self._update_speeds()
            case Moved(racks=racks):
                self._set_racks(racks)
                self.control.racks_observed(
                    tuple(self._racks), rack_aware=bool(self._has_rack[self.live_members].any())
                )
                self._cross = None

    def _set_racks(self, racks: Mapping[int, tuple[str, ...]]) -> None:
        for partition, names in racks.items():
            self._racks[partition] = tuple(sorted(set(names)))
            numbers = [self._rack_of(name) for name in names]
            self._rack_local[partition] = False
            self._rack_local[partition, numbers] = True

    def _rack_of(self, name: str) -> int:
        if name not in self._rack_number:
            self._rack_number[name] = len(self._rack_number)
            self._rack_local = np.pad(self._rack_local, ((0, 0), (0, 1)))
        return self._rack_number[name]

    def _update_speeds(self) -> None:
        self._speed = np.maximum(self._whole_speed * self._factor, 1e-9)

    def _budgets(self) -> Longs:
        """Records that each consumer (M) can read in this tick, with the part of one left over."""
        exact = self._part_left + self._speed * self._world.tick
        # Parts that make a whole record may lack the error of floats.
        budget = np.floor(exact + 1e-9)
        self._part_left = np.where(self.running_members, exact - budget, 0.0)
        return budget.astype(np.int64)

    # -- lag and plans

    def _sample(self, now: float, recent: RecentArrivals) -> None:
        """Let the control judge the load of the live members."""
        live = np.flatnonzero(self.live_members)
        sample = self._observation.sampled(self.lag, self.owner, live, self._capacity, now, recent)
        if sample is not None:
            self.control.sampled(*sample)

    def _plan(
        self, cause: Cause, now: float, recent: RecentArrivals, *, first: bool = False
    ) -> None:
        group, members = self._problem(now, recent)
        begun = perf_counter()
        answer = self._strategy(group, cause)
        self.tally.plan_seconds.append(perf_counter() - begun)
        if wrong := violations(group, answer):
            raise RuntimeError(f"a strategy broke an invariant at {now:.0f} s: {wrong[0]}")
        held = Assignment.held(group)
        owner = np.append(members, -1)[answer.target].astype(np.int32)
        changed = (self.owner != owner) & (self.owner >= 0)
        proposal = Proposal(
            before=score(group, held),
            after=score(group, answer),
            waiting=waiting_figures(
                group.lag,
                group.rate,
                held.owner,
                answer.target,
                group.capacity,
                pause=self.control.policy.handover,
            ),
            moved=self._fleet.names(np.flatnonzero(changed)),
        )
        if not first and not self.control.allows(cause, proposal, now):
            return
        taken = changed if first else self.owner != owner
        # Nobody has to give up what a dead member had: it is read as soon as that was waited out.
        barred_until = self._barred_until[self.owner]
        begins = np.where(barred_until > 0, barred_until, now + self._hand_over.pause)
        self.free_at[taken] = np.maximum(self.free_at, begins)[taken]
        if self._hand_over.eager and not first:
            self.free_at = np.maximum(self.free_at, now + self._hand_over.pause)
        settled = float(self.free_at[taken].max(initial=now))
        self.control.planned(cause, proposal, now, settled)
        self._observation.moved(taken, self.owner, owner, now)
        self.owner, self._cross = owner, None
        self.tally.moves += proposal.moves
        if not first:
            self.tally.plans[cause] = self.tally.plans.get(cause, 0) + 1

    def _problem(self, now: float, recent: RecentArrivals) -> tuple[Group, Longs]:
        """Problem as the control states it without record sizes, and its members' fleet numbers."""
        fleet = self._fleet
        rates = recent.rates()
        lag = self._observation.lag(self.lag, rates, now)
        topics = {}
        for topic, begin, end in zip(
            fleet.topics,
            fleet.topic_start[:-1].tolist(),
            fleet.topic_start[1:].tolist(),
            strict=True,
        ):
            topics[topic] = Topic(
                partitions=end - begin,
                replica_racks=self._racks[begin:end],
                lags=lag[begin:end].tolist(),
                rates=rates[begin:end].tolist(),
            )
        members = np.flatnonzero(self.live_members)
        known = self._known_speeds(lag, rates)
        return Group.build(
            topics,
            [self._member(member, known) for member in members.tolist()],
        ), members

    def _known_speeds(self, lag: Longs, rates: Floats) -> Floats:
        """Records per second (M) that a plan takes each member to read; NaN: no speed is known."""
        live, count = self.live_members, len(self._capacity)
        known = resolve_capacities(
            self._capacity,
            np.where(live, self._observation.speeds, np.nan),
            float(lag.sum()),
            float(rates.sum()),
            pace=sum_by_member(rates, self.owner, count),
            lag=sum_by_member(lag, self.owner, count),
        )
        return np.full(count, np.nan) if known.assumed else known.records_per_second

    def _member(self, number: int, known: Floats) -> Member:
        consumer = self._fleet.consumers[number]
        return Member(
            id=consumer.id,
            topics=consumer.topics,
            rack=consumer.rack,
            capacity=consumer.capacity,
            speed=None if np.isnan(known[number]) else float(known[number]),
            priority=consumer.priority,
            container=consumer.container,
            instance_id=consumer.instance_id,
            owned=by_topic(self._fleet.names(np.flatnonzero(self.owner == number))),
        )
