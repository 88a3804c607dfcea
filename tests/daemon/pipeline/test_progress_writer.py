"""The pipeline's own record on real brokers: its interval, its epoch, and the younger pipeline."""

import threading
from types import SimpleNamespace

import pytest

from levelwind.assignors.protocol.records import PipelineRecord
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind.daemon.pipeline import progress_writer
from levelwind.daemon.pipeline.progress_totals import ProgressTotals
from levelwind.daemon.pipeline.progress_writer import ProgressWriter
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(client_config, topics):
    return Settings(bootstrap=client_config["bootstrap.servers"], prefix=topics.prefix)


def records(settings):
    read = read_to_end(settings.client(), settings.topics, ["triggers"])
    return [item.record for item in read]


class RunningWriter:
    """A writer that writes its first record alone, unless it is given another interval."""

    def __init__(self, settings, instance, *, interval=1e6, **options):
        self.totals = ProgressTotals(instance=instance, started_at=5)
        self.ended = threading.Event()
        self.writer = ProgressWriter(
            settings, self.totals, end=self.end, interval=interval, **options
        )
        self.writer.start()
        assert self.writer.claimed.wait(120)

    def end(self):
        self.ended.set()
        threading.Event().wait()  # the process has ended


class Clock:
    """The writers' clock: it stands still until a test sets it, and counts the looks at it."""

    def __init__(self):
        self.now = 0.0
        self.looks = 0

    def monotonic(self):
        self.looks += 1
        return self.now

    def await_looks(self, number=3):
        until = self.looks + number
        wait_until("looks at the clock", lambda: self.looks >= until)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    pauses = SimpleNamespace(monotonic=clock.monotonic, sleep=threading.Event().wait)
    monkeypatch.setattr(progress_writer, "time", pauses)
    monkeypatch.setattr(progress_writer, "POLL_SECONDS", 0.02)
    return clock


def test_the_record_of_a_younger_pipeline_ends_the_older_one_and_no_other(
    settings, monkeypatch, log
):
    monkeypatch.setattr(progress_writer, "log", log)
    older = RunningWriter(settings, "z-older")
    younger = RunningWriter(settings, "a-younger")
    assert older.ended.wait(120)
    older.writer.write_last()
    # What ends the younger one is not the record that the older one has just written.
    youngest = RunningWriter(settings, "m-youngest")
    assert younger.ended.wait(120)
    assert [event["instance"] for event in log.of("pipeline.superseded")] == [
        "a-younger",
        "m-youngest",
    ]
    assert not youngest.ended.is_set()
    written = records(settings)
    assert [(record.instance, record.epoch) for record in written] == [
        ("z-older", 1),
        ("a-younger", 2),
        ("z-older", 1),
        ("m-youngest", 3),
    ]
    assert all(isinstance(record, PipelineRecord) for record in written)


def test_a_record_is_written_at_its_interval_while_spark_answers_and_once_at_the_end(
    settings, clock
):
    answers = threading.Event()
    answers.set()
    running = RunningWriter(settings, "i", is_alive=answers.is_set, interval=2.0)
    written = 1
    for now, more in ((1.99, 0), (2.0, 1), (3.99, 0), (9.0, 1), (10.99, 0)):
        clock.now = now
        clock.await_looks()
        written += more
        wait_until("record of the interval", lambda many=written: len(records(settings)) >= many)
        assert len(records(settings)) == written
    answers.clear()
    for now in (60.0, 70.0, 80.0):
        clock.now = now
        clock.await_looks()
    answers.set()
    wait_until("record after the silence", lambda: len(records(settings)) > written)
    running.totals.error = "no room"
    running.writer.write_last()
    # None was written besides.
    assert len(records(settings)) == written + 2
    *_, last = records(settings)
    assert (last.state, last.error) == ("ended", "no room")
