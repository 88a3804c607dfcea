"""Transcripts of settings that are read again while the control leads."""

from dataclasses import replace

import pytest

from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.control.boundary.control_events import SettingsChanged
from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.play import SETTINGS
from levelwind_testing.control.two_members import two_members
from levelwind_testing.records import lever


def led():
    play = two_members(planning=PlanSettings(strategy="optimal"))
    play.wait(1)
    return play


def change(play, planning, settings=SETTINGS):
    play._do(SettingsChanged(settings=settings, planning_of=lambda _: planning))


def test_a_group_that_is_planned_otherwise_gets_a_plan():
    play = led()
    change(play, PlanSettings(strategy="optimal", options={"drain": ["m0"]}))
    play.wait(3)
    assert play.owned() == {"m0": "", "m1": "0-3"}
    assert [plan["cause"] for plan in play.plans] == ["membership", "operator"]


def test_a_group_that_is_planned_as_before_gets_none():
    play = led()
    change(play, PlanSettings(strategy="optimal"), replace(SETTINGS, min_gain=0.5))
    play.wait(5)
    assert len(play.plans) == 1
    assert play.state.settings.min_gain == 0.5


@pytest.mark.parametrize("seconds", [0.5, 30])
def test_a_plan_that_other_settings_ask_for_outlives_a_pause(seconds):
    """The end of the pause took it for one that the pause had asked for."""
    play = led()
    play.frozen = {FreezeReason.METADATA: "old"}
    change(play, PlanSettings(strategy="optimal", options={"drain": ["m0"]}))
    pause = lever("pause", group="*")
    play.receive("control", pause)
    play.wait(seconds)
    play.receive("control", Tombstone(pause.key))
    play.frozen = {}
    play.wait(5)
    assert play.owned() == {"m0": "", "m1": "0-3"}
