from levelwind.daemon.control.gain.cooldown import HOUR_SECONDS, CooldownState, ExpectedGain
from levelwind.daemon.control.settings import Cause, CooldownSettings

SETTINGS = CooldownSettings(duration=60, max_duration=200, moves_per_hour={Cause.SKEW: 10})
EXPECTED = ExpectedGain(before=3.0, after=1.0)


def planned(cooldown=None, now=0.0, moves=4, expected=EXPECTED):
    return (cooldown or CooldownState()).planned(Cause.SKEW, moves, expected, now, SETTINGS)


def test_a_group_that_was_never_planned_is_not_cooling():
    assert not CooldownState().active(Cause.SKEW, 0)


def test_a_plan_starts_the_cooldown():
    cooldown = planned()
    assert cooldown.active(Cause.SKEW, 59)
    assert not cooldown.active(Cause.SKEW, 60)


def test_a_plan_that_achieved_less_than_half_of_its_expected_gain_doubles_the_cooldown():
    cooldown = planned().evaluate(2.1, 60, SETTINGS)
    assert cooldown.active(Cause.SKEW, 119)
    assert not cooldown.active(Cause.SKEW, 120)


def test_a_plan_that_kept_half_of_its_promise_does_not():
    assert not planned().evaluate(2.0, 60, SETTINGS).active(Cause.SKEW, 60)


def test_the_doubling_ends_at_the_longest_cooldown():
    cooldown, now = planned(), 60.0
    for _ in range(5):
        cooldown = planned(cooldown.evaluate(9.0, now, SETTINGS), now)
        now = cooldown.until(Cause.SKEW)
    assert cooldown.pause(Cause.SKEW) == 200


def test_a_met_expectation_resets_the_cooldown():
    cooldown = planned(planned().evaluate(9.0, 60, SETTINGS), 120)
    assert cooldown.until(Cause.SKEW) == 240
    cooldown = planned(cooldown.evaluate(1.0, 240, SETTINGS), 240)
    assert cooldown.until(Cause.SKEW) == 300


def test_a_plan_for_another_cause_holds_back_no_skew():
    for cause in set(Cause) - {Cause.SKEW}:
        cooldown = CooldownState().planned(cause, 4, None, 0, SETTINGS)
        assert not cooldown.active(Cause.SKEW, 0)
        assert cooldown.active(cause, 59) is (cause is Cause.RACKS)


def test_a_plan_for_another_cause_leaves_the_cooldown_of_skew_as_it_is():
    cooldown = planned().planned(Cause.MEMBERSHIP, 4, None, 30, SETTINGS)
    assert cooldown.until(Cause.SKEW) == 60
    assert not cooldown.evaluation_due(60)  # the skew now is that of another plan


def test_a_promise_is_judged_once():
    evaluated = planned().evaluate(9.0, 60, SETTINGS)
    assert evaluated.evaluate(9.0, 120, SETTINGS) == evaluated


def test_moves_are_counted_against_the_budget_of_their_own_cause_for_an_hour():
    cooldown = planned(moves=8)
    assert cooldown.over_budget(Cause.SKEW, 3, 1, SETTINGS)
    assert not cooldown.over_budget(Cause.SKEW, 2, 1, SETTINGS)
    assert not cooldown.over_budget(Cause.RACKS, 3, 1, SETTINGS)
    assert not cooldown.over_budget(Cause.SKEW, 3, HOUR_SECONDS + 1, SETTINGS)
