"""A group stated as a problem, and the options that a strategy gets with it."""

from types import MappingProxyType

import pytest

from levelwind.daemon.control.planning import build_problem, compute_plan
from levelwind.daemon.control.settings import Cause, PlanSettings
from levelwind_testing.records import lag, member, topic

NOTHING = MappingProxyType({})


@pytest.mark.parametrize(
    ("sizes", "traffic"),
    [
        ({}, [1, 1, 1, 1, 1, 1]),
        # Few or unknown arrivals count as one record a second.
        ({"*": 100}, [200, 100, 100, 100, 100, 100]),
        ({"t": 50, "*": 10}, [100, 50, 50, 10, 10, 10]),
        # A topic without a size has records of the usual size.
        ({"u": 50}, [2000, 1000, 1000, 50, 50, 1000]),
    ],
)
def test_what_crosses_racks_weighs_what_arrives_times_the_size_of_records(sizes, traffic):
    topics = {name: topic(name, ((),) * count) for name, count in (("t", 3), ("u", 2), ("v", 1))}
    lags = {"t": lag(0, 0, topic="t", rate=(2.0, 0.25)), "u": lag(0, 0, topic="u")}
    group = build_problem({"m": member("m", topics=("t", "u", "v"))}, topics, lags, NOTHING, sizes)
    assert group.traffic.tolist() == traffic


TWO = {"a": member("a", rack="x"), "b": member("b", rack="y")}


def moved(planning, racks, lags, owners):
    places = {("t", number): owner for number, owner in enumerate(owners)}
    layout = {"t": topic("t", racks)}
    plan = compute_plan(planning, TWO, layout, {"t": lags}, places, cause=Cause.OPERATOR)
    return len(plan.moved)


@pytest.mark.parametrize(("more", "moves"), [(1.04, 0), (1.06, 2)])
def test_arrivals_that_drift_a_little_are_no_reason_to_move(more, moves):
    # Two of four must cross, and do; another pair would cost a little less.
    racks = (("x",),) * 4
    arrivals = lag(0, 0, 0, 0, topic="t", rate=(100.0 * more, 100.0 * more, 100.0, 100.0))
    weighed = PlanSettings(strategy="optimal", record_bytes={"*": 1.0}, options={"horizon": 0})
    assert moved(weighed, racks, arrivals, "bbaa") == 2 * moves
    counted = PlanSettings(strategy="optimal", options={"horizon": 0})
    assert moved(counted, racks, arrivals, "bbaa") == 0
    strict = PlanSettings(
        strategy="optimal", record_bytes={"*": 1.0}, options={"horizon": 0, "cross_tolerance": 0}
    )
    assert moved(strict, racks, arrivals, "bbaa") == 4


@pytest.mark.parametrize(("options", "moves"), [({}, 0), ({"load_floor": 0}, 1)])
def test_lag_that_is_soon_caught_up_with_is_no_reason_to_move_unless_a_group_says_so(
    options, moves
):
    lags = lag(4, 3, 0, 0, topic="t")
    planning = PlanSettings(strategy="optimal", options=options)
    assert moved(planning, ((),) * 4, lags, "aabb") == moves
    assert moved(planning, ((),) * 4, lag(5000, 4000, 0, 0, topic="t"), "aabb") == 1


def test_the_hand_over_alone_withholds_partitions():
    # The ledger grants a partition only after its owner gave it up; a plan that withholds it for a
    # round, for which no other plan comes, would leave it without an owner.
    owners = {("t", number): "a" for number in range(4)}
    plan = compute_plan(
        PlanSettings(strategy="cooperative-sticky"),
        TWO,
        {"t": topic("t", ((),) * 4)},
        {"t": lag(0, 0, 0, 0, topic="t")},
        owners,
        cause=Cause.MEMBERSHIP,
    )
    assert {name: len(share) for name, share in plan.target.items()} == {"a": 2, "b": 2}
    assert len(plan.moved) == 2


@pytest.mark.parametrize(
    ("cause", "speeds", "arrivals"),
    [
        # The lag looks like as much as the arrivals of ten seconds, and is levelled.
        (Cause.OPERATOR, {}, [260.0, 340.0]),
        (Cause.SKEW, {}, [300.0, 300.0]),
        (Cause.SKEW, {"a": 600.0, "b": 600.0}, [260.0, 340.0]),
    ],
)
def test_while_no_speed_is_known_a_plan_for_skew_levels_the_arrivals(cause, speeds, arrivals):
    # What has arrived since the last commits looks like lag: here that of the first two.
    sample = lag(400, 400, 0, 0, 0, topic="t", rate=(130.0, 130.0, 140.0, 160.0, 40.0))
    owners = {("t", number): owner for number, owner in enumerate("aaaab")}
    plan = compute_plan(
        PlanSettings(strategy="optimal", options={"load_floor": 0}),
        TWO,
        {"t": topic("t", ((),) * 5)},
        {"t": sample},
        owners,
        speeds,
        cause=cause,
    )
    rates = [sum(sample.rate[number] for _, number in share) for share in plan.target.values()]
    assert sorted(rates) == arrivals
