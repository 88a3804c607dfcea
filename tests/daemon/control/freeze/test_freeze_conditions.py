"""What freezes planning for all groups, and what ends it."""

import pytest
from msgspec.structs import replace

from levelwind.daemon.control.freeze.conditions import (
    LEAST_REJECTED,
    QUIET_RECORDS,
    ClockWatch,
    InputWatch,
    Vitals,
    frozen_reasons,
)
from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
from levelwind.daemon.control.settings import ControlSettings
from levelwind.daemon.pipeline.progress_totals import ProgressTotals

SETTINGS = ControlSettings()
NOW, AT = 1000.0, 5_000_000
WELL = Vitals(layout_at=NOW, brokers=3, lag_at=AT)


def reasons(vitals, now=NOW, at=AT):
    return frozen_reasons(vitals, SETTINGS, now, at)


def test_nothing_is_frozen_while_all_is_well():
    assert reasons(WELL) == {}
    assert reasons(Vitals(layout_at=NOW)) == {}, "a cluster without topics and without lag"


def test_a_layout_of_half_a_minute_ago_freezes():
    assert reasons(WELL, NOW + 29.5) == {}
    assert list(reasons(WELL, NOW + 30)) == [FreezeReason.METADATA]
    assert reasons(replace(WELL, layout_at=NOW + 30), NOW + 30) == {}


@pytest.mark.parametrize(
    ("brokers", "silent", "frozen"),
    [(3, 1, False), (3, 2, True), (2, 1, False), (1, 1, True), (4, 2, False), (5, 3, True)],
)
def test_more_than_half_of_the_brokers_must_be_silent(brokers, silent, frozen):
    found = reasons(replace(WELL, brokers=brokers, silent_brokers=silent))
    assert (FreezeReason.BROKERS in found) is frozen


def test_old_lag_of_all_groups_freezes():
    assert reasons(WELL, at=AT + 600_000) == {}
    assert list(reasons(WELL, at=AT + 600_001)) == [FreezeReason.LAG]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 5.0])
def test_a_jump_of_the_wall_clock_freezes_for_half_a_minute(seconds):
    watch = ClockWatch().looked(10.0, 100_000, 5.0).looked(10.5, 100_500, 5.0)
    assert watch.jumped_at is None
    jumped = watch.looked(11.0, 101_000 + round(1000 * seconds), 5.0)
    frozen = replace(WELL, clock=jumped, layout_at=11.0)
    assert list(reasons(frozen, 11.0)) == [FreezeReason.CLOCK]
    assert ("ahead" if seconds > 0 else "back") in reasons(frozen, 11.0)[FreezeReason.CLOCK]
    later = jumped.looked(40.0, jumped.at + 29_000, 5.0)
    assert list(reasons(replace(frozen, clock=later), 40.0)) == [FreezeReason.CLOCK]
    assert reasons(replace(frozen, clock=later, layout_at=41.0), 41.1) == {}


def test_a_clock_that_drifts_or_a_machine_that_slept_does_not_jump():
    watch = ClockWatch()
    for second in range(1000):
        watch = watch.looked(float(second), round(second * 1004), 5.0)
    assert watch.jumped_at is None
    assert watch.looked(5000.0, watch.at + 4_001_000, 5.0).jumped_at is None


def record(rows, rejected, instance="host/1"):
    totals = ProgressTotals(instance=instance, started_at=0)
    totals.rows = rows
    totals.rejected.update({"broken": rejected})
    return totals.record(at=1, epoch=1)


def test_a_pipeline_that_rejects_most_of_its_input_freezes_until_it_reads_again():
    watch = InputWatch().read(record(1000, 0))
    assert reasons(replace(WELL, input=watch)) == {}
    watch = watch.read(record(1100, 60))
    assert reasons(replace(WELL, input=watch)) == {
        FreezeReason.REJECTS: "the pipeline rejects 60% of its input"
    }
    quiet = watch
    for _ in range(QUIET_RECORDS - 1):
        quiet = quiet.read(record(1100, 60))
        assert quiet.share == watch.share, "an interval without input proves nothing"
    assert quiet.read(record(1100, 60)).share == 0.0, "but it is not input of today after a while"
    assert reasons(replace(WELL, input=watch.read(record(1200, 70)))) == {}


def test_a_few_rejected_records_freeze_nothing():
    few = LEAST_REJECTED - 1
    watch = InputWatch().read(record(0, 0)).read(record(few, few))
    assert watch.share == 0.0


def test_the_totals_of_another_start_count_from_zero():
    watch = InputWatch().read(record(10_000, 9_000)).read(record(100, 80, "host/2"))
    assert watch.share == pytest.approx(0.8)
