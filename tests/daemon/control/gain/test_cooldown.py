from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.daemon.control.gain.cooldown import (
    HOUR_SECONDS,
    REPEATED_PAUSES,
    CooldownState,
    ExpectedGain,
)
from levelwind.daemon.control.settings import Cause, CooldownSettings
from levelwind_testing.examples import examples

SETTINGS = CooldownSettings(duration=60, max_duration=200, moves_per_hour={Cause.SKEW: 10})
EXPECTED = ExpectedGain(before=3.0, after=1.0)


def partitions(*numbers):
    return frozenset(("t", number) for number in numbers)


FOUR = partitions(0, 1, 2, 3)


def planned(cooldown=None, now=0.0, moved=FOUR, expected=EXPECTED):
    return (cooldown or CooldownState()).planned(Cause.SKEW, moved, expected, now, SETTINGS)


def failed(cooldown):
    """The same cooldown at its end, when the plan has achieved nothing."""
    return cooldown.evaluate(9.0, SETTINGS)


def planned_in_turn(*moved):
    """Plans that achieve nothing, each at the end of the cooldown of the one before."""
    cooldown, now = None, 0.0
    for numbers in moved:
        cooldown = failed(planned(cooldown, now, partitions(*numbers)))
        now = cooldown.until(Cause.SKEW)
    return cooldown


def test_a_group_that_was_never_planned_is_not_cooling():
    assert not CooldownState().active(Cause.SKEW, 0)


def test_a_plan_starts_the_cooldown():
    cooldown = planned()
    assert cooldown.active(Cause.SKEW, 59)
    assert not cooldown.active(Cause.SKEW, 60)


def test_a_plan_that_achieved_too_little_is_followed_at_once():
    cooldown = planned().evaluate(2.1, SETTINGS)
    assert not cooldown.active(Cause.SKEW, 60)
    assert planned(cooldown, 60, partitions(7, 8)).until(Cause.SKEW) == 120


def test_the_plan_that_mends_it_may_move_the_same_partitions_and_waits_for_nothing():
    cooldown = failed(planned())
    assert not cooldown.active(Cause.SKEW, 60)
    assert planned(cooldown, 60).evaluate(1.0, SETTINGS).pause(Cause.SKEW) == 60


def test_plans_that_move_the_same_partitions_to_and_fro_wait_for_twice_as_long_each_time():
    assert planned_in_turn([0, 1]).pause(Cause.SKEW) == 60
    assert planned_in_turn([0, 1], [0, 1]).pause(Cause.SKEW) == 120
    assert planned_in_turn([0, 1], [0, 2]).pause(Cause.SKEW) == 120
    assert planned_in_turn([0, 1], [0, 2, 3]).pause(Cause.SKEW) == 60


def test_plans_that_undo_each_other_in_turns_are_found_as_well():
    assert planned_in_turn([0], [1], [0], [1]).pause(Cause.SKEW) == 200


def test_the_doubling_ends_at_the_longest_cooldown():
    assert planned_in_turn(*[[0]] * 6).pause(Cause.SKEW) == 200


def test_plans_that_move_others_each_time_never_wait_for_longer():
    assert planned_in_turn(*[[n] for n in range(9)]).pause(Cause.SKEW) == 60


def test_a_plan_of_other_partitions_ends_the_doubling():
    assert planned_in_turn([0], [0], [0], [1]).pause(Cause.SKEW) == 60


def test_a_plan_long_after_the_last_one_repeats_nothing():
    late = planned(failed(planned()), REPEATED_PAUSES * 60 + 1)
    assert late.pause(Cause.SKEW) == 60


def test_a_met_expectation_resets_the_cooldown():
    cooldown = planned(failed(planned()), 60)
    assert cooldown.until(Cause.SKEW) == 180
    cooldown = planned(cooldown.evaluate(2.0, SETTINGS), 180)
    assert cooldown.until(Cause.SKEW) == 240


def test_after_a_restart_the_first_plan_keeps_the_pause_of_the_last():
    cooldown = planned_in_turn([0], [0])
    restarted = planned(replace(cooldown, tried=None), 180, partitions(0))
    assert restarted.pause(Cause.SKEW) == 120
    assert planned(failed(restarted), 300, partitions(0)).pause(Cause.SKEW) == 200


plans = st.lists(
    st.tuples(st.frozensets(st.integers(0, 5), max_size=4), st.floats(0, 200), st.booleans()),
    max_size=20,
)


@settings(max_examples=examples(200))
@given(plans)
def test_the_pause_grows_only_where_plans_repeat_each_other_without_gain(course):
    cooldown, now, pause, unmet = CooldownState(), 0.0, 60.0, []
    for numbers, wait, met in course:
        now = max(now, cooldown.until(Cause.SKEW)) + wait
        since = now - REPEATED_PAUSES * pause
        again = {n for at, moved in unmet if at >= since for n in moved} & numbers
        repeats = bool(again) and 2 * len(again) >= len(numbers)
        pause = min(2 * pause, 200.0) if repeats else 60.0
        cooldown = planned(cooldown, now, partitions(*numbers))
        assert cooldown.until(Cause.SKEW) == now + pause
        unmet.append((now, numbers))
        cooldown = cooldown.evaluate(1.0 if met else 9.0, SETTINGS)
        assert not cooldown.active(Cause.SKEW, now + pause)  # no verdict makes a plan wait
        if met:
            pause, unmet = 60.0, []


def test_a_plan_for_another_cause_holds_back_no_skew():
    for cause in set(Cause) - {Cause.SKEW}:
        cooldown = CooldownState().planned(cause, partitions(1), None, 0, SETTINGS)
        assert not cooldown.active(Cause.SKEW, 0)
        assert cooldown.active(cause, 59) is (cause is Cause.RACKS)


def test_a_plan_for_another_cause_leaves_the_cooldown_of_skew_as_it_is():
    cooldown = planned().planned(Cause.MEMBERSHIP, partitions(1), None, 30, SETTINGS)
    assert cooldown.until(Cause.SKEW) == 60
    assert not cooldown.evaluation_due(60)  # the skew now is that of another plan


def test_a_promise_is_judged_once():
    evaluated = planned().evaluate(9.0, SETTINGS)
    assert evaluated.evaluate(9.0, SETTINGS) == evaluated


def test_moves_are_counted_against_the_budget_of_their_own_cause_for_an_hour():
    cooldown = planned(moved=partitions(*range(8)))
    assert cooldown.over_budget(Cause.SKEW, 3, 1, SETTINGS)
    assert not cooldown.over_budget(Cause.SKEW, 2, 1, SETTINGS)
    assert not cooldown.over_budget(Cause.RACKS, 3, 1, SETTINGS)
    assert not cooldown.over_budget(Cause.SKEW, 3, HOUR_SECONDS + 1, SETTINGS)
