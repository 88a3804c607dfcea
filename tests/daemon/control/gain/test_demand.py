"""Demand of a group: what no plan can mend, found and logged once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import MemberSpeed, SpeedRecord
from levelwind.daemon.control.gain.demand import group_demand, learned_speeds, surely_moderate
from levelwind.daemon.control.gain.overload import DemandWatch
from levelwind_testing.control.play import begun
from levelwind_testing.records import lag, member, skew_trigger, topic

TWO = {"a": 1.0, "b": 1.0}
LEARNED = {"a": 300.0, "b": 100.0}


def speeds(**members):
    """A record of speeds; `members`: speed and sureness by instance."""
    return SpeedRecord(
        group="g",
        at=2000,
        members={name: MemberSpeed(speed=s, sure=sure) for name, (s, sure) in members.items()},
    )


def test_speeds_that_rest_on_one_measurement_count_only_where_no_other_is_surer():
    assert learned_speeds(None) == {}
    assert learned_speeds(speeds(a=(10.0, 0.5))) == {"a": 10.0}
    assert learned_speeds(speeds(a=(10.0, 0.5), b=(300.0, 0.67))) == {"b": 300.0}


def test_a_group_whose_arrivals_exceed_all_capacity_wants_more_members():
    demand = group_demand({"t": lag(500, 0, rate=(250.0, 250.0))}, TWO, LEARNED)
    assert (demand.arrivals, demand.capacity, demand.assumed) == (500, 400, False)
    assert demand.members_wanted == 4  # of 200 records/s, of which 160 are to be used
    assert demand.horizon == 3600


def test_an_assumed_capacity_is_no_evidence_of_overload():
    demand = group_demand({"t": lag(500, 0, rate=(250.0, None))}, TWO, {})
    assert demand.assumed
    assert demand.members_wanted is None


@pytest.mark.parametrize(
    ("behind", "rate", "seconds", "unsplittable"),
    [
        ((60_000, 0, 0), (0.0, 0.0, 0.0), 200.0, False),  # 150 s for both, 200 s for a
        ((60_000, 0, 0), (100.0, 0.0, 0.0), 300.0, False),  # 200 s for both
        ((60_000, 0, 0), (240.0, 0.0, 0.0), 1_000.0, True),  # 375 s for both
        ((60, 0, 0), (300.0, 0.0, 0.0), math.inf, True),
        ((1_000, 1_000, 1_000), (0.0, 0.0, 0.0), 1_000 / 300, False),
    ],
)
def test_a_partition_that_needs_a_member_for_clearly_longer_than_the_group_is_unsplittable(
    behind, rate, seconds, unsplittable
):
    demand = group_demand({"t": lag(*behind, rate=rate)}, TWO, LEARNED)
    assert demand.heaviest.seconds == pytest.approx(seconds)
    assert demand.unsplittable is unsplittable


def test_the_heaviest_partition_is_named_whichever_topic_it_is_in():
    lags = {"u": lag(1, 9, 3, topic="u"), "t": lag(5, 6), "v": lag(2, topic="v")}
    heaviest = group_demand(lags, TWO, LEARNED).heaviest
    assert (heaviest.topic, heaviest.number, heaviest.lag) == ("u", 1, 9)
    assert group_demand({}, TWO, LEARNED) is None
    assert group_demand(lags, {}, {}) is None


def test_an_overload_is_logged_once_it_lasts_and_again_after_it_ended():
    over = group_demand({"t": lag(9, 9, rate=(250.0, 250.0))}, TWO, LEARNED)
    less = group_demand({"t": lag(9, 9, rate=(195.0, 195.0))}, TWO, LEARNED)
    none = group_demand({"t": lag(9, 9, rate=(100.0, 100.0))}, TWO, LEARNED)
    watch, found = DemandWatch(), []
    for now, demand in enumerate([over, over, over, over, less, over, none, over, over, over]):
        watch, events = watch.checked("g", demand, 1000 * now, 5.0 * now)
        names = [event.event for event in events if event.event == "group.overloaded"]
        found.append((bool(names), watch.members_wanted))
    # `less` is not clearly below the capacity: the episode goes on.
    assert [now for now, (logged, _) in enumerate(found) if logged] == [2, 9]
    assert [wanted for _, wanted in found] == [None, None, 4, 4, 4, 4, None, None, None, 4]


def test_a_demand_is_looked_at_when_a_sample_is_newer_and_some_seconds_have_passed():
    watch, _ = DemandWatch().checked("g", None, 1000, 100.0)
    assert not DemandWatch().due(None, 0.0)
    assert not watch.due(1000, 200.0)
    assert not watch.due(2000, 104.0)
    assert watch.due(2000, 105.0)


def overloaded():
    """Two members of 300 and 100 records a second, and 500 that arrive."""
    play = begun(topic(), strategy="optimal")
    play.join(member("a"), member("b"))
    play.wait(3)
    play.receive("lag", speeds(a=(300.0, 0.9), b=(100.0, 0.9)))
    for _ in range(6):
        play.receive("lag", lag(900, 900, 900, 900, rate=(125.0,) * 4, at=round(play.now * 1000)))
        play.wait(5)
    return play


def test_a_group_that_cannot_drain_is_logged_with_the_members_that_it_wants():
    play = overloaded()
    assert play.logged("group.overloaded") == [
        {"group": "g", "arrivals": 500.0, "capacity": 400.0, "lag": 3600, "members_wanted": 4}
    ]
    assert play.state.groups["g"].demand.members_wanted == 4


def test_learned_speeds_are_planned_by_also_after_a_restart():
    play = overloaded()
    play.restart()
    assert learned_speeds(play.state.groups["g"].speeds) == LEARNED


def test_members_that_keep_pace_beside_slow_ones_get_more_and_the_group_is_not_overloaded():
    play = begun(topic(racks=((),) * 12), strategy="optimal")
    play.join(*(member(name) for name in "abc"))
    play.wait(3)
    play.receive("lag", speeds(a=(100.0, 0.9)))
    for _ in range(4):
        owned = set(ranges.parse(play.owned()["a"]))
        behind = (2_000 if number in owned else 0 for number in range(12))
        figures = lag(*behind, rate=(36.0,) * 12, at=round(play.now * 1000))
        play.receive("lag", figures)
        play.receive("triggers", skew_trigger(at=figures.at, since=figures.at))
        play.wait(5)
    assert play.logged("group.overloaded") == []
    shares = {name: len(list(ranges.parse(text))) for name, text in play.owned().items()}
    assert shares["a"] < min(shares["b"], shares["c"])


@given(
    st.lists(st.sampled_from((0, 10, 1_499, 1_500, 3_000, 10**6)), min_size=1, max_size=5),
    st.lists(st.sampled_from((None, 0.0, 1.0, 99.0, 250.0)), min_size=5, max_size=5),
    st.fixed_dictionaries(
        {}, optional={"a": st.sampled_from((1.0, 100.0, 300.0)), "b": st.just(90.0)}
    ),
)
def test_what_is_surely_moderate_is_neither_too_much_nor_too_heavy(behind, rates, learned):
    record = lag(*behind, rate=tuple(rates[: len(behind)]))
    if surely_moderate([record], TWO, learned):
        demand = group_demand({"t": record}, TWO, learned)
        assert demand.members_wanted is None
        assert not demand.unsplittable


def test_ordinary_demand_is_surely_moderate():
    assert surely_moderate([lag(60, 40, rate=(20.0, None))], TWO, LEARNED)
    assert surely_moderate([lag(60, 40)], TWO, {})
    assert surely_moderate([], TWO, LEARNED)
    assert not surely_moderate([lag(60_000, 40, rate=(20.0, 0.0))], TWO, LEARNED)
    assert not surely_moderate([lag(0, 0, rate=(250.0, 160.0))], TWO, LEARNED)
