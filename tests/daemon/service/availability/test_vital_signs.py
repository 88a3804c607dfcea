"""Vital signs of a term: what its threads report becomes reasons to freeze."""

import pytest

from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
from levelwind.daemon.control.settings import ControlSettings, FreezeSettings
from levelwind.daemon.service.availability.freeze_metrics import freeze_families
from levelwind.daemon.service.availability.readiness import Readiness
from levelwind.daemon.service.availability.vital_signs import VitalSigns


def test_each_report_has_its_reason():
    signs = VitalSigns(ControlSettings, now=100.0, at=100_000)
    assert signs.look(100.0, 100_000, None, 100_000) == {}
    signs.on_brokers(3, 2)
    assert list(signs.reasons(101.0, 101_000)) == [FreezeReason.BROKERS]
    signs.on_brokers(3, 1)
    assert list(signs.look(131.0, 131_000, None, 100_000)) == [FreezeReason.METADATA]
    signs.on_layout(131.0)
    assert signs.look(131.5, 131_500, None, 100_000) == {}
    assert list(signs.look(132.0, 3_732_000, None, 3_732_000)) == [FreezeReason.CLOCK]
    signs.on_layout(163.0)
    assert signs.look(163.0, 3_763_000, None, 3_763_000) == {}
    assert list(signs.look(163.5, 3_763_500, None, 3_000_000)) == [FreezeReason.LAG]


def test_limits_that_are_read_again_hold_at_once():
    settings = [ControlSettings()]
    signs = VitalSigns(lambda: settings[0], now=100.0, at=100_000)
    assert list(signs.reasons(130.0, 130_000)) == [FreezeReason.METADATA]
    settings[0] = ControlSettings(freeze=FreezeSettings(metadata_max_age=60.0))
    assert signs.reasons(130.0, 130_000) == {}


@pytest.mark.parametrize("limit", [5.0, 3600.0])
def test_each_step_of_the_clock_is_reported_once_whatever_freezes(limit):
    steps = []
    settings = ControlSettings(freeze=FreezeSettings(clock_jump=limit))
    signs = VitalSigns(lambda: settings, now=0.0, at=0, on_clock_step=lambda: steps.append(signs))
    for now, at in enumerate([0, 1_000, -1_798_000, -1_797_000, 4_000, 4_999, 4_000, 4_800]):
        signs.look(float(now), at, None, at)
    assert len(steps) == 3


def test_a_step_of_the_clock_while_a_daemon_takes_over_is_reported_with_the_first_look():
    """The observer stood still until the clock was where it had been."""
    steps = []
    signs = VitalSigns(ControlSettings, 100.0, 3_700_000, on_clock_step=lambda: steps.append(signs))
    signs.look(103.0, 103_000, None, None)
    signs.look(104.0, 104_000, None, None)
    assert steps == [signs]


def test_the_freeze_is_seen_in_the_metrics():
    readiness = Readiness(
        role="leader",
        caught_up=True,
        instance="me",
        leader="me",
        planner_epoch=3,
        frozen={"brokers": "2 of 3 brokers do not answer"},
        frozen_groups={"orders": {"lag": "old"}},
    )
    frozen, groups = freeze_families(readiness)
    values = {sample.labels["reason"]: sample.value for sample in frozen.samples}
    assert values == {"metadata": 0, "clock": 0, "brokers": 1, "rejects": 0, "lag": 0}
    assert [(s.labels, s.value) for s in groups.samples] == [
        ({"group": "orders", "reason": "lag"}, 1.0)
    ]
    frozen, groups = freeze_families(None)
    assert {sample.value for sample in frozen.samples} == {0}
    assert groups.samples == []
