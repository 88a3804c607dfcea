"""Transcripts of groups that ask for approval."""

import pytest

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import OperatorRecord, ProposalRecord, Tombstone
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.two_members import give_all_lag_to_one, skew, two_members
from levelwind_testing.records import member, request


@pytest.fixture
def play():
    return two_members(planning=PlanSettings(strategy="optimal", approval=True))


def skewed(play):
    skew(play)
    play.wait(3)


def approval(plan):
    return OperatorRecord(group="g", at=1, by="me", action="approve", reason="fine", plan=plan)


def proposals(play):
    return [record for _, record in play.published if isinstance(record, ProposalRecord)]


def test_members_get_partitions_without_approval(play):
    assert [plan["cause"] for plan in play.plans] == ["membership"]
    assert sorted(len(ranges.parse(own)) for own in play.owned().values()) == [2, 2]


def test_a_plan_for_skew_waits_until_it_is_approved(play):
    before = play.owned()
    skewed(play)
    (proposed,) = play.logged("plan.proposed")
    (proposal,) = proposals(play)
    assert proposed["plan_id"] == proposal.plan_id
    play.wait(200)
    assert (play.owned(), len(proposals(play))) == (before, 1)
    play.receive("control", approval(proposal.plan_id))
    play.wait(3)
    assert play.owned() != before
    assert play.plans[-1]["cause"] == "operator"
    assert play.published.count(("control", Tombstone(("proposal", "g")))) == 1
    outcomes = [draft.outcome for draft in play.drafts]
    assert outcomes[:3] == ["published", "proposed", "published"]
    assert play.drafts[2].request.by == "me"


def test_a_request_for_a_plan_makes_a_proposal(play):
    give_all_lag_to_one(play)
    play.receive("control", request())
    play.wait(1)
    assert len(proposals(play)) == 1
    assert len(play.plans) == 1
    assert ("control", Tombstone(("operator", "g"))) in play.published


def test_a_proposal_is_stale_once_members_have_changed(play):
    skewed(play)
    (proposal,) = proposals(play)
    play.join(member("m2"))
    play.receive("control", approval(proposal.plan_id))
    play.wait(1)
    (refused,) = play.logged("request.refused")
    assert "stale" in refused["reason"]
    play.wait(5)
    # The plan for the new member ends the proposal.
    assert ("control", Tombstone(("proposal", "g"))) in play.published
    play.receive("control", approval(proposal.plan_id))
    play.wait(1)
    assert "does not wait for approval" in play.logged("request.refused")[-1]["reason"]


def test_a_proposal_survives_a_restart(play):
    skewed(play)
    (proposal,) = proposals(play)
    before = play.owned()
    play.restart()
    play.receive("control", approval(proposal.plan_id))
    play.wait(3)
    assert play.owned() != before


def test_another_plan_than_the_one_that_waits_is_not_approved(play):
    skewed(play)
    play.receive("control", approval("p9-other"))
    play.wait(1)
    (refused,) = play.logged("request.refused")
    assert "does not wait for approval" in refused["reason"]
