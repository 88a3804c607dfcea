"""Transcripts of groups whose records are refused: the group waits, and the others go on."""

import pytest

from levelwind.assignors.protocol.records import OperatorRecord, Tombstone
from levelwind_testing.control.play import TIMERS, begun
from levelwind_testing.records import member, topic

REFUSED = "group.publish_refused"


@pytest.fixture
def play():
    return begun(topic())


def test_refused_records_of_one_group_leave_the_others_to_their_plans(play):
    play.refused = {"g"}
    play.join(member("m0"), member("n0", group="other"))
    play.wait(3)
    assert [plan["group"] for plan in play.plans] == ["other"]
    assert play.owned() == {"m0": "", "n0": "0-3"}
    assert play.logged(REFUSED)[0] == {"group": "g", "reason": "too large", "retry_in": 5.0}


def test_the_attempts_of_a_refused_group_wait_twice_as_long_each_time_up_to_five_minutes(play):
    play.refused = {"g"}
    play.join(member("m0"))
    play.wait(1400)
    pauses = [refusal["retry_in"] for refusal in play.logged(REFUSED)]
    assert pauses[:8] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert max(pauses) == 300


def test_a_group_that_was_refused_is_planned_as_it_is_by_then(play):
    play.refused = {"g"}
    play.join(member("m0"))
    play.wait(3)
    play.join(member("m1"))
    play.refused = set()
    play.wait(5)
    (plan,) = play.plans
    assert (plan["members"], plan["group_epoch"]) == (2, 1)
    assert play.owned() == {"m0": "0,2", "m1": "1,3"}


def test_a_refusal_after_a_success_waits_for_the_first_pause_again(play):
    play.refused = {"g"}
    play.join(member("m0"))
    play.wait(10)
    play.refused = set()
    play.wait(20)
    play.refused = {"g"}
    play.join(member("m1"))
    play.wait(3)
    assert [refusal["retry_in"] for refusal in play.logged(REFUSED)] == [5, 10, 5]


def test_what_a_member_announced_is_kept_when_the_answer_to_it_is_refused(play):
    play.join(member("m0"), member("m1"))
    play.wait(3)
    play.refused = {"g"}
    del play.members["m1", "i1"]
    play.receive("members", Tombstone(("m", "g", "m1", "i1")))
    play.wait(3)
    assert [gone["instance"] for gone in play.logged("member.left")] == ["m1"]
    assert play.owned() == {"m0": "0,2"}
    play.refused = set()
    play.wait(10)
    assert play.owned() == {"m0": "0-3"}
    assert ("assignments", Tombstone(("m", "g", "m1", "i1"))) in play.published


def test_a_silent_member_of_a_refused_group_is_evicted_once_the_group_can_publish(play):
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(3)
    play.refused = {"g"}
    play.unresponsive.add(("m2", "i1"))
    play.wait(TIMERS.dead_after + 10)
    assert [gone["instance"] for gone in play.logged("member.evicted")] == ["m2"]
    play.refused = set()
    play.wait(300 + TIMERS.grant)
    assert play.owned()["m0"] == "0,2"
    assert play.owned()["m1"] == "1,3"


def test_a_refused_answer_to_a_request_for_a_group_without_members_is_given_later(play):
    """No record of the group comes meanwhile: its only deadline is the end of the wait."""
    request = OperatorRecord(group="g", at=1, by="me", action="rebalance", reason="")
    play.refused = {"g"}
    play.receive("control", request)
    play.wait(3)
    assert "g" in play.state.groups
    play.refused = set()
    play.wait(5)
    assert ("control", Tombstone(request.key)) in play.published
    assert "g" not in play.state.groups
    assert not play.state.postponed
