"""Transcripts of levers: set, released, after a restart, and what a plan makes of them."""

import pytest

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import GroupRecord, OperatorRecord, Tombstone
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.play import Play, begun
from levelwind_testing.control.two_members import skew, two_members
from levelwind_testing.records import lever, member, request, topic


def released(kind, subject="*", *, group="g"):
    return Tombstone(("lever", group, kind, subject))


@pytest.fixture
def play():
    return two_members(planning=PlanSettings(strategy="optimal"))


def test_a_pin_moves_the_partition_at_once_and_its_end_lets_it_go(play):
    holder = next(name for name, own in play.owned().items() if 0 in ranges.parse(own))
    other = {"m0": "m1", "m1": "m0"}[holder]
    play.receive("control", lever("pin", "t/0", other))
    play.wait(3)
    assert 0 in ranges.parse(play.owned()[other])
    (logged,) = play.logged("lever.set")
    assert (logged["lever"], logged["subject"], logged["by"]) == ("pin", "t/0", "me@here")
    assert play.plans[-1]["cause"] == "operator"
    plans = len(play.plans)
    play.receive("control", released("pin", "t/0"))
    play.wait(3)
    assert [entry["lever"] for entry in play.logged("lever.released")] == ["pin"]
    assert len(play.plans) == plans + 1


def test_a_drain_and_its_end_take_effect_at_once(play):
    play.receive("control", lever("drain", "m0"))
    play.wait(3)
    assert play.owned() == {"m0": "", "m1": "0-3"}
    play.receive("control", released("drain", "m0"))
    play.wait(3)
    assert sorted(len(ranges.parse(own)) for own in play.owned().values()) == [2, 2]


def test_a_rack_is_evacuated_in_all_groups():
    play = begun(topic(), planning=PlanSettings(strategy="optimal"))
    play.join(member("m0", rack="a"), member("m1", rack="b"))
    play.wait(2)
    play.receive("control", lever("evacuate", "a", group="*"))
    play.wait(3)
    assert play.owned() == {"m0": "", "m1": "0-3"}


def test_a_lever_adds_to_the_drains_of_the_file_and_wins_over_its_pins():
    play = Play(
        planning=PlanSettings(
            strategy="optimal", options={"drain": ["m2"], "pins": {"t": {"0": "m0", "1": "m0"}}}
        )
    )
    play.start(lever("drain", "m1"), lever("pin", "t/1", "m2"))
    play.receive("metadata", topic())
    play.join(member("m0"), member("m1"), member("m2"))
    play.wait(3)
    assert play.owned() == {"m0": "0,2-3", "m1": "", "m2": "1"}


def test_levers_survive_a_restart_and_are_said_and_ask_for_no_plan(play):
    play.receive("control", lever("drain", "m0"))
    play.wait(3)
    plans = len(play.plans)
    play.restart()
    play.wait(5)
    assert play.logged("config.overridden") == [{"levers": ["g drain m0"]}]
    assert len(play.plans) == plans
    assert play.owned() == {"m0": "", "m1": "0-3"}
    play.receive("control", request())
    play.wait(3)
    assert play.owned() == {"m0": "", "m1": "0-3"}


def test_a_lever_that_was_set_or_released_while_no_daemon_led_takes_effect_at_its_start(play):
    play.stop()
    play.written.append(("control", lever("drain", "m0")))
    play.restart()
    play.wait(5)
    assert play.owned() == {"m0": "", "m1": "0-3"}
    play.stop()
    play.written.append(("control", released("drain", "m0")))
    play.restart()
    play.wait(5)
    assert sorted(len(ranges.parse(own)) for own in play.owned().values()) == [2, 2]


def test_a_lever_that_is_undone_before_its_plan_asks_for_none(play):
    plans = len(play.plans)
    play.receive("control", lever("drain", "m0"))
    play.receive("control", released("drain", "m0"))
    play.wait(3)
    assert len(play.plans) == plans


def test_the_same_lever_again_changes_nothing(play):
    play.receive("control", lever("drain", "m0"))
    play.wait(3)
    plans = len(play.plans)
    play.receive("control", lever("drain", "m0"))
    play.wait(3)
    assert len(play.plans) == plans
    assert len(play.logged("lever.set")) == 1


def test_a_strategy_holds_until_it_is_released(play):
    play.receive("control", lever("strategy", setting="range"))
    play.wait(3)
    assert play.plans[-1]["strategy"] == "range"
    assert play.owned() == {"m0": "0-1", "m1": "2-3"}
    play.receive("control", released("strategy"))
    play.wait(3)
    assert play.plans[-1]["strategy"] == "optimal"


def test_a_strategy_that_this_release_does_not_know_changes_nothing_and_is_said(play):
    play.receive("control", lever("strategy", setting="of-the-next-release"))
    play.wait(70)
    assert play.plans[-1]["strategy"] == "optimal"
    assert play.logged("plan.failed") == []
    assert play.logged("lever.unknown") == [{"group": "g", "strategy": "of-the-next-release"}]
    play.restart()
    assert len(play.logged("lever.unknown")) == 2


@pytest.mark.parametrize("group", ["g", "*"])
def test_a_paused_group_gets_no_plan_for_skew_until_it_is_resumed(play, group):
    play.receive("control", lever("pause", group=group))
    play.wait(1)
    plans = len(play.plans)
    skew(play)
    play.wait(90)
    assert len(play.plans) == plans
    play.receive("control", released("pause", group=group))
    play.wait(3)
    assert [plan["cause"] for plan in play.plans[plans:]] == ["skew"]


def test_a_paused_group_moves_only_what_must_move():
    play = Play(planning=PlanSettings(strategy="lag"))
    play.start(lever("pause", group="*"))
    play.receive("metadata", topic())
    play.join(member("m0"), member("m1"))
    play.wait(2)
    before = play.owned()
    play.join(member("m2"))
    play.wait(5)
    assert play.owned() == before | {"m2": ""}
    play.leave("m1", member("m1").incarnation)
    play.wait(5)
    kept, got = ranges.parse(before["m0"]), ranges.parse(play.owned()["m0"])
    assert set(kept) <= set(got)
    assert len(got) + len(ranges.parse(play.owned()["m2"])) == 4
    play.receive("control", released("pause", group="*"))
    play.wait(5)
    assert sorted(len(ranges.parse(own)) for own in play.owned().values()) == [2, 2]


def test_a_request_is_answered_in_a_paused_group_too(play):
    play.receive("control", lever("pause"))
    plans = len(play.plans)
    play.receive("control", request())
    play.wait(1)
    assert [plan["cause"] for plan in play.plans[plans:]] == ["operator"]


def test_a_plan_names_the_levers_it_was_made_under(play):
    play.receive("control", lever("drain", "m0"))
    play.wait(3)
    plans = [record for record in play.log if isinstance(record, GroupRecord)]
    assert plans[0].levers is None
    assert plans[-1].levers


def test_a_lever_of_a_kind_that_this_version_does_not_know_is_skipped(play):
    plans = len(play.plans)
    play.receive("control", Tombstone(("lever", "g", "later", "*")))
    play.wait(3)
    assert len(play.plans) == plans


def test_exactly_the_given_assignment_is_applied_and_then_triggers_count_again(play):
    target = {"m0": {"t": (0,)}, "m1": {"t": (1, 2, 3)}}
    order = OperatorRecord(
        group="g", at=1, by="me", action="apply", reason="", plan="7-x", target=target
    )
    play.receive("control", order)
    play.wait(3)
    assert play.owned() == {"m0": "0", "m1": "1-3"}
    assert ("control", Tombstone(("operator", "g"))) in play.published


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"m0": {"t": (0, 1, 2, 3)}, "gone": {"t": ()}}, "gone"),
        ({"m0": {"t": (0, 1)}}, "does not fit"),
        ({"m0": {"t": (0, 1, 2, 3, 4)}}, "no partition 4"),
        ({"m0": {"u": (0,)}}, "'u'"),
    ],
)
def test_an_assignment_that_does_not_fit_is_refused_and_changes_nothing(play, target, reason):
    before, plans = play.owned(), len(play.plans)
    order = OperatorRecord(group="g", at=1, by="me", action="apply", reason="", target=target)
    play.receive("control", order)
    play.wait(3)
    (refused,) = play.logged("request.refused")
    assert reason in refused["reason"]
    assert (play.owned(), len(play.plans)) == (before, plans)
    assert ("control", Tombstone(("operator", "g"))) in play.published
    play.restart()
    play.wait(2)
    assert len(play.logged("request.refused")) == 1
