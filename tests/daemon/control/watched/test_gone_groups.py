"""Transcripts of watched groups that are gone, as console consumers are by the dozen."""

import pytest
from msgspec import structs

from levelwind.assignors.protocol.records import OperatorRecord, SpeedRecord, Tombstone
from levelwind.assignors.protocol.records.pipeline import MemberSpeed
from levelwind.daemon.config.group_patterns import GroupModes
from levelwind.daemon.config.groups import GroupSection
from levelwind.daemon.control.schedule import ticking
from levelwind.daemon.control.settings import PlanSettings
from levelwind.daemon.control.watched.watched_decision import GONE_SECONDS
from levelwind_testing.control.play import Play
from levelwind_testing.records import lag, member, topic

OF_LAG = Tombstone(("lag", "g", "t"))
REQUEST = OperatorRecord(group="g", at=1, by="me", action="rebalance", reason="")
SPEEDS = SpeedRecord(group="g", at=1, members={"m0": MemberSpeed(speed=1.0, sure=1.0)})


def looks_at(play, monkeypatch):
    """Names of the groups that the ticks of some seconds look at."""
    looks, look = [], ticking._look
    with monkeypatch.context() as patch:
        patch.setattr(ticking, "_look", lambda g, c: looks.append(g.name) or look(g, c))
        play.wait(10)
    return set(looks)


def sampled(play, group="g", members=("m0", "m1"), behind=0):
    owner = tuple(number % len(members) for number in range(4))
    play.receive(
        "lag",
        lag(behind, 0, 0, 0, group=group, members=members, owner=owner, at=round(play.now * 1000)),
    )


def unplanned(mode="advisory", **planning):
    play = Play(
        planning=PlanSettings(strategy="uniform", **planning),
        modes=GroupModes({"*": GroupSection(mode=mode)}),
    )
    play.start(topic())
    sampled(play)
    return play


def watched(mode="advisory", **planning):
    play = unplanned(mode, **planning)
    play.wait(5)
    assert len(play.plans) == 1
    return play


@pytest.mark.parametrize("mode", ["advisory", "published", "proxy"])
def test_nothing_is_left_of_a_group_that_is_gone_for_an_hour(mode):
    play = watched(mode)
    play.receive("lag", OF_LAG)
    play.wait(GONE_SECONDS - 10, step=5)
    assert {record.key[0] for record in play.kept()} >= {"g", "p"}
    play.wait(20, step=5)
    assert not any(record.key[0] in {"g", "p"} for record in play.kept())
    assert list(play.state.groups) == []
    [ended] = play.logged("plan.ended")
    assert (ended["group"], ended["reason"]) == ("g", "nothing has named the group for an hour")
    play.restart()
    assert list(play.state.groups) == []


def test_a_group_that_comes_back_within_the_hour_keeps_its_plan():
    play = watched()
    for _ in range(3):
        play.receive("lag", OF_LAG)
        play.wait(GONE_SECONDS - 10, step=5)
        sampled(play)
        play.wait(10)
    assert len(play.plans) == 1
    assert "g" in play.state.groups


def test_a_group_that_comes_back_later_gets_a_plan_with_a_higher_epoch():
    play = watched()
    play.receive("lag", OF_LAG)
    play.wait(GONE_SECONDS + 10, step=5)
    sampled(play)
    play.wait(5)
    assert [plan["group_epoch"] for plan in play.plans] == [1, 2]


def test_old_lag_ends_no_plan():
    """The pipeline is away: its records stay as they are."""
    play = watched()
    play.wait(2 * GONE_SECONDS, step=5)
    assert "g" in play.state.groups
    assert ("g", "g") in {record.key for record in play.kept()}


def test_the_hour_counts_from_the_start_of_the_daemon():
    """Before its first sample, a start on topics that were made anew looks like groups gone."""
    play = watched()
    play.receive("lag", OF_LAG)
    play.wait(GONE_SECONDS - 10, step=5)
    play.restart()
    play.wait(GONE_SECONDS - 10, step=5)
    assert "g" in play.state.groups
    play.wait(20, step=5)
    assert "g" not in play.state.groups


def test_a_proposal_ends_with_the_plan():
    play = watched(approval=True)
    play.receive("control", REQUEST)
    play.wait(5)
    assert len(play.logged("plan.proposed")) == 1
    play.receive("lag", OF_LAG)
    play.wait(GONE_SECONDS + 10, step=5)
    assert ("control", Tombstone(("proposal", "g"))) in play.published


def test_a_proposal_ends_with_a_plan_that_the_settings_end():
    """Without a plan the group is forgotten as soon as nothing names it, and its record is left."""
    play = watched(approval=True)
    play.receive("control", REQUEST)
    play.wait(5)
    play.modes = GroupModes({"*": GroupSection(mode="published")})
    play.restart()
    assert len(play.logged("plan.ended")) == 1
    assert ("control", Tombstone(("proposal", "g"))) in play.published
    assert play.state.groups["g"].proposal is None


def test_a_plan_that_the_settings_end_is_not_logged_as_ended_before_it_is():
    """A start whose records are refused ends, and the next one ends the plan again."""
    play = watched()
    play.modes = GroupModes({"*": GroupSection(mode="published")})
    play.refused = {"g"}
    play.restart()
    ended = ("assignments", Tombstone(("p", "g", 0))) in play.published
    assert len(play.logged("plan.ended")) == ended


PROPOSALS_ENDED = [Tombstone(("proposal", group)) for group in ("g", "h")]
PROPOSAL_ENDED = ("control", PROPOSALS_ENDED[0])


def proposed(*groups):
    """Groups that are proposed a plan before their first one."""
    play = unplanned(approval=True)
    for group in groups:
        sampled(play, group)
        play.receive("control", structs.replace(REQUEST, group=group))
    play.wait(1)
    assert len(play.logged("plan.proposed")) == len(groups)
    assert not play.plans
    return play


def test_a_proposal_outlives_a_start_beside_the_lag_of_its_group():
    play = proposed("g")
    proposal = play.state.groups["g"].proposal
    play.restart()
    assert play.state.groups["g"].proposal == proposal
    play.receive("control", structs.replace(REQUEST, at=2, action="approve"))
    play.wait(1)
    assert len(play.plans) == 1


def test_the_proposals_of_groups_that_no_record_names_end_with_the_next_start():
    play = proposed("g", "h")
    play.stop()
    for group in ("g", "h"):
        play.receive("lag", Tombstone(("lag", group, "t")))
    play.restart()
    assert not {"g", "h"} & {*play.state.groups}
    ended = [record for _, record in play.published if record in PROPOSALS_ENDED]
    assert ended == PROPOSALS_ENDED
    play.restart()
    assert play.published.count(PROPOSAL_ENDED) == 1


def test_a_group_that_is_dropped_before_its_first_plan_ends_its_proposal():
    play = proposed("g")
    play.receive("lag", OF_LAG)
    play.wait(5)
    assert "g" not in play.state.groups
    assert PROPOSAL_ENDED in play.published


def test_a_group_whose_proposals_end_is_refused_is_dropped_later():
    play = proposed("g")
    play.refused = {"g"}
    play.receive("lag", OF_LAG)
    play.wait(20)
    assert [line["retry_in"] for line in play.logged("group.publish_refused")] == [5, 10, 20]
    assert PROPOSAL_ENDED not in play.published
    play.refused = set()
    play.wait(20)
    assert "g" not in play.state.groups
    assert PROPOSAL_ENDED in play.published
    assert not play.state.postponed


def test_a_group_that_is_gone_costs_no_look(monkeypatch):
    play = watched()
    for number in range(20):
        sampled(play, f"console-{number}", ("c",))
    play.wait(5)
    for number in range(20):
        play.receive("lag", Tombstone(("lag", f"console-{number}", "t")))
    play.wait(5)
    assert len(play.state.groups) == 21
    assert looks_at(play, monkeypatch) == {"g"}


@pytest.mark.parametrize("left", [("control", REQUEST), ("lag", SPEEDS)])
def test_neither_a_request_nor_speeds_keep_a_group_that_is_gone(monkeypatch, left):
    play = watched()
    play.receive("lag", OF_LAG)
    play.wait(10)
    play.receive(*left)
    play.wait(1)
    assert looks_at(play, monkeypatch) == set()
    assert "g" in play.state.groups
    play.wait(GONE_SECONDS + 10, step=5)
    assert list(play.state.groups) == []
    assert not any(record.key[0] in {"g", "p"} for record in play.kept())
    refused = play.logged("request.refused")
    assert len(refused) == (left[1] is REQUEST)
    assert (("control", Tombstone(REQUEST.key)) in play.published) == (left[1] is REQUEST)


def test_speeds_that_are_left_of_a_group_cost_no_look(monkeypatch):
    play = watched()
    play.receive("lag", structs.replace(SPEEDS, group="other"))
    assert looks_at(play, monkeypatch) == {"g"}


@pytest.mark.parametrize("mode", ["managed", "advisory"])
def test_a_request_for_a_group_that_does_not_exist_is_refused(mode):
    play = Play(modes=GroupModes({"*": GroupSection(mode=mode)}))
    play.start(topic())
    play.receive("control", REQUEST)
    play.wait(1)
    [line] = play.logged("request.refused")
    assert line["reason"] == "no such group: it has no members, no lag and no plan"
    assert ("control", Tombstone(REQUEST.key)) in play.published
    assert list(play.state.groups) == []


def test_a_request_for_a_managed_group_whose_members_are_away_waits_for_them():
    play = Play()
    play.start(topic())
    play.join(member("m0"))
    play.wait(5)
    play.leave("m0", "i1")
    play.receive("control", REQUEST)
    play.wait(60)
    assert play.logged("request.refused") == []
    assert play.state.groups["g"].operator == REQUEST


def test_a_group_that_is_gone_before_its_first_plan_is_forgotten_at_once():
    play = watched()
    sampled(play, "short")
    play.wait(0.5)
    play.receive("lag", Tombstone(("lag", "short", "t")))
    play.wait(1)
    assert list(play.state.groups) == ["g"]


def test_a_managed_group_that_never_had_a_plan_is_forgotten_with_its_last_member():
    play = Play()
    play.start(topic())
    play.join(member("m0", topics=("unknown",)))
    play.leave("m0", "i1")
    play.wait(1)
    assert list(play.state.groups) == []
