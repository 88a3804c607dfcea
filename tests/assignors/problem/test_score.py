import pytest
from hypothesis import given

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.registry import STRATEGIES
from levelwind_testing.groups.random_groups import problems


def naive(problem, names):
    """The score from the names, by the definitions."""
    owner = {(t, p): m for m, topics in names.items() for t, ps in topics.items() for p in ps}
    held = {
        (t, p): m
        for m, topics in Assignment.held(problem.group).to_names(problem.group).items()
        for t, ps in topics.items()
        for p in ps
    }
    reading = [member for member in problem.members if set(member.topics) & set(problem.topics)]
    counts = [sum(owner_id == member.id for owner_id in owner.values()) for member in reading]
    rack_of = {member.id: member.rack for member in problem.members}
    known = {
        partition: (problem.topics[partition[0]].replica_racks[partition[1]], rack_of[owner_id])
        for partition, owner_id in owner.items()
        if problem.topics[partition[0]].replica_racks and rack_of[owner_id]
    }
    known = {partition: pair for partition, pair in known.items() if pair[0]}
    capacity = dict(zip(problem.group.members, problem.group.capacity, strict=True))
    lag, rate = (
        {(t, p): (figures(problem.topics[t]) or [0] * 99)[p] for t, p in owner}
        for figures in (lambda topic: topic.lags, lambda topic: topic.rates)
    )
    spare = sum(capacity[member.id] for member in reading) - sum(rate.values())
    horizon = min(max(sum(lag.values()) / spare, 10.0), 3600.0) if spare > 0 else 3600.0
    loads, busy = (
        [
            sum(figure[partition] for partition in owner if owner[partition] == member.id)
            / capacity[member.id]
            for member in reading
        ]
        for figure in ({key: lag[key] + rate[key] * horizon for key in lag}, rate)
    )
    return {
        "spread": max(counts, default=0) - min(counts, default=0),
        "cross_rack": sum(rack not in racks for racks, rack in known.values()) / len(known)
        if known
        else None,
        "moved": sum(owner.get(partition) != member for partition, member in held.items()),
        "skew": max(loads) / (sum(loads) / len(loads)) if sum(loads) else None,
        "drain_seconds": max(loads) if sum(loads) else None,
        "wait_seconds": sum(
            load / 2 * load * capacity[member.id]
            for load, member in zip(loads, reading, strict=True)
        )
        / sum(load * capacity[member.id] for load, member in zip(loads, reading, strict=True))
        if sum(loads)
        else None,
        "utilisation": max(busy) if sum(busy) else None,
    }


@pytest.mark.slow
@given(problem=problems())
def test_the_figures_are_their_definitions(problem):
    group = problem.group
    for strategy in STRATEGIES.values():
        assignment = strategy(group)
        names = Assignment(assignment.target).to_names(group)
        got, expected = score(group, assignment).as_json(), naive(problem, names)
        assert got == pytest.approx(expected, abs=1e-6)


def test_kafka_5337s_example_in_figures():
    topics = {"t0": Topic(partitions=3, lags=[100_000, 60_000, 50_000])}
    group = Group.build(topics, [Member(id="C0", topics="*"), Member(id="C1", topics="*")])
    by_range = score(group, Assignment.from_names(group, {"C0": {"t0": [0, 1]}, "C1": {"t0": [2]}}))
    by_lag = score(group, Assignment.from_names(group, {"C0": {"t0": [0]}, "C1": {"t0": [1, 2]}}))
    assert by_range.skew == pytest.approx(160 / 105, abs=1e-6)
    assert by_lag.skew == pytest.approx(110 / 105, abs=1e-6)


def test_what_cannot_be_measured_is_none():
    group = Group.build({"t": Topic(partitions=1)}, [Member(id="m", topics="*")])
    assert score(group, Assignment.from_names(group, {"m": {"t": [0]}})).as_json() == {
        "spread": 0,
        "cross_rack": None,
        "moved": 0,
        "skew": None,
        "drain_seconds": None,
        "wait_seconds": None,
        "utilisation": None,
    }


def test_what_nobody_owns_yet_counts_in_the_groups_horizon_and_for_no_member():
    topics = {"t": Topic(partitions=2, lags=[6_000, 6_000], rates=[50.0, 50.0])}
    members = [Member(id=name, topics="*", speed=200.0) for name in "ab"]
    group = Group.build(topics, members)
    worth = score(group, Assignment.from_names(group, {"a": {"t": [0]}}))
    # 12,000 records over 300 a second to spare; member a: (6,000 + 50 * 40) / 200.
    assert worth.drain.horizon == worth.drain.best == worth.drain_seconds == 40.0
    assert (worth.skew, worth.utilisation, worth.drain.assumed) == (2.0, 0.25, False)
