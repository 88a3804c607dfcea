import json
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from levelwind.daemon.config.settings import PipelineSection
from levelwind.daemon.pipeline.reporter import ProgressReporter
from levelwind.daemon.pipeline.supervisor import relay
from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark import checkpoint
from levelwind.streaming.spark.batches.progress import (
    NothingToRead,
    Progress,
    Terminated,
    unread_offsets,
)
from levelwind.streaming.spark.checkpoint import CheckpointShape, SetAside
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles

BATCH = Progress(
    batch=7,
    rows=100,
    rows_per_second=50.0,
    batch_ms=2000,
    durations={"addBatch": 1900},
    state_rows=3,
    state_bytes=4,
    behind=0,
    newest=1_000,
    rejected={},
    skipped={"planner": 2},
)
DAMAGED = Terminated(
    error="[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\n"
    "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/q/1.changelog at 0"
)
FULL = Terminated(error="Caused by: java.io.IOException: No space left on device")
UNKNOWN = Terminated(error="java.lang.NullPointerException")
DEATHS = Path(__file__).parents[2] / "data" / "spark_deaths.jsonl"
OF_THE_MACHINE = [
    death
    for death in map(json.loads, DEATHS.read_text().splitlines())
    if death["cause"] == "machine"
]


def started(directory):
    """A reporter of a pipeline that was started 10 s ago."""
    return ProgressReporter(
        LocalFiles(directory), begun=0.0, clock=lambda: 10.0, emit=lambda _: None
    )


@pytest.fixture
def reporter(tmp_path):
    return started(tmp_path)


def events_of(reporter, *states):
    with capture_logs() as events:
        for state in states:
            reporter.on_progress(state)
    return {event["event"]: event for event in events}


def test_every_batch_is_emitted_and_a_line_of_progress_is_said_now_and_then(tmp_path):
    emitted, times = [], iter((0.0, 5.0, 11.0))
    reporter = ProgressReporter(
        LocalFiles(tmp_path), begun=0.0, clock=lambda: next(times), emit=emitted.append
    )
    with capture_logs() as events:
        for number in range(3):
            reporter.on_progress(replace(BATCH, batch=number))
    assert [event["batch"] for event in emitted] == [0, 1, 2]
    assert [e["batch"] for e in events if e["event"] == "pipeline.progress"] == [0, 2]
    assert json.loads(json.dumps(emitted[0])) == emitted[0]


def test_a_backlog_is_told_in_percent_with_the_time_left_until_it_is_read(reporter):
    events = events_of(reporter, replace(BATCH, behind=300))
    assert events["pipeline.catching_up"]["percent"] == 25
    assert events["pipeline.catching_up"]["seconds_left"] == 6
    events = events_of(reporter, replace(BATCH, rows=300))
    assert events["pipeline.caught_up"]["rows"] == 400
    assert not events["pipeline.caught_up"]["rebuilt"]
    assert "pipeline.caught_up" not in events_of(reporter, BATCH)


def test_how_long_it_took_to_build_the_state_anew_is_said(reporter, tmp_path):
    with capture_logs() as events:
        reporter.on_set_aside(
            SetAside(moved_to=tmp_path / "query.set-aside-t", reason="its cluster is another")
        )
        reporter.on_progress(BATCH)
    by_name = {event["event"]: event for event in events}
    assert by_name["pipeline.checkpoint_set_aside"]["reason"] == "its cluster is another"
    assert by_name["pipeline.caught_up"]["rebuilt"]
    assert by_name["pipeline.caught_up"]["seconds"] == 10.0


def given_up(directory):
    return checkpoint.prepare(
        LocalFiles(directory), CheckpointShape(cluster_id="C", prefix="p"), now="t"
    ).set_aside


def test_a_query_that_dies_of_its_checkpoint_has_it_set_aside_at_the_next_start(reporter, tmp_path):
    assert given_up(tmp_path) is None
    event = events_of(reporter, BATCH, DAMAGED)["pipeline.failed"]
    assert (event["cause"], event["rebuild"]) == ("checkpoint", True)
    assert reporter.ended.is_set()
    assert "ChecksumException" in given_up(tmp_path).reason


def test_a_full_disk_costs_no_checkpoint_however_often(reporter, tmp_path):
    given_up(tmp_path)
    for _ in range(5):
        event = events_of(reporter, FULL)["pipeline.failed"]
        assert (event["cause"], event["rebuild"]) == ("machine", False)
    assert given_up(tmp_path) is None


@pytest.mark.parametrize("death", OF_THE_MACHINE, ids=lambda death: death["how"])
def test_a_fault_of_the_environment_costs_no_checkpoint_however_often(death, tmp_path):
    given_up(tmp_path)
    for _ in range(5):
        starts = started(tmp_path)
        event = events_of(starts, Terminated(error=death["text"]))["pipeline.failed"]
        assert (event["cause"], event["rebuild"]) == ("machine", False)
    assert given_up(tmp_path) is None


def test_unknown_deaths_before_the_first_batch_cost_the_checkpoint_the_fourth_time_in_a_row(
    tmp_path,
):
    given_up(tmp_path)
    verdicts = []
    for batches in ([], [], [], [BATCH], [], [], [], []):
        starts = started(tmp_path)
        verdicts.append(events_of(starts, *batches, UNKNOWN)["pipeline.failed"]["rebuild"])
    assert verdicts == [False] * 7 + [True]
    assert given_up(tmp_path) is not None


def test_a_state_that_no_start_can_load_is_rebuilt_before_the_daemon_gives_up():
    assert PipelineSection().restarts >= checkpoint.MAX_FAILED_STARTS


def test_a_death_while_the_files_cannot_be_reached_counts_for_nothing(tmp_path):
    files = Refusing(tmp_path)
    for refusal in 10 * [PipelineError("the store is away"), *3 * [None], OSError(5, "EIO")]:
        files.refusal = None
        checkpoint.clear_failures(files)
        files.refusal = refusal
        assert not checkpoint.record_failed_start(files, "?")
    files.refusal = None
    assert files.read(checkpoint.QUARANTINED) is None


class Refusing(LocalFiles):
    """A file system that refuses everything while `refusal` is set."""

    refusal: Exception | None = None

    def _refuse(self):
        if self.refusal is not None:
            raise self.refusal

    def read(self, name):
        self._refuse()
        return super().read(name)

    def write(self, name, content):
        self._refuse()
        super().write(name, content)

    def delete(self, name):
        self._refuse()
        super().delete(name)


REFUSALS = [OSError(5, "Input/output error"), PipelineError("the checkpoint cannot be read")]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["local", "remote"])
@pytest.mark.parametrize("death", [DAMAGED, FULL, UNKNOWN], ids=lambda death: death.error[:20])
def test_the_end_is_logged_and_noticed_where_the_checkpoints_files_cannot_be_reached(
    tmp_path, refusal, death
):
    files = Refusing(tmp_path)
    files.refusal = refusal
    reporter = ProgressReporter(files, begun=0.0, emit=lambda _: None)
    event = events_of(reporter, death)["pipeline.failed"]
    assert not event["rebuild"]
    assert reporter.ended.is_set()
    assert reporter.caught_up.is_set()


def test_the_end_is_noticed_where_it_cannot_even_be_logged(reporter, monkeypatch):
    monkeypatch.setattr("levelwind.daemon.pipeline.reporter.log", None)
    with pytest.raises(AttributeError):
        reporter.on_progress(UNKNOWN)
    assert reporter.ended.is_set()
    assert reporter.caught_up.is_set()


@pytest.mark.parametrize("refusal", REFUSALS, ids=["local", "remote"])
def test_a_batch_is_reported_and_ends_the_count_of_failed_starts_once_the_files_can_be_reached(
    tmp_path, refusal
):
    files = Refusing(tmp_path)
    checkpoint.record_failed_start(files, "?")
    files.refusal, emitted = refusal, []
    reporter = ProgressReporter(files, begun=0.0, emit=emitted.append)
    assert "pipeline.progress" in events_of(reporter, BATCH)
    files.refusal = None
    assert files.read(checkpoint.FAILED_STARTS) is not None
    events_of(reporter, BATCH)
    assert files.read(checkpoint.FAILED_STARTS) is None
    assert len(emitted) == 2


@pytest.mark.parametrize(
    "error", ["java.lang.NullPointerException", "An error occurred while calling o321.start"]
)
def test_what_spark_refuses_to_start_costs_no_checkpoint_however_often(error, tmp_path):
    given_up(tmp_path)
    for _ in range(5):
        starts = started(tmp_path)
        event = events_of(starts, Terminated(error=error, at_start=True))["pipeline.failed"]
        assert not event["rebuild"]
        assert error in event["error"]
        assert event["error"].startswith("Spark")
    assert given_up(tmp_path) is None


def test_a_restart_that_finds_nothing_to_read_says_once_that_it_has_caught_up(reporter):
    event = events_of(reporter, NothingToRead())["pipeline.caught_up"]
    assert (event["rows"], event["seconds"], event["rebuilt"]) == (0, 10.0, False)
    assert reporter.caught_up.is_set()
    assert events_of(reporter, NothingToRead()) == {}


def test_what_is_left_unread_is_counted_over_all_partitions():
    end, latest = (
        {"a": {"0": 5, "1": 7}, "b": {"0": 1}},
        {"a": {"0": 9, "1": 7, "2": 3}, "b": {"0": 0}},
    )
    assert unread_offsets(end, latest) == 7
    assert unread_offsets(None, {}) == 0


def test_the_parent_hears_each_event_of_the_child():
    events = []
    with capture_logs():
        relay(
            [b'{"event": "pipeline.batch", "level": "debug", "rows": 3}\n', b"noise\n"],
            events.append,
        )
    assert events == [{"event": "pipeline.batch", "rows": 3}]
