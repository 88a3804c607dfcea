"""What the daemon makes of the records of a pipeline that it does not run."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from levelwind.daemon.pipeline.progress_totals import ProgressTotals
from levelwind.daemon.pipeline.remote_pipeline import RemotePipeline
from levelwind.daemon.telemetry.pipeline_metrics import PipelineMetrics
from levelwind.streaming.spark.batches.progress import Progress

BATCH = Progress(
    batch=7,
    rows=100,
    rows_per_second=50.0,
    batch_ms=2000,
    durations={"addBatch": 1900, "triggerExecution": 2000},
    state_rows=3,
    state_bytes=4,
    behind=5,
    newest=1_000,
    rejected={"malformed key": 1},
    skipped={"planner": 2},
)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def remote(registry):
    return RemotePipeline(PipelineMetrics(registry))


@pytest.fixture
def totals():
    return ProgressTotals(instance="host/1", started_at=0)


def names(events):
    return [event["event"] for event in events]


def test_the_metrics_grow_by_what_was_done_between_two_records(remote, registry, totals):
    remote.look(None, 0.0)
    totals.add(BATCH, at=1_500)
    remote.look(totals.record(at=1, epoch=1), 1.0)
    totals.add(replace(BATCH, batch=8), at=2_500)
    totals.add(replace(BATCH, batch=9, newest=3_000, behind=0), at=3_600)
    totals.caught_up = 1.0
    second = totals.record(at=2, epoch=1)
    remote.look(second, 11.0)
    remote.look(second, 12.0)
    value = registry.get_sample_value
    assert value("levelwind_pipeline_up") == 1
    assert value("levelwind_pipeline_records_total") == 300
    assert value("levelwind_pipeline_rejected_records_total", {"reason": "malformed key"}) == 3
    assert value("levelwind_pipeline_skipped_records_total", {"kind": "planner"}) == 6
    assert value("levelwind_pipeline_phase_seconds_total", {"phase": "addBatch"}) == pytest.approx(
        5.7
    )
    assert value("levelwind_pipeline_batch_seconds_count") == 2
    assert value("levelwind_pipeline_delay_seconds_sum") == pytest.approx(1.1)
    assert value("levelwind_pipeline_newest_timestamp_seconds") == 3.0
    assert value("levelwind_pipeline_behind_records") == 0
    assert value("levelwind_pipeline_caught_up_ratio") == 1
    assert value("levelwind_pipeline_report_age_seconds") == 1.0


def test_what_was_written_before_the_term_is_neither_counted_nor_a_sign_of_life(
    remote, registry, totals
):
    totals.add(BATCH, at=1_500)
    with capture_logs() as events:
        remote.look(totals.record(at=1, epoch=1), 0.0)
        assert registry.get_sample_value("levelwind_pipeline_up") == 0
        totals.add(BATCH, at=1_500)
        remote.look(totals.record(at=2, epoch=1), 5.0)
    assert names(events) == ["pipeline.reporting"]
    assert registry.get_sample_value("levelwind_pipeline_records_total") == 100


def test_silence_for_three_intervals_is_logged_once_and_ends_with_the_next_record(
    remote, registry, totals
):
    with capture_logs() as events:
        remote.look(None, 0.0)
        remote.look(totals.record(at=1, epoch=1), 1.0)
        remote.look(totals.record(at=1, epoch=1), 12.9)
        assert names(events) == ["pipeline.reporting"]
        for now in (13.0, 14.0, 100.0):
            remote.look(totals.record(at=1, epoch=1), now)
        assert names(events) == ["pipeline.reporting", "pipeline.unreported"]
        assert events[-1]["seconds"] == 12
        assert registry.get_sample_value("levelwind_pipeline_up") == 0
        assert registry.get_sample_value("levelwind_pipeline_report_age_seconds") == 99
        totals.add(BATCH, at=1_500)
        remote.look(totals.record(at=2, epoch=1), 101.0)
    assert names(events)[2:] == ["pipeline.reporting"]
    assert registry.get_sample_value("levelwind_pipeline_up") == 1


def test_a_pipeline_that_never_reports_is_missed_as_well(remote):
    with capture_logs() as events:
        for now in (0.0, 11.0, 12.0, 13.0):
            remote.look(None, now)
    assert names(events) == ["pipeline.unreported"]
    assert events[0]["instance"] is None


def test_the_last_record_says_why_the_pipeline_ended_and_a_restart_counts_from_zero(
    remote, registry, totals
):
    with capture_logs() as events:
        remote.look(None, 0.0)
        totals.add(BATCH, at=1_500)
        remote.look(totals.record(at=1, epoch=1), 1.0)
        totals.error = "no room"
        remote.look(totals.record(at=2, epoch=1), 2.0)
        remote.look(totals.record(at=2, epoch=1), 90.0)
        assert names(events)[1:] == ["pipeline.ended"]
        assert events[-1]["error"] == "no room"
        assert registry.get_sample_value("levelwind_pipeline_deaths_total") == 1
        again = ProgressTotals(instance="host/2", started_at=5)
        again.add(BATCH, at=1_500)
        remote.look(again.record(at=3, epoch=2), 91.0)
    assert names(events)[2:] == ["pipeline.reporting"]
    assert registry.get_sample_value("levelwind_pipeline_records_total") == 200
