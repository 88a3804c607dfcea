"""Storms: more plans are due at once than one step may make."""

import pytest
from msgspec.structs import replace

from levelwind.daemon.control.state.plan_backlog import PlanBudget
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import lag, member, racks_trigger, request, topic

TWO = PlanBudget(plans=2, every=0.5)


def settled(groups, budget=None, **more):
    """As many groups of one member, each of which owns its partitions."""
    play = begun(topic(racks=(("a",), ("b",))), **more)
    play.join(*(member(f"m{n:02}", group=f"g{n:02}", rack="a") for n in range(groups)))
    play.wait(6)
    assert len(play.plans) == groups
    play.events.clear()
    play.budget = budget
    return play


def planned(play):
    """The groups that were planned, in their order, by the time of the plan."""
    return [plan["group"] for plan in play.plans]


def change_all(play, groups):
    """Make a plan of every group due at once: another member joins each of them."""
    for number in groups:
        play.receive("members", member("other", group=f"g{number:02}", rack="b"))


@pytest.mark.parametrize("groups", [2, 12])
def test_a_step_makes_no_more_plans_than_its_budget_and_the_others_follow(groups):
    play = settled(groups, TWO)
    change_all(play, range(groups))
    counts = []
    while len(play.plans) < groups and len(counts) < 40:
        before = len(play.plans)
        play.wait(0.5)
        counts.append(len(play.plans) - before)
    made = [count for count in counts if count]
    assert made == [2] * (groups // 2)
    assert sorted(planned(play)) == [f"g{number:02}" for number in range(groups)]
    assert not play.state.backlog.waiting


def test_the_delay_is_told_once_and_its_end_too():
    play = settled(12, TWO)
    change_all(play, range(12))
    play.wait(8)
    assert play.logged("planning.delayed") == [{"waiting": 10, "seconds": 2.5}]
    assert play.logged("planning.caught_up") == [{"plans": 12 - 2, "seconds": 2.5}]


def test_a_delay_that_is_over_soon_is_not_told():
    play = settled(4, TWO)
    change_all(play, range(4))
    play.wait(8)
    assert len(play.plans) == 4
    assert not play.logged("planning.delayed")
    assert not play.logged("planning.caught_up")


def test_groups_with_unowned_partitions_come_first_then_those_with_most_behind():
    play = settled(8, PlanBudget(plans=1, every=0.5))
    at = round(play.now * 1000)
    for number in range(8):
        name = f"g{number:02}"
        play.receive("lag", lag(10 * number, 0, group=name, at=at))
    change_all(play, range(8))
    play.leave("m07", "i1")  # its partitions have no owner
    play.wait(8)
    order = planned(play)
    assert order[0] == "g07"
    by_wait = order[3::4]
    by_need = [name for place, name in enumerate(order) if place and place % 4 != 3]
    assert by_need == sorted(by_need, reverse=True)
    assert by_wait[0] == "g00", "every fourth plan goes to the group that has waited longest"


def test_members_are_evicted_and_hand_overs_go_on_while_others_wait():
    play = settled(30, PlanBudget(plans=1, every=0.5))
    silent = member("s0", group="h")
    play.join(silent)
    play.wait(6)
    play.unresponsive.add(("s0", "i1"))
    begun = play.now
    play.wait(TIMERS.dead_after - 4)
    change_all(play, range(30))
    play.wait(8)
    assert len(play.state.backlog) > 5
    (gone,) = [entry for entry in play.logged("member.evicted") if entry["group"] == "h"]
    assert gone["instance"] == "s0"
    assert play.now - begun < TIMERS.dead_after + 6


def test_a_record_plans_nothing_ahead_of_the_groups_that_wait():
    play = settled(6, PlanBudget(plans=1, every=0.5))
    change_all(play, range(6))
    play.wait(2)
    waiting = set(play.state.backlog.waiting)
    assert len(waiting) > 2
    before = len(play.plans)
    play.receive("control", request(max(waiting)))
    assert len(play.plans) == before


def test_a_group_whose_cause_is_gone_waits_no_more():
    play = settled(6, PlanBudget(plans=1, every=0.5))
    change_all(play, range(6))
    play.wait(1)
    name = max(play.state.backlog.waiting)
    play.receive("members", member("other", group=name, rack="b", state="left"))
    play.wait(8)
    assert name not in play.state.backlog
    assert not play.state.backlog.waiting


def test_a_trigger_that_is_served_late_is_served_all_the_same():
    play = settled(5, PlanBudget(plans=1, every=0.5))
    play.receive("metadata", topic(racks=(("b",), ("a",))))
    for number in range(5):
        play.receive("triggers", replace(racks_trigger(), group=f"g{number:02}"))
    play.wait(4)
    outcomes = play.logged("plan.confirmed") + play.plans
    assert sorted(entry["group"] for entry in outcomes) == [f"g{n:02}" for n in range(5)]
