"""The planning policy, asked as the daemon and the simulation ask it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from msgspec import structs

from levelwind.assignors.problem.score import Score
from levelwind.daemon.control.gain.waiting import WaitingFigures
from levelwind.daemon.control.policy import Change, Objection, PolicyState, Proposal, Situation
from levelwind.daemon.control.settings import Cause, ControlSettings, CooldownSettings

COOLDOWN = CooldownSettings(duration=60.0, max_duration=1800.0)
SETTINGS = ControlSettings(settle=1.0, settle_max=5.0, min_gain=0.1, cooldown=COOLDOWN)
QUIET = Situation(has_members=True, settled=True, raised=())


def score(load=1.0, cross_rack=None):
    return Score(spread=0, cross_rack=cross_rack, moved=0, skew=load, drain_seconds=load)


def proposal(before=3.0, after=1.0, moves=1, *, saved=1_000.0, cost=100.0):
    """A plan; `before` and `after`: the largest load in seconds."""
    waiting = WaitingFigures(
        present=10_000.0, planned=10_000.0 - saved, cost=cost, horizon=60.0, pause=1.0
    )
    moved = frozenset(("t", number) for number in range(moves))
    return Proposal(before=score(before), after=score(after), waiting=waiting, moved=moved)


def replace_changes(policy, cause, change):
    return structs.replace(policy, changes={**policy.changes, cause: change})


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


@pytest.mark.parametrize("cause", [Cause.TOPICS, Cause.OPERATOR, None], ids=str)
def test_nothing_is_planned_while_members_come(cause):
    policy = PolicyState() if cause is None else PolicyState().changed(cause, 0)
    asked = situation(requested=cause is None)
    for now in range(4):
        policy = policy.changed(Cause.MEMBERSHIP, now + 8.5)
        assert policy.due(asked, now + 9, SETTINGS) is None
    due = cause or Cause.OPERATOR
    assert policy.due(asked, 12.5, SETTINGS) is due
    # Members that come on and on are not waited for, nor is a change of them that was put off.
    assert policy.changed(Cause.MEMBERSHIP, 13.4).due(asked, 13.5, SETTINGS) is due
    put_off = replace_changes(policy, Cause.MEMBERSHIP, Change(20, 20))
    assert put_off.due(asked, 12, SETTINGS) is due


def test_racks_are_more_pressing_than_skew():
    raised = situation(raised={Cause.SKEW, Cause.RACKS})
    assert PolicyState().due(raised, 0, SETTINGS) is Cause.RACKS


def test_a_suppressed_trigger_is_due_again_later_or_when_it_is_raised_anew():
    raised = situation(raised={Cause.SKEW})
    little = proposal(2.0, 1.9, saved=900.0)
    objection = PolicyState().admit_plan(Cause.SKEW, little, 100, SETTINGS)
    assert objection == (Objection.GAIN, 160, 60)
    policy = PolicyState().suppress(Cause.SKEW, objection)
    assert policy.due(raised, 159, SETTINGS) is None
    assert policy.due(raised, 160, SETTINGS) is Cause.SKEW
    assert policy.reconsider(Cause.SKEW).due(raised, 101, SETTINGS) is Cause.SKEW


def test_a_plan_for_skew_must_save_twice_the_waiting_that_its_hand_over_costs():
    for cost, refused in ((499, None), (501, Objection.COST)):
        dear = proposal(saved=1_000.0, cost=cost)
        objection = PolicyState().admit_plan(Cause.SKEW, dear, 0, SETTINGS)
        assert (objection and objection.objection) is refused
    racks = structs.replace(dear, before=score(cross_rack=0.5), after=score(cross_rack=0.0))
    assert PolicyState().admit_plan(Cause.RACKS, racks, 0, SETTINGS) is None
    assert PolicyState().admit_plan(Cause.MEMBERSHIP, dear, 0, SETTINGS) is None


def test_a_plan_that_lowers_the_waiting_is_worth_as_much_as_one_that_lowers_the_load():
    hot = proposal(10.0, 9.9, saved=5_000.0, cost=0.0)  # a hot partition, and others beside it
    assert PolicyState().admit_plan(Cause.SKEW, hot, 0, SETTINGS) is None


def test_a_trigger_whose_plans_gain_too_little_is_considered_less_and_less_often():
    settings = replace(SETTINGS, cooldown=CooldownSettings(duration=10.0))
    policy, now, pauses = PolicyState(), 0.0, []
    for _ in range(5):
        objection = policy.admit_plan(Cause.SKEW, proposal(2.0, 1.9, saved=1.0), now, settings)
        policy, now = policy.suppress(Cause.SKEW, objection), objection.until
        pauses.append(objection.pause)
    assert pauses == [10, 20, 40, 60, 60]


def test_the_length_of_hand_overs_is_learned_from_those_of_better_plans():
    policy = PolicyState()
    for _ in range(20):
        policy = policy.handed_over(Cause.SKEW, 5.0)
    assert policy.handover == pytest.approx(5.0, abs=0.01)
    assert policy.handed_over(Cause.MEMBERSHIP, 40.0) == policy
    assert policy.handed_over(Cause.RACKS, 10_000.0).handover < 22  # a member that hung
    assert policy.planned(Cause.SKEW, proposal(), 0, SETTINGS).handover == policy.handover


def test_moves_beyond_the_hourly_budget_are_refused():
    cooldown = CooldownSettings(duration=60.0, moves_per_hour={Cause.SKEW: 3})
    settings = replace(SETTINGS, cooldown=cooldown)
    policy = PolicyState().planned(Cause.SKEW, proposal(moves=2), 0, settings)
    assert policy.admit_plan(Cause.SKEW, proposal(moves=1), 70, settings) is None
    refused = policy.admit_plan(Cause.SKEW, proposal(moves=2), 70, settings)
    assert refused == (Objection.BUDGET, 130, 60)


def test_after_its_plan_a_trigger_is_not_admitted_before_the_cooldown_is_over():
    policy = PolicyState().planned(Cause.SKEW, proposal(), 100, SETTINGS)
    assert policy.admit(Cause.SKEW, 159.9) == (Objection.COOLDOWN, 160, 0)
    assert policy.admit(Cause.SKEW, 160) is None
    assert policy.admit(Cause.RACKS, 101) is None
    assert policy.admit(Cause.MEMBERSHIP, 101) is None


@pytest.mark.parametrize("cause", [Cause.MEMBERSHIP, Cause.TOPICS, Cause.OPERATOR, Cause.RACKS])
def test_a_plan_for_another_cause_does_not_hold_back_a_skew(cause):
    policy = PolicyState().planned(cause, proposal(), 100, SETTINGS)
    assert policy.admit(Cause.SKEW, 100) is None


def test_only_a_plan_because_of_skew_has_an_expected_gain_that_is_evaluated():
    for cause, expected in ((Cause.SKEW, True), (Cause.RACKS, False), (Cause.MEMBERSHIP, False)):
        policy = PolicyState().planned(cause, proposal(), 0, SETTINGS)
        assert not policy.evaluation_due(59)
        assert policy.evaluation_due(60) is expected


def test_a_cause_whose_plan_failed_waits_for_a_cooldown():
    policy = PolicyState().changed(Cause.TOPICS, 0).failed(Cause.TOPICS, 10, SETTINGS)
    assert policy.due(QUIET, 70, SETTINGS) is None
    assert policy.due(QUIET, 71, SETTINGS) is Cause.TOPICS


def test_of_two_causes_the_one_that_failed_comes_last():
    policy, tried = PolicyState().changed(Cause.OPERATOR, 0).changed(Cause.TOPICS, 0), []
    for now in range(1, 300, 100):
        tried.append(policy.due(QUIET, now, SETTINGS))
        policy = policy.failed(tried[-1], now, SETTINGS)
    assert tried == [Cause.OPERATOR, Cause.TOPICS, Cause.OPERATOR]


@pytest.mark.parametrize(
    ("objection", "plan"),
    [
        (Objection.GAIN, proposal(2.0, 1.9, saved=1.0)),
        (Objection.COST, proposal(cost=501)),
        (Objection.BUDGET, proposal(moves=9)),
    ],
)
def test_without_a_cooldown_a_plan_is_not_computed_at_every_tick(objection, plan):
    cooldown = CooldownSettings(duration=0, moves_per_hour={Cause.SKEW: 3})
    settings = replace(SETTINGS, cooldown=cooldown)
    policy, now, times = PolicyState(), 0.0, []
    while now < 300:
        if policy.due(situation(raised={Cause.SKEW}), now, settings):
            refused = policy.admit_plan(Cause.SKEW, plan, now, settings)
            assert refused.objection is objection
            policy = policy.suppress(Cause.SKEW, refused)
            times.append(now)
        now += 0.5
    pauses = [later - earlier for earlier, later in pairwise(times)]
    expected = [1, 2, 4, 8, 16, 32, 60] if objection is not Objection.BUDGET else [1] * 7
    assert pauses[:7] == expected
    failed = PolicyState().failed(Cause.SKEW, 0, settings)
    assert failed.suppressed[Cause.SKEW].until == 1
