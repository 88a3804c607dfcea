import pytest

from levelwind.assignors.optimal import explain, optimal_strategy
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic


def two_racks():
    topics = {
        "t": Topic(
            partitions=4, lags=[100, 40, 30, 20], replica_racks=[["a"], ["b"], ["b"], ["a"]]
        ),
    }
    members = [
        Member(id="A", topics="*", rack="a", owned={"t": [0, 3]}, generation=1, speed=1.0),
        Member(id="B", topics="*", rack="b", owned={"t": [1, 2]}, generation=1, speed=1.0),
    ]
    group = Group.build(topics, members)
    return group, optimal_strategy(group, counts="even")


def test_the_next_best_place_is_told_with_what_it_costs_in_each_objective():
    group, plan = two_racks()
    explanation = explain(group, plan, "t", 0, counts="even")
    assert explanation.owner == "A"
    assert explanation.reasons == (
        "this member owned it before",
        "a replica is in the member's rack",
    )
    (alternative,) = explanation.alternatives
    assert (alternative.member, alternative.exchange, alternative.uneven, alternative.load) == (
        "B",
        "t-1",
        0,
        10,
    )
    assert (alternative.cross_rack, alternative.moves) == (0.5, 2)
    assert explanation.lines() == (
        "t-0 is owned by A: this member owned it before; a replica is in the member's rack",
        "the next best alternatives would cost:",
        (
            "  B, in exchange for t-1: +10.0 s on the largest load, +50.00% across racks,"
            " +3.2 s on the mean wait, +2 moves"
        ),
    )
    assert explanation.as_json()["alternatives"][0]["cross_rack"] == 0.5


def test_alone_it_would_make_counts_uneven_and_that_comes_last():
    topics = {"t": Topic(partitions=3, lags=[5, 0, 0]), "u": Topic(partitions=1)}
    members = [Member(id="A", topics=["t", "u"]), Member(id="B", topics=["t"])]
    group = Group.build(topics, members)
    plan = optimal_strategy(group)
    only = explain(group, plan, "u", 0)
    assert only.owner == "A"
    assert "no other member may own it" in only.reasons
    assert only.alternatives == ()
    assert all(alternative.uneven == 0 for alternative in explain(group, plan, "t", 1).alternatives)


def test_a_partition_that_nobody_reads_and_one_that_is_not_there():
    group = Group.build(
        {"t": Topic(partitions=1), "u": Topic(partitions=1)}, [Member(id="A", topics=["t"])]
    )
    plan = optimal_strategy(group)
    assert explain(group, plan, "u", 0).lines() == (
        "u-0 is owned by no member: no member reads it",
    )
    with pytest.raises(ProblemError, match="'t': has no partition 7"):
        explain(group, plan, "t", 7)
    with pytest.raises(ProblemError, match="'x': not in the group; it has t, u"):
        explain(group, plan, "x", 0)
