"""Plan of a group: the problem is built, a strategy solves it, and the solution is scored. Pure.

A plan names members by instance: a consumer that restarts keeps its partitions under a new
incarnation.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.drain import SHORTEST_HORIZON_SECONDS
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.problem.score import load_figures, score
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.registry import certified_strategy
from levelwind.daemon.control.gain.waiting import WaitingFigures, waiting_figures
from levelwind.daemon.control.plan_inputs import PlanInputs
from levelwind.daemon.control.policy import HANDOVER_SECONDS, Proposal
from levelwind.daemon.control.settings import EVERY, Cause

NEGLIGIBLE_LOAD_SECONDS = 0.7 * SHORTEST_HORIZON_SECONDS
"""Load of a member in seconds that justifies neither crossing racks nor a move: it needs at most
0.7 of its capacity for its arrivals, or drains a small backlog at once."""

MOVE_COST_SECONDS = 4 * HANDOVER_SECONDS
"""Seconds of load that a move has to save once loads are near their limits (`PRICED_SHARE`): four
times as long as nobody reads the partition in a usual hand-over. What a plan saves lasts until the
arrivals change; at one hand-over's time, arrivals that change every two minutes had a third more
moves, and records waited longer (docs/measurements.md)."""

LEAST_ASSUMED_HORIZON_SECONDS = 60.0
"""Least seconds of arrivals that count in a plan because of skew while no member's speed is known:
a guessed time to drain is often so short that what members have yet to commit would outweigh what
arrives."""

IDLE_RATE = 1.0
"""Minimum arrival rate assumed per partition, in records a second, so that idle partitions also
prefer a local rack."""

LIVE_CROSS_TOLERANCE = 0.05
"""Share by which more than the least traffic may cross racks where arrivals weigh, since arrivals
never stand still."""

USUAL_RECORD_BYTES = 1_000.0
"""Bytes of a record in topics without a set size, where other topics have one."""

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.optimal import Certificate, ClockCuts
    from levelwind.assignors.problem.score import Score
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import LagRecord, MemberRecord, TopicRecord
    from levelwind.daemon.control.members.live_member import Profile
    from levelwind.daemon.control.settings import PlanSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedPlan:
    """A target for a group, and its score."""

    strategy: str
    """The name of the strategy that computed the plan."""
    target: Mapping[str, frozenset[TopicPartition]]
    """The partitions of each instance."""
    before: Score
    """The score of the assignment in force."""
    after: Score
    """The score of the target."""
    moved: tuple[TopicPartition, ...]
    """The partitions that are taken from another member, sorted."""
    waiting: WaitingFigures
    """Waiting under the assignment in force and under the target."""
    inputs: PlanInputs
    """What the strategy saw."""
    certificate: Certificate | None = None
    """Proven bounds of the plan's quality; None: the strategy gives none."""

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """The instance that each partition is for."""
        return {partition: name for name, share in self.target.items() for partition in share}

    @property
    def proposal(self) -> Proposal:
        """What the plan would change."""
        return Proposal(
            before=self.before,
            after=self.after,
            waiting=self.waiting,
            moved=frozenset(self.moved),
        )


def compute_plan(
    planning: PlanSettings,
    members: Mapping[str, MemberRecord | Profile],
    topics: Mapping[str, TopicRecord],
    lags: Mapping[str, LagRecord],
    owners: Mapping[TopicPartition, str],
    speeds: Mapping[str, float] = MappingProxyType({}),
    *,
    cause: Cause,
    pause: float = HANDOVER_SECONDS,
    target: Mapping[str, Mapping[str, list[int]]] | None = None,
) -> ComputedPlan:
    """Compute a plan for a group.

    Args:
        planning: the strategy, a name of `STRATEGIES`, and its options.
        members: the live members, or those of a watched group, by instance.
        topics: the layouts of the members' topics; a topic without one is left out of the plan.
        lags: the group's lag by topic; a topic without a record counts as having none.
        owners: the instance that owns each partition now; owners that are no longer members are
            left out.
        speeds: learned records per second of the members, by instance.
        cause: cause of the plan.
        pause: seconds that a hand-over of the group takes.
        target: the partitions of each instance by topic, as an operator gives them; None: the
            strategy computes them.

    Raises:
        ProblemError: the given target does not fit the group.
        RuntimeError: the strategy's solution breaks an invariant: a bug, and nothing may be
            published.
    """
    known_topics, known_members = _inputs(
        members, topics, lags, owners, planning.record_bytes, speeds
    )
    group = Group.build(known_topics, known_members)
    inputs = PlanInputs(
        topics=known_topics,
        members=tuple(known_members),
        strategy=planning.strategy,
        options={**horizon_of(cause, group), **options_of(planning)},
        pause=pause,
        target=target,
    )
    return solved(inputs, group, owners)


def solved(
    inputs: PlanInputs,
    group: Group,
    owners: Mapping[TopicPartition, str],
    *,
    clock_cuts: ClockCuts | None = None,
) -> ComputedPlan:
    """Solve a problem, or take the assignment that its inputs give, and score the plan.

    Args:
        inputs: the problem, and how it is solved.
        group: the same problem in columns.
        owners: the instance that owns each partition now.
        clock_cuts: where the clock cut an earlier search, to repeat it; empty: the strategy may
            take any time for the work that it is allowed. None: the clock cuts.

    Raises:
        ProblemError: the given assignment names a member, topic or partition that is not there, or
            breaks an invariant.
        RuntimeError: the strategy's solution breaks an invariant.
    """
    certificate: Certificate | None = None
    if inputs.target is None:
        solve = certified_strategy(inputs.strategy, inputs.options, clock_cuts=clock_cuts)
        answer, certificate = solve(group)
    else:
        answer = Assignment.from_names(group, inputs.target)
    if broken := violations(group, answer):
        reason = f"{broken[0]} (and {len(broken) - 1} more)"
        if inputs.target is not None:
            raise ProblemError(f"the assignment does not fit the group: {reason}")
        raise RuntimeError(f"strategy {inputs.strategy} broke an invariant: {reason}")
    held = Assignment.held(group)
    # What a strategy withholds for a round is planned too: the hand-over does the waiting.
    target = {
        member: frozenset(
            (topic, number) for topic, numbers in held_topics.items() for number in numbers
        )
        for member, held_topics in Assignment(answer.target).to_names(group).items()
    }
    moved = sorted(
        partition
        for member, share in target.items()
        for partition in share
        if owners.get(partition, member) != member
    )
    return ComputedPlan(
        strategy=inputs.strategy,
        target=target,
        before=score(group, held),
        after=score(group, answer),
        moved=tuple(moved),
        waiting=waiting_figures(
            group.lag, group.rate, held.owner, answer.target, group.capacity, pause=inputs.pause
        ),
        inputs=inputs,
        certificate=certificate,
    )


def options_of(planning: PlanSettings) -> dict[str, Any]:
    """Return the options of the strategy: those that are set, else defaults for a live group."""
    drift = {"cross_tolerance": LIVE_CROSS_TOLERANCE} if planning.record_bytes else {}
    usual = {"load_floor": NEGLIGIBLE_LOAD_SECONDS, "move_cost": MOVE_COST_SECONDS}
    return {**usual, **drift, **planning.options}


def horizon_of(cause: Cause, group: Group) -> dict[str, float]:
    """Return the option that sets the horizon of a plan; none where its own time to drain counts.

    Skew of a group whose members' speeds are unknown shows that records wait, and nothing else may
    do so again until a member is at its limit: so the arrivals are levelled at once.
    """
    if cause is not Cause.SKEW or not group.assumed:
        return {}
    own = load_figures(group, Assignment.held(group).owner).horizon
    return {"horizon": max(own, LEAST_ASSUMED_HORIZON_SECONDS)}


def build_problem(
    members: Mapping[str, MemberRecord | Profile],
    topics: Mapping[str, TopicRecord],
    lags: Mapping[str, LagRecord],
    owners: Mapping[TopicPartition, str],
    record_bytes: Mapping[str, float] = MappingProxyType({}),
    speeds: Mapping[str, float] = MappingProxyType({}),
) -> Group:
    """State the group as a problem.

    Racks come from the metadata, lag, arrivals and speeds from the pipeline, ownership from the
    ledger.
    """
    return Group.build(*_inputs(members, topics, lags, owners, record_bytes, speeds))


def _inputs(
    members: Mapping[str, MemberRecord | Profile],
    topics: Mapping[str, TopicRecord],
    lags: Mapping[str, LagRecord],
    owners: Mapping[TopicPartition, str],
    record_bytes: Mapping[str, float],
    speeds: Mapping[str, float],
) -> tuple[dict[str, Topic], list[Member]]:
    """Topics and members of the problem."""
    read = {topic for member in members.values() for topic in member.topics}
    problem = {
        name: Topic(
            partitions=record.partitions,
            replica_racks=record.racks,
            lags=_lags(lags.get(name), record.partitions),
            rates=_rates(lags.get(name), record.partitions),
            bytes=_traffic(name, lags.get(name), record.partitions, record_bytes),
        )
        for name, record in topics.items()
        if name in read
    }
    owned: dict[str, dict[str, list[int]]] = {instance: {} for instance in members}
    for (topic, number), instance in owners.items():
        if instance in owned and topic in problem:
            owned[instance].setdefault(topic, []).append(number)
    return (
        problem,
        [
            Member(
                id=instance,
                topics=[topic for topic in record.topics if topic in problem],
                rack=record.rack,
                priority=record.priority,
                capacity=record.capacity,
                speed=speeds.get(instance),
                owned=owned[instance],
            )
            for instance, record in members.items()
        ],
    )


def _lags(record: LagRecord | None, partitions: int) -> list[int] | None:
    """Records that the plan's group has to read by partition; None without a sample."""
    if record is None:
        return None
    # A topic that has grown since the sample has no lag yet in its new partitions.
    return [*record.to_read[:partitions], *([0] * (partitions - len(record.lag)))]


def _rates(record: LagRecord | None, partitions: int) -> list[float] | None:
    """Records that arrive a second by partition; None where no rate is known."""
    if record is None or record.rate is None:
        return None
    rates = [rate or 0.0 for rate in record.rate[:partitions]]
    return [*rates, *([0.0] * (partitions - len(rates)))]


def _traffic(
    topic: str, record: LagRecord | None, partitions: int, record_bytes: Mapping[str, float]
) -> list[float] | None:
    """Bytes that arrive a second by partition; None: partitions are counted."""
    if not record_bytes:
        return None
    size = record_bytes.get(topic, record_bytes.get(EVERY, USUAL_RECORD_BYTES))
    return [
        size * max(rate, IDLE_RATE) for rate in _rates(record, partitions) or [0.0] * partitions
    ]
