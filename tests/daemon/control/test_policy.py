"""The planning policy, asked as the daemon and the simulation ask it."""

from dataclasses import replace

import pytest

from assignors.problem.score import Score
from daemon.control.policy import Objection, PolicyState, Situation
from daemon.control.settings import Cause, ControlSettings, CooldownSettings

SETTINGS = ControlSettings(settle=1.0, settle_max=5.0, min_gain=0.1)
QUIET = Situation(has_members=True, settled=True, raised=())


def score(skew=1.0, cross_rack=None):
    return Score(spread=0, cross_rack=cross_rack, moved=0, skew=skew)


def situation(**changes):
    return QUIET._replace(**changes)


def test_a_change_is_due_once_it_has_settled_or_lasted_too_long():
    policy = PolicyState().changed(Cause.MEMBERSHIP, 10)
    assert policy.due(QUIET, 10.9, SETTINGS) is None
    assert policy.due(QUIET, 11, SETTINGS) is Cause.MEMBERSHIP
    for now in range(11, 16):
        policy = policy.changed(Cause.MEMBERSHIP, now - 0.1)
    assert policy.due(QUIET, 15, SETTINGS) is Cause.MEMBERSHIP


@pytest.mark.parametrize(
    "changes", [{"has_members": False}, {"settled": False}, {"frozen": True}], ids=str
)
def test_a_trigger_waits_for_members_for_the_hand_over_and_for_a_group_that_is_not_frozen(changes):
    raised = situation(raised={Cause.SKEW})
    assert PolicyState().due(raised, 0, SETTINGS) is Cause.SKEW
    assert PolicyState().due(raised._replace(**changes), 0, SETTINGS) is None


def test_an_operators_request_waits_for_nothing_but_members():
    policy = PolicyState().changed(Cause.TOPICS, 0)
    asked = situation(requested=True, frozen=True, settled=False)
    assert policy.due(asked, 0, SETTINGS) is Cause.OPERATOR
    assert policy.due(asked._replace(has_members=False), 0, SETTINGS) is None


def test_racks_are_more_pressing_than_skew():
    raised = situation(raised={Cause.SKEW, Cause.RACKS})
    assert PolicyState().due(raised, 0, SETTINGS) is Cause.RACKS


def test_a_suppressed_trigger_is_due_again_later_or_when_it_is_raised_anew():
    raised = situation(raised={Cause.SKEW})
    objection = PolicyState().admit_plan(Cause.SKEW, score(2.0), score(1.9), 1, 100, SETTINGS)
    assert objection == (Objection.GAIN, 160)
    policy = PolicyState().suppress(Cause.SKEW, objection)
    assert policy.due(raised, 159, SETTINGS) is None
    assert policy.due(raised, 160, SETTINGS) is Cause.SKEW
    assert policy.reconsider(Cause.SKEW).due(raised, 101, SETTINGS) is Cause.SKEW


def test_moves_beyond_the_hourly_budget_are_refused():
    cooldown = CooldownSettings(moves_per_hour={Cause.SKEW: 3})
    settings = replace(SETTINGS, cooldown=cooldown)
    policy = PolicyState().planned(Cause.SKEW, score(3.0), score(1.0), 2, 0, settings)
    assert policy.admit_plan(Cause.SKEW, score(3.0), score(1.0), 1, 70, settings) is None
    refused = policy.admit_plan(Cause.SKEW, score(3.0), score(1.0), 2, 70, settings)
    assert refused == (Objection.BUDGET, 130)


def test_after_its_plan_a_trigger_is_not_admitted_before_the_cooldown_is_over():
    policy = PolicyState().planned(Cause.SKEW, score(), score(), 0, 100, SETTINGS)
    assert policy.admit(Cause.SKEW, 159.9) == (Objection.COOLDOWN, 160)
    assert policy.admit(Cause.SKEW, 160) is None
    assert policy.admit(Cause.RACKS, 101) is None
    assert policy.admit(Cause.MEMBERSHIP, 101) is None


@pytest.mark.parametrize("cause", [Cause.MEMBERSHIP, Cause.TOPICS, Cause.OPERATOR, Cause.RACKS])
def test_a_plan_for_another_cause_does_not_hold_back_a_skew(cause):
    policy = PolicyState().planned(cause, score(), score(), 0, 100, SETTINGS)
    assert policy.admit(Cause.SKEW, 100) is None


def test_only_a_plan_because_of_skew_has_an_expected_gain_that_is_evaluated():
    for cause, expected in ((Cause.SKEW, True), (Cause.RACKS, False), (Cause.MEMBERSHIP, False)):
        policy = PolicyState().planned(cause, score(3.0), score(1.0), 1, 0, SETTINGS)
        assert not policy.evaluation_due(59)
        assert policy.evaluation_due(60) is expected


def test_a_cause_whose_plan_failed_waits_for_a_cooldown():
    policy = PolicyState().changed(Cause.TOPICS, 0).failed(Cause.TOPICS, 10, SETTINGS)
    assert policy.due(QUIET, 70, SETTINGS) is None
    assert policy.due(QUIET, 71, SETTINGS) is Cause.TOPICS
