"""Transcripts of frozen planning: nothing that works is moved, and nothing stays unread."""

import pytest

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
from levelwind.daemon.control.settings import PlanSettings
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.control.state.group_freeze import group_reasons
from levelwind_testing.control.play import SETTINGS, TIMERS, begun
from levelwind_testing.records import lag, member, request, skew_trigger, topic

FROZEN = {FreezeReason.METADATA: "no layout of the cluster for more than 30 s"}


def settled(*instances, **options):
    """A group with four partitions whose plan is in force."""
    play = begun(topic(), planning=PlanSettings(strategy="uniform"), **options)
    play.join(*(member(instance) for instance in instances))
    play.wait(6)
    assert sorted(len(text.split(",")) for text in play.owned().values())
    return play


def freeze_of(play):
    """The reasons for which the group is frozen: those of all groups, and its own."""
    facts = facts_about(play.state)
    own = group_reasons(facts.groups["g"], facts, round(play.now * 1000))
    return {**play.state.freeze.reasons, **own}


@pytest.mark.parametrize("reason", [r for r in FreezeReason if r is not FreezeReason.MEMBERS])
def test_a_member_that_joins_gets_nothing_until_planning_thaws(reason):
    play = settled("m0", "m1")
    before = play.owned()
    play.frozen = {reason: "because"}
    play.wait(1)
    play.join(member("m2"), member("m3"))
    play.wait(60)
    assert {name: play.owned()[name] for name in before} == before
    assert len(play.plans) == 1
    assert [each["reason"] for each in play.logged("plan.suppressed")] == ["planning is frozen"]
    play.frozen = {}
    play.wait(12)
    assert all(play.owned().values())
    assert len(play.plans) == 2


@pytest.mark.parametrize("thaws_before", [False, True])
def test_another_daemon_makes_the_whole_plan_that_a_freeze_put_off(thaws_before):
    """Whether it begins before the thaw or after it."""
    play = settled("m0", "m1")
    play.frozen = dict(FROZEN)
    play.wait(1)
    play.leave("m1", "i1")
    play.join(member("m2"), member("m3"))
    play.wait(60)
    assert play.owned()["m0"] == "0-1", "nothing that works is moved"
    assert len(play.plans) == 2
    play.stop()
    play.frozen = {} if thaws_before else play.frozen
    play.restart()
    play.wait(15)
    play.frozen = {}
    play.wait(60)
    assert len(play.plans) == 3
    assert {len(ranges.parse(share)) for share in play.owned().values()} == {1, 2}
    play.restart()
    play.wait(60)
    assert len(play.plans) == 3


def test_the_partitions_of_a_dead_member_are_given_to_others_and_nothing_else_moves():
    play = settled("m0", "m1", "m2", "m3")
    before = play.owned()
    play.frozen = dict(FROZEN)
    play.wait(1)
    play.kill("m3", "i1")
    play.wait(TIMERS.dead_after + TIMERS.grant + 5)
    after = play.owned()
    owned = {name: set(text.split(",")) for name, text in after.items()}
    assert set().union(*owned.values()) == {"0", "1", "2", "3"}
    assert all(set(before[name].split(",")) <= owned[name] for name in owned)
    plans = len(play.plans)
    play.wait(60)
    assert len(play.plans) == plans, "one plan for the orphans is enough"


def test_partitions_that_a_topic_has_no_longer_are_given_up_once():
    """Before, they were granted and taken back for ever: no announcement of them is believed."""
    play = settled("m0", "m1")
    play.frozen = dict(FROZEN)
    play.wait(1)
    play.receive("metadata", topic(racks=((),) * 3, topic_id="B" * 22, at=2000))
    play.wait(10)
    plans, epoch = len(play.plans), play.state.groups["g"].next_epoch
    assert sorted(play.owned().values()) == ["0-1", "2"]
    play.wait(3 * TIMERS.revoke_timeout)
    assert (len(play.plans), play.state.groups["g"].next_epoch) == (plans, epoch)
    assert play.logged("grant.taken_back") == []


def test_a_new_group_is_planned_although_planning_is_frozen():
    play = begun(topic())
    play.frozen = dict(FROZEN)
    play.wait(1)
    play.join(member("m0"), member("m1"))
    play.wait(6)
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


def test_a_hand_over_that_is_under_way_goes_on():
    play = settled("m0")
    play.unresponsive.add(("m0", "i1"))
    play.join(member("m1"))
    play.wait(6)
    assert len(play.plans) == 2
    assert play.owned()["m1"] == ""
    play.frozen = dict(FROZEN)
    play.wait(1)
    play.unresponsive.clear()
    play.join(member("m2"))
    record = play.members["m0", "i1"]
    play.update("m0", "i1", planner_epoch=record.planner_epoch)
    newest = [r for r in play.log if getattr(r, "instance", None) == "m0"][-1]
    play.update(
        "m0",
        "i1",
        planner_epoch=newest.planner_epoch,
        acked_epoch=newest.member_epoch,
        owned=newest.assigned,
    )
    play.wait(4)
    assert play.owned()["m1"]
    assert len(play.plans) == 2


def test_a_trigger_and_an_operator_wait_for_the_thaw():
    play = settled("m0", "m1", settings=SETTINGS)
    play.frozen = dict(FROZEN)
    play.wait(1)
    play.receive("lag", lag(60_000, 0, 50_000, 0, at=round(play.now * 1000)))
    play.receive("triggers", skew_trigger())
    play.wait(5)
    play.receive("control", request())
    play.wait(20)
    assert len(play.plans) == 1
    reasons = {(s["cause"], s["reason"]) for s in play.logged("plan.suppressed")}
    assert reasons == {("skew", "planning is frozen"), ("operator", "planning is frozen")}
    play.frozen = {}
    play.wait(1)
    assert [plan["cause"] for plan in play.plans] == ["membership", "operator"]


def test_old_lag_alone_does_not_hold_back_an_operator():
    play = settled("m0", "m1")
    play.frozen = {FreezeReason.LAG: "no lag newer than 600 s"}
    play.wait(1)
    play.receive("control", request())
    play.wait(1)
    assert [plan["cause"] for plan in play.plans] == ["membership", "operator"]


def test_a_topic_with_old_lag_freezes_its_group_alone():
    """Before, the group was planned as without lag: a join moved what the lag had placed."""
    play = begun(topic(), strategy="lag", now=864_000.0)
    play.receive("lag", lag(900, 0, 0, 900, at=round(play.now * 1000)))
    play.join(member("m0"), member("m1"))
    play.wait(6)
    before = play.owned()
    assert before != {"m0": "0,2", "m1": "1,3"}
    play.wait(SETTINGS.lag_max_age + 30)
    play.join(member("m2"))
    play.wait(30)
    assert {name: play.owned()[name] for name in before} == before
    assert list(freeze_of(play)) == [FreezeReason.LAG]
    play.receive("lag", lag(900, 0, 0, 900, at=round(play.now * 1000)))
    play.wait(10)
    assert play.owned()["m2"]
    assert not freeze_of(play)


def test_the_freeze_and_the_thaw_are_logged_once_with_reason():
    play = settled("m0")
    play.frozen = dict(FROZEN)
    play.wait(10)
    play.frozen = {**FROZEN, FreezeReason.CLOCK: "the wall clock jumped 60.0 s ahead"}
    play.wait(5)
    play.frozen = {FreezeReason.CLOCK: "the wall clock jumped 60.0 s ahead"}
    play.wait(5)
    play.frozen = {}
    play.wait(5)
    assert play.logged("planning.frozen") == [
        {"reason": "metadata", "detail": "no layout of the cluster for more than 30 s"},
        {"reason": "clock", "detail": "the wall clock jumped 60.0 s ahead"},
    ]
    assert play.logged("planning.thawed") == [
        {"reason": "metadata", "seconds": 15.0, "still": ["clock"]},
        {"reason": "clock", "seconds": 10.0, "still": []},
    ]


def test_most_members_gone_at_once_are_a_reason_of_their_group():
    play = settled("m0", "m1", "m2", settings=SETTINGS)
    play.kill("m1", "i1")
    play.kill("m2", "i1")
    play.wait(TIMERS.dead_after + 3)
    reasons = freeze_of(play)
    assert reasons == {FreezeReason.MEMBERS: "2 members fell silent together"}
