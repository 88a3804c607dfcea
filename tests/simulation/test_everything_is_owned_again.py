"""Every partition is owned again within the promised time after the last fault, whatever it was.

`World.run` ends with that check. Each test here is a list of faults that once left partitions
without an owner.
"""

import pytest

from levelwind_testing.simulation.faults import Fault
from levelwind_testing.simulation.world import World, WorldSettings

pytestmark = pytest.mark.slow

FOUR = WorldSettings(
    groups={"g": ("t",)}, instances={"g": ("a", "b", "c", "d")}, topics={"t": 4}, machines=3
)
TWO = WorldSettings(groups={"g": ("t",)}, instances={"g": ("a", "b")}, topics={"t": 4}, machines=3)
ALONE = WorldSettings(groups={"g": ("t",)}, instances={"g": ("a",)}, topics={"t": 4})


def run(settings, *faults, seed=1):
    World(seed, settings, sorted(faults, key=lambda fault: fault.at)).run()


def restarts(apart):
    return (
        Fault(at=30.0, kind="planner killed", seconds=0.5),
        Fault(at=30.0 + apart, kind="kill", target="a", seconds=0.3),
    )


@pytest.mark.parametrize("first", [-40, -20, 0, 20])
def test_the_daemon_and_one_consumer_restart_together(first):
    for number in range(first, first + 20, 4):
        run(FOUR, *restarts(number * 0.05))


@pytest.mark.parametrize("first", range(-80, 160, 20))
def test_the_daemon_and_one_consumer_restart_at_every_50_ms_of_each_other(first):
    for number in range(first, first + 20):
        run(FOUR, *restarts(number * 0.05), seed=number)


@pytest.mark.parametrize("seconds", [3.0, 30.0, 90.0])
def test_a_contested_name_alone_in_its_group(seconds):
    run(ALONE, Fault(at=20.0, kind="twin", target="a", seconds=seconds))


def test_a_contested_name_whose_processes_both_end():
    run(
        FOUR,
        Fault(at=20.0, kind="twin", target="a", seconds=20.0),
        Fault(at=43.5, kind="leave", target="a"),
    )


def test_a_member_of_a_new_name_that_dies_every_20_seconds_for_ten_minutes():
    new = tuple(f"n{number:02}" for number in range(30))
    settings = WorldSettings(
        groups={"g": ("t",)},
        instances={"g": ("a", "b", *new)},
        outside=frozenset(new),
        topics={"t": 4},
    )
    faults = []
    for number, name in enumerate(new):
        faults.append(Fault(at=20.0 + 20.0 * number, kind="join", target=name))
        faults.append(Fault(at=27.0 + 20.0 * number, kind="kill", target=name))
    run(settings, *faults)


@pytest.mark.parametrize("at", [20.0, 33.3, 47.7])
@pytest.mark.parametrize("away", [0.5, 15.0, 60.0])
def test_our_topics_are_deleted_under_live_members(at, away):
    run(FOUR, Fault(at=at, kind="own topics anew", seconds=away))


@pytest.mark.parametrize("settings", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize("first", [0, 10, 20, 30])
def test_our_topics_are_deleted_at_any_time_between_two_heartbeats(first, settings):
    for number in range(first, first + 10):
        away = (0.05, 0.1, 0.5, 2.0)[number % 4]
        fault = Fault(at=30.0 + number * 0.1, kind="own topics anew", seconds=away)
        run(settings, fault, seed=number)


def test_our_topics_are_deleted_under_a_member_that_owned_nothing():
    settings = WorldSettings(
        groups={"g": ("t",)}, instances={"g": ("a", "b", "c")}, topics={"t": 2}, machines=3
    )
    run(
        settings,
        Fault(at=30.0, kind="own topics anew", seconds=2.0),
        Fault(at=60.0, kind="kill", target="a"),
    )


@pytest.mark.parametrize("at", [56.6, 57.0, 57.4])
def test_an_outage_falls_into_a_take_over(at):
    """No answer to the question for the topics' ends: the daemon asks again."""
    run(
        TWO,
        Fault(at=30.0, kind="planner killed", seconds=20.0),
        Fault(at=at, kind="outage", seconds=24.0, amount=1.0),
    )


@pytest.mark.parametrize(("at", "seed"), [(18.0, 3), (20.2, 12), (22.0, 7)])
def test_a_member_that_leaves_with_a_late_commit_under_way(at, seed):
    """A transaction begins when the last one has ended: no commit puts an offset back."""
    settings = WorldSettings(
        groups={"g": ("t",)},
        instances={"g": ("a", "b")},
        topics={"t": 4},
        machines=3,
        broker_fenced=frozenset({"g"}),
    )
    run(
        settings,
        Fault(at=13.0, kind="late commits", target="a", seconds=3.0),
        Fault(at=at, kind="leave", target="a"),
        seed=seed,
    )


@pytest.mark.parametrize("at", [72.0, 72.25, 72.5])
def test_a_planner_dies_before_the_markers_of_its_grants(at):
    """The next one reads what they belong to: the brokers make nobody the planner before."""
    run(
        TWO,
        Fault(at=20.0, kind="kill", target="a", seconds=56.0),
        Fault(at=60.0, kind="late markers", seconds=20.0, amount=12.0),
        Fault(at=at, kind="planner killed", seconds=0.1),
        seed=2,
    )


@pytest.mark.parametrize("at", [40.0, 48.0, 56.0])
def test_a_leader_that_cannot_read_stands_by_and_takes_over_again(at):
    """What it reads late is a part of the fault until it arrives."""
    run(
        TWO,
        Fault(at=40.0, kind="planner's lagging reader", seconds=24.0, amount=18.0),
        Fault(at=at, kind="kill", target="a"),
        seed=2,
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("lasts", [10.0, 15.0, 20.0])
def test_a_take_over_over_a_slow_link(lasts, seed):
    """A client has one request to become the planner under way: it does not fence itself."""
    run(
        TWO,
        Fault(at=14.0 + lasts, kind="kill", target="a"),
        Fault(at=30.0, kind="planner killed", seconds=1.0),
        Fault(at=34.0, kind="planner's slow link", seconds=lasts, amount=9.0),
        seed=seed,
    )


def test_a_transaction_over_a_slow_link():
    """The next transaction begins when the last one has ended: the brokers give up no planner."""
    run(
        TWO,
        Fault(at=29.0, kind="kill", target="a"),
        Fault(at=40.0, kind="planner's slow link", seconds=40.0, amount=9.0),
        seed=2,
    )


@pytest.mark.parametrize("seconds", [95.5, 96.75, 97.5])
def test_a_bar_ends_when_everything_must_be_owned(seconds):
    """The plan that follows hands partitions over, as any plan does."""
    run(
        TWO,
        Fault(at=20.0, kind="kill", target="b", seconds=20.0),
        Fault(at=40.7, kind="deposed leader", target="b", seconds=seconds),
    )
