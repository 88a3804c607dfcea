from daemon.control.cooldown import (
    HOUR,
    Promise,
    Restraint,
)
from daemon.control.settings import (
    Cause,
    RestraintSettings,
)

SETTINGS = RestraintSettings(cool_down=60, cool_down_max=200, moves_per_hour={Cause.SKEW: 10})
PROMISE = Promise(before=3.0, after=1.0)


def planned(restraint=None, now=0.0, moves=4, promise=PROMISE):
    return (restraint or Restraint()).planned(Cause.SKEW, moves, promise, now, SETTINGS)


def test_a_group_that_was_never_planned_is_not_cooling():
    assert not Restraint().cooling(0)


def test_a_plan_starts_the_cool_down():
    restraint = planned()
    assert restraint.cooling(59)
    assert not restraint.cooling(60)


def test_a_plan_that_brought_less_than_half_of_its_promise_doubles_the_cool_down_from_the_plan_on():
    restraint = planned().judged(2.1, 60, SETTINGS)
    assert restraint.cooling(119)
    assert not restraint.cooling(120)


def test_a_plan_that_kept_half_of_its_promise_does_not():
    assert not planned().judged(2.0, 60, SETTINGS).cooling(60)


def test_the_doubling_ends_at_the_longest_cool_down():
    restraint, now = planned(), 60.0
    for _ in range(5):
        restraint = planned(restraint.judged(9.0, now, SETTINGS), now)
        now = restraint.until
    assert restraint.pause == 200


def test_a_kept_promise_brings_the_cool_down_back():
    restraint = planned(planned().judged(9.0, 60, SETTINGS), 120)
    assert restraint.until == 240
    restraint = planned(restraint.judged(1.0, 240, SETTINGS), 240)
    assert restraint.until == 300


def test_a_promise_is_judged_once():
    judged = planned().judged(9.0, 60, SETTINGS)
    assert judged.judged(9.0, 120, SETTINGS) == judged


def test_moves_are_counted_against_the_budget_of_their_own_cause_for_an_hour():
    restraint = planned(moves=8)
    assert restraint.over_budget(Cause.SKEW, 3, 1, SETTINGS)
    assert not restraint.over_budget(Cause.SKEW, 2, 1, SETTINGS)
    assert not restraint.over_budget(Cause.RACKS, 3, 1, SETTINGS)
    assert not restraint.over_budget(Cause.SKEW, 3, HOUR + 1, SETTINGS)
