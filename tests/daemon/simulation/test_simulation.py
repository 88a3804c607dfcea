"""Days of a simulated fleet, some of them reckoned by hand."""

import dataclasses
import json
import re

import numpy as np
import pytest

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.registry import STRATEGIES
from levelwind.daemon.control.settings import Cause, ControlSettings, CooldownSettings
from levelwind.daemon.simulation import engine as simulation
from levelwind.daemon.simulation.engine import BLOCK_TICKS, PlayRules, simulate
from levelwind.daemon.simulation.fleet import Consumer, Fleet, Joined, Left, Moved, Slowed, World
from levelwind.daemon.simulation.scenario import SCENARIOS, Size, generate_world
from levelwind.daemon.simulation.strategy.candidates import candidate
from levelwind.daemon.simulation.strategy.group_control import Rules
from levelwind.daemon.simulation.strategy.strategy_run import HandOver, StrategyRun
from levelwind.daemon.simulation.traffic import RecentArrivals
from levelwind.streaming.rules.skew import SkewRule

RULES = Rules(control=ControlSettings(), skew=SkewRule(), dead_after=15.0, grant=36.0)
COURSE = PlayRules(rules=RULES)
SMALL = Size(partitions=20, members=4, hours=0.25)


class Steady:
    def __init__(self, *records):
        self.records = np.array(records, np.int64)

    def block(self, _first, ticks):
        return np.tile(self.records, (ticks, 1))


class Later:
    """At first one, from some tick on the other."""

    def __init__(self, first, tick, then):
        self.first, self.tick, self.then = first, tick, then

    def block(self, first, ticks):
        assert first == 0
        return np.concatenate(
            [self.first.block(0, self.tick), self.then.block(0, ticks - self.tick)]
        )


def world(partitions, consumers, arrivals, *, ticks, events=(), speed=1.0, **fleet):
    topics = {"t": partitions}
    return World(
        name="by hand",
        fleet=Fleet.build(topics=topics, consumers=consumers, speed=speed, **fleet),
        arrivals=arrivals,
        events=tuple(events),
        ticks=ticks,
        tick=5.0,
    )


def consumer(name, **more):
    return Consumer(id=name, topics="*", **more)


def played(a_world, strategy="sticky", *, hand_over=HandOver(), rules=RULES, target=10.0):  # noqa: B008 - frozen
    """Play tick by tick: the run after each, and what was read of each partition."""
    run = StrategyRun(a_world, candidate(strategy).plan, rules, hand_over, target)
    recent = RecentArrivals(a_world.fleet.partitions, a_world.tick, 60.0)
    done = []
    for number, records in enumerate(a_world.arrivals.block(0, a_world.ticks)):
        recent.arrive(records)
        done.append(run.tick(number, records, recent).tolist())
    return run, done


def test_a_tiny_day_number_by_number():
    # Two consumers of 1 record/s (5 a tick); partition 0 of A gets 8 a tick, partition 1 of B 2.
    tiny = world(
        2,
        [consumer("A", rack="a"), consumer("B", rack="b")],
        Steady(8, 2),
        ticks=4,
        racks={"t": [["b"], ["b"]]},
        owned={"A": {"t": [0]}, "B": {"t": [1]}},
        record_bytes={"t": 10.0},
    )
    (row,) = simulate(tiny, ["sticky"], dataclasses.replace(COURSE, target=10.0))
    assert row.course.tolist() == [3, 6, 9, 12]
    assert (row.arrived, row.processed, row.left) == (40, 28, 12)
    assert row.lag == {"p50": 9, "p99": 12, "max": 12}
    assert row.drain == {"p50": 9, "p99": 12, "max": 12}
    assert row.wait == round((3 + 6 + 9 + 12) * 5 / 28, 6)
    assert row.cross_bytes == 20 * 10
    assert row.cross_share == round(20 / 28, 8)
    # 16 arrive in 10 s: what is left after the last tick, 12, is all younger.
    assert (row.above, row.group_above) == (0, 0)
    assert (row.moves, row.plans) == (0, {})
    (short,) = simulate(tiny, ["sticky"], dataclasses.replace(COURSE, target=5.0))
    assert (short.above, short.group_above) == (
        2 / 8,
        2 / 4,
    )  # 9 and 12 are more than the 8 of the last 5 s


def test_who_leaves_is_planned_for_once_it_has_settled_and_what_it_had_rests_for_the_pause():
    leaving = world(
        2,
        [consumer("A"), consumer("B")],
        Steady(1, 1),
        ticks=8,
        events=[Left(at=5.0, member=1)],
        owned={"A": {"t": [0]}, "B": {"t": [1]}},
    )
    run, done = played(leaving)
    # B leaves in tick 1, the plan is made in tick 2, and for 5 s nobody reads the moved partitions;
    # then A reads all three.
    assert [of_b for _, of_b in done] == [1, 0, 0, 3, 1, 1, 1, 1]
    assert run.tally.moves == 1
    assert run.tally.plans == {Cause.MEMBERSHIP: 1}


def test_a_silent_member_is_missed_later_and_its_partitions_are_barred_while_it_might_read():
    silent = world(
        2,
        [consumer("A"), consumer("B")],
        Steady(1, 1),
        ticks=16,
        events=[Left(at=5.0, member=1, announced=False)],
        owned={"A": {"t": [0]}, "B": {"t": [1]}},
    )
    run, done = played(silent)
    # Silent from 5 s, missed at 20 s, granted 36 s later: the first tick from 56 s on is the 12th.
    assert [number for number, (_, of_b) in enumerate(done) if of_b] == [0, 12, 13, 14, 15]
    assert run.tally.moves == 1


def test_who_comes_back_before_it_was_missed_goes_on_without_a_plan():
    back = world(
        2,
        [consumer("A"), consumer("B")],
        Steady(1, 1),
        ticks=6,
        events=[Left(at=5.0, member=1, announced=False), Joined(at=10.0, member=1)],
        owned={"A": {"t": [0]}, "B": {"t": [1]}},
    )
    run, done = played(back)
    assert [of_b for _, of_b in done] == [1, 0, 2, 1, 1, 1]
    assert run.tally.plans == {}


def test_who_comes_back_before_its_partitions_are_free_goes_on_without_a_plan():
    back = world(
        2,
        [consumer("A"), consumer("B")],
        Steady(1, 1),
        ticks=16,
        events=[Left(at=5.0, member=1, announced=False), Joined(at=50.0, member=1)],
        owned={"A": {"t": [0]}, "B": {"t": [1]}},
    )
    run, done = played(back)
    assert [number for number, (_, of_b) in enumerate(done) if of_b] == [0, *range(10, 16)]
    assert run.tally.plans == {}


A_OWNS = {"A": {"t": [0]}}


def silent_death(then, *, first_announced=False):
    """A ends at 50 s; then what else happens. Times from which partition 0 is read, by owner."""
    three = world(
        3,
        [consumer("A"), consumer("B"), consumer("C")],
        Steady(1, 1, 1),
        ticks=80,
        events=[Left(at=50.0, member=0, announced=first_announced), *then],
        owned={"A": {"t": [0]}, "B": {"t": [1]}, "C": {"t": [2]}},
    )
    run = StrategyRun(three, candidate("sticky").plan, RULES, HandOver(pause=20.0), 10.0)
    recent = RecentArrivals(3, 5.0, 60.0)
    begins = []
    for number, records in enumerate(three.arrivals.block(0, three.ticks)):
        former = run.owner.copy()
        recent.arrive(records)
        run.tick(number, records, recent)
        if (run.owner != former).any():
            begins.append(("ABC"[run.owner[0]], number * 5.0, float(run.free_at[0])))
    return begins


def test_an_old_silent_death_spares_no_later_hand_over_its_pause():
    # Dead at 65 s, barred for 36 s more; B, which took over, leaves in order much later.
    later = [Left(at=300.0, member=1)]
    assert silent_death(later)[-1] == ("C", 305.0, 325.0)
    assert silent_death(later, first_announced=True)[-1] == ("C", 305.0, 325.0)


def test_who_is_back_from_a_silent_death_hands_over_with_a_pause():
    # A is back before its partition was given away, and leaves in order while it would be barred.
    back = [Joined(at=70.0, member=0), Left(at=75.0, member=0)]
    assert silent_death(back) == [("B", 80.0, 100.0)]


def joining(ticks=6):
    return world(
        4,
        [consumer("A"), consumer("B")],
        Steady(1, 1, 1, 1),
        ticks=ticks,
        events=[Joined(at=5.0, member=1)],
        absent=frozenset({"B"}),
        owned={"A": {"t": [0, 1, 2, 3]}},
    )


def test_only_what_moves_is_paused_unless_the_hand_over_is_eager():
    _, gradual = played(joining())
    _, eager = played(joining(), hand_over=HandOver(eager=True))
    assert [sum(of > 0 for of in tick) for tick in gradual] == [4, 4, 2, 4, 4, 4]
    assert [sum(of > 0 for of in tick) for tick in eager] == [4, 4, 0, 4, 4, 4]


def test_classic_rebalances_stop_the_group_for_eager_strategies_alone():
    classic = dataclasses.replace(COURSE, classic=True)
    rows = simulate(joining(), ["range", "uniform"], classic)
    gradual = simulate(joining(), ["range", "uniform"], COURSE)
    assert rows[0].wait > gradual[0].wait
    assert rows[1].wait == gradual[1].wait


def test_a_consumer_that_slows_down_reads_less_and_nobody_is_told():
    slow = world(
        1, [consumer("A")], Steady(5), ticks=4, events=[Slowed(at=10.0, member=0, factor=0.4)]
    )
    run, done = played(slow)
    assert done == [[5], [5], [2], [2]]
    assert run.lag.tolist() == [6]


@pytest.mark.parametrize(
    ("speed", "processed"),
    [
        (0.0667, 33),  # 0.33 records a tick
        (0.1, 50),
        (0.12, 60),  # 0.6 records a tick
        (0.3, 150),
        (1.0, 500),
    ],
)
def test_a_consumer_reads_at_its_speed_however_slow_it_is(speed, processed):
    behind = world(
        1, [consumer("A")], Steady(0), ticks=100, speed=speed, backlog={"t": [1_000]}, owned=A_OWNS
    )
    run, done = played(behind)
    assert run.tally.processed == processed
    evenly = [int((n + 1) * speed * 5 + 1e-6) - int(n * speed * 5 + 1e-6) for n in range(100)]
    assert done == [[records] for records in evenly]


def test_a_consumer_that_is_away_saves_no_part_of_a_record():
    # 0.5 records a tick; the second half of a record is the time of another life.
    away = world(
        1,
        [consumer("A")],
        Steady(0),
        ticks=6,
        speed=0.1,
        backlog={"t": [9]},
        events=[Left(at=5.0, member=0, announced=False), Joined(at=10.0, member=0)],
        owned=A_OWNS,
    )
    _, done = played(away)
    assert done == [[0], [0], [0], [1], [0], [1]]


def test_racks_that_change_are_planned_for_and_unknown_ones_count_nowhere():
    moved = world(
        2,
        [consumer("A", rack="a"), consumer("B", rack="b")],
        Steady(1, 1),
        ticks=40,
        events=[Moved(at=100.0, racks={0: ("b",), 1: ("a",)})],
        racks={"t": [["a"], ["b"]]},
    )
    run, _ = played(moved)
    assert run.tally.plans == {Cause.RACKS: 1}
    assert run.tally.moves == 2
    unknown = dataclasses.replace(
        moved, fleet=dataclasses.replace(moved.fleet, racks=((), ())), events=()
    )
    (row,) = simulate(unknown, ["sticky"], COURSE)
    assert row.cross_share is None


def skewed(ticks=60):
    return world(
        4,
        [consumer("A"), consumer("B")],
        Later(Steady(10, 10, 10, 10), 2, Steady(2_500, 2_500, 10, 10)),
        ticks=ticks,
        speed=800.0,
        owned={"A": {"t": [0, 1]}, "B": {"t": [2, 3]}},
    )


def test_skew_that_stands_for_long_enough_is_planned_for_and_the_cool_down_holds():
    run, done = played(skewed(), "optimal")
    assert run.tally.plans == {Cause.SKEW: 1}
    # A gets 5,000 a tick from tick 2 on and reads 4,000, so by tick 3 records have waited for a
    # tick of five seconds, and the skew has stood for as long. The plan of that tick gives one of
    # A's two partitions to B, and it pauses for that.
    resting = [number for number, tick in enumerate(done) if 0 in tick]
    assert resting == [3]
    assert run.tally.moves == 1
    assert run.lag.sum() == 0


def test_a_budget_without_moves_keeps_a_skewed_group_as_it_is():
    control = ControlSettings(cooldown=CooldownSettings(moves_per_hour={Cause.SKEW: 0}))
    run, _ = played(skewed(), "optimal", rules=dataclasses.replace(RULES, control=control))
    assert run.tally.plans == {}
    assert run.control.suppressed > 0
    assert run.lag.sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["optimal", "lag"])
def test_even_input_for_a_day_makes_no_skew_plan_at_all(strategy):
    even = generate_world("steady", Size(partitions=30, members=7, rate=2_000.0, tick=10.0), seed=1)
    (row,) = simulate(even, [strategy], COURSE)
    assert len(row.course) == 8_640
    assert row.plans == {}
    assert row.moves == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "steady"])
def test_whatever_happens_nobody_reads_more_than_it_can_nor_what_is_paused_nor_another_ones(name):
    day = generate_world(name, dataclasses.replace(SMALL, hours=1.0, rate=500.0), seed=3)
    run = StrategyRun(day, candidate("lag-global").plan, RULES, HandOver(), 60.0)
    recent = RecentArrivals(day.fleet.partitions, day.tick, 60.0)
    arrived = 0
    most, done_by_member = np.zeros(SMALL.members), np.zeros(SMALL.members)
    for number, records in enumerate(day.arrivals.block(0, day.ticks)):
        recent.arrive(records)
        done = run.tick(number, records, recent)
        arrived += int(records.sum())
        assert arrived == run.tally.processed + run.lag.sum()
        assert (run.lag >= 0).all()
        assert (done[run.free_at > number * day.tick] == 0).all()
        assert (done[~np.append(run.running_members, False)[run.owner]] == 0).all()
        by_member = np.bincount(
            run.owner[run.owner >= 0], done[run.owner >= 0], len(run.running_members)
        )
        most += run._capacity * run._factor * day.fleet.speed * day.tick
        done_by_member += by_member
        assert (done_by_member <= most + 1e-6).all()


@pytest.mark.slow
def test_all_strategies_meet_the_same_records_and_the_day_is_the_same_each_time():
    rows, again = (
        simulate(generate_world("day", SMALL, seed=5), list(STRATEGIES), COURSE) for _ in range(2)
    )
    assert len({row.arrived for row in rows}) == 1
    error = [
        json.dumps([{**row.as_json(), "timing": None} for row in each]) for each in (rows, again)
    ]
    assert error[0] == error[1]
    assert [row.course.tolist() for row in rows] == [row.course.tolist() for row in again]
    alone = simulate(generate_world("day", SMALL, seed=5), ["lag"], COURSE)[0]
    assert {**alone.as_json(), "timing": None} == {
        **rows[list(STRATEGIES).index("lag")].as_json(),
        "timing": None,
    }
    other = simulate(generate_world("day", SMALL, seed=6), ["lag"], COURSE)[0]
    assert other.arrived != alone.arrived


def test_records_that_were_lost_are_a_bug_and_no_figure(monkeypatch):
    monkeypatch.setattr(StrategyRun, "tick", lambda *_: None)
    with pytest.raises((RuntimeError, ValueError)):
        simulate(joining(), ["range"], COURSE)


def test_a_strategy_competes_with_options_of_its_own_under_the_name_it_was_asked_for_by():
    # Half of what arrives goes to one partition; with uneven counts B may own the other three.
    uneven = world(4, [consumer("A"), consumer("B")], Steady(60, 20, 20, 20), ticks=6, speed=15.0)
    for name, counts in (("optimal:counts=even", [2, 2]), ("optimal:load_floor=0", [1, 3])):
        run, _ = played(uneven, name)
        assert sorted(np.bincount(run.owner).tolist()) == counts
    rows = simulate(uneven, ["optimal", "optimal:counts=even"], COURSE)
    assert [row.strategy for row in rows] == ["optimal", "optimal:counts=even"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("optmal", "the nearest is 'optimal'"),
        ("range:count_slack=1", "'count_slack' is not an option of range; its options: none"),
        ("optimal:count_slak=1", "'count_slak' is not an option of optimal"),
        ("optimal:count_slack", "'count_slack' is not an option"),
        (
            "optimal:count_slack=much",
            "option count_slack: must be an integer from 0 to 1000000000000000, not 'much'",
        ),
    ],
)
def test_a_contender_that_is_none_is_refused_by_what_is_wrong_with_it(text, error):
    with pytest.raises(ProblemError, match=re.escape(error)):
        candidate(text)


def test_optimal_plans_here_as_in_the_daemon_and_leaves_little_lag_where_it_is():
    def group(lag):
        topics = {"t": Topic(partitions=4, lags=[lag, lag, 0, 0])}
        return Group.build(
            topics,
            [
                Member(id="A", topics="*", owned={"t": [0, 1]}),
                Member(id="B", topics="*", owned={"t": [2, 3]}),
            ],
        )

    plan = candidate("optimal").plan
    assert plan(group(3), Cause.OPERATOR).owner.tolist() == [0, 0, 1, 1]
    assert plan(group(4000), Cause.OPERATOR).owner.tolist() != [0, 0, 1, 1]


def test_progress_is_told_block_by_block():
    announced = []
    long = world(1, [consumer("A")], Steady(1), ticks=BLOCK_TICKS + 5)
    simulation.simulate(long, ["range"], COURSE, progress=announced.append)
    assert announced == [BLOCK_TICKS / (BLOCK_TICKS + 5), 1.0]


def test_a_burst_is_no_rate_at_which_more_will_arrive():
    recent = RecentArrivals(2, 1.0, 60.0)
    for _ in range(30):
        recent.arrive(np.array([10, 10]))
    recent.arrive(np.array([9_000, 10]))
    for _ in range(10):
        recent.arrive(np.array([10, 10]))
    burst, even = recent.rates()
    assert even == pytest.approx(10, abs=0.1)
    assert burst < 15  # the mean of these seconds is 229
