"""Transcripts of restarts: a daemon that starts keeps to the cooldown and budgets of the last."""

from dataclasses import replace

import pytest
from msgspec import structs

from levelwind.assignors.protocol.records import GroupRecord
from levelwind.daemon.control.settings import Cause, CooldownSettings
from levelwind_testing.control.play import SETTINGS, begun
from levelwind_testing.records import lag, member, skew_trigger, topic

DAY_SECONDS = 86_400
COOLDOWN = CooldownSettings(duration=60.0, max_duration=240.0)


def started(cooldown=COOLDOWN):
    """A group of two members, planned 200 s ago."""
    play = begun(topic(), now=10.0 * DAY_SECONDS, settings=replace(SETTINGS, cooldown=cooldown))
    play.join(member("m0"), member("m1"))
    play.wait(200)
    return play


def skew(play, *numbers):
    """Put all lag on these partitions, and raise the trigger."""
    behind = [50_000 if number in numbers else 0 for number in range(4)]
    play.receive("lag", lag(*behind, at=round(play.now * 1000)))
    play.receive("triggers", skew_trigger(at=round(play.now * 1000), since=round(play.now * 1000)))


def skew_of_one_member(play):
    held = play.members["m0", "i1"].owned["t"]
    skew(play, *held)


def test_four_restarts_with_a_skew_that_stays_bring_no_more_plans_than_the_cooldown_allows():
    play = started()
    for _ in range(4):
        skew_of_one_member(play)
        play.wait(5)
        play.restart()
        play.wait(5)
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew"]
    play.wait(2 * COOLDOWN.duration)  # the plan achieved nothing
    assert [plan["cause"] for plan in play.plans] == ["membership", "skew", "skew"]


@pytest.mark.slow
def test_the_budget_of_an_hour_is_kept_over_restarts():
    play = started(replace(COOLDOWN, duration=1.0, moves_per_hour={Cause.SKEW: 4}))
    for _ in range(6):
        skew_of_one_member(play)
        play.wait(5)
        play.restart()
        play.wait(5)
    moved = [plan["moved"] for plan in play.plans if plan["cause"] == "skew"]
    assert 0 < sum(moved) <= 4
    play.wait(3700)
    skew_of_one_member(play)
    play.wait(5)
    assert sum(plan["moved"] for plan in play.plans if plan["cause"] == "skew") > sum(moved)


def test_a_pause_that_doubled_is_as_long_after_a_restart():
    play = started()
    skew_of_one_member(play)
    play.wait(5)
    skew_of_one_member(play)  # the plan achieved nothing, and the next one undoes it
    play.wait(60)
    assert play.logged("plan.evaluated")[-1]["met"] is False
    assert play.state.groups["g"].policy.cooldown.pause(Cause.SKEW) == 120
    play.restart()
    skew_of_one_member(play)
    play.wait(100)
    assert [plan["cause"] for plan in play.plans].count("skew") == 2
    assert len(play.logged("plan.evaluated")) == 1  # not once more
    play.wait(40)
    assert [plan["cause"] for plan in play.plans].count("skew") == 3


def test_a_gain_that_was_expected_is_evaluated_after_a_restart():
    play = started()
    skew_of_one_member(play)
    play.wait(5)
    play.restart()
    skew_of_one_member(play)
    play.wait(70)
    assert [verdict["met"] for verdict in play.logged("plan.evaluated")] == [False]


def test_a_plan_for_changed_members_holds_back_no_skew_after_a_restart():
    play = started()
    play.join(member("m2"))
    play.wait(5)
    play.restart()
    skew_of_one_member(play)
    play.wait(5)
    assert [plan["cause"] for plan in play.plans] == ["membership", "membership", "skew"]


def test_the_one_cooldown_that_an_older_daemon_wrote_holds_back_every_trigger():
    play = started()
    skew_of_one_member(play)
    play.wait(5)
    play.stop()
    records = [
        (kind, structs.replace(record, cooldown=structs.replace(record.cooldown, causes=None)))
        if isinstance(record, GroupRecord)
        else (kind, record)
        for kind, record in play.written
    ]
    play.written[:] = records
    play.restart()
    causes = play.state.groups["g"].policy.cooldown.causes
    assert set(causes) == {Cause.RACKS, Cause.SKEW}
    assert all(50 < own.until - play.now < 60 for own in causes.values())


@pytest.mark.parametrize("days", [-9, 9])
def test_a_wall_clock_that_was_set_freezes_planning_for_no_longer_than_the_cooldown(days):
    play = started()
    skew_of_one_member(play)
    play.wait(5)
    play.stop()
    play.now += days * DAY_SECONDS  # the daemon's monotonic clock starts anew, too
    play.restart()
    skew_of_one_member(play)
    play.wait(2 * COOLDOWN.duration + 3)  # the plan achieved nothing
    assert [plan["cause"] for plan in play.plans].count("skew") == 2


def test_the_moves_of_an_hour_are_written_by_minute_and_cause():
    play = started(replace(COOLDOWN, duration=0.0, moves_per_hour={Cause.SKEW: 1000}))
    for _ in range(12):
        skew_of_one_member(play)
        play.wait(10)
    plan = [record for record in play.log if isinstance(record, GroupRecord)][-1]
    assert len(play.plans) > 6
    assert len(plan.cooldown.spent) <= 3
    assert sum(spent.moves for spent in plan.cooldown.spent) == sum(
        plan["moved"] for plan in play.plans
    )


def test_the_length_of_hand_overs_that_was_learned_is_kept_over_a_restart():
    play = started(replace(COOLDOWN, duration=1.0))
    for _ in range(2):  # the second plan's record says what was learned from the first hand-over
        skew_of_one_member(play)
        play.wait(20)
    plans = [record for record in play.log if isinstance(record, GroupRecord)]
    learned = [record.cooldown.handover_ms for record in plans]
    assert learned[0] == 1000
    assert learned[-1] < 1000  # these members hand over at once
    play.restart()
    assert play.state.groups["g"].policy.handover == learned[-1] / 1000
