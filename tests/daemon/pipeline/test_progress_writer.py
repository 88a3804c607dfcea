"""The pipeline's own record on real brokers: its interval, its epoch, and the younger pipeline."""

import threading
import time

import pytest

from assignors.protocol.records import PipelineRecord
from daemon.config.settings import Settings
from daemon.kafka.topic_reader import ConsumedRecord, read_to_end
from daemon.pipeline.progress_totals import ProgressTotals
from daemon.pipeline.progress_writer import ProgressWriter

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(client_config, topics):
    return Settings(bootstrap=client_config["bootstrap.servers"], prefix=topics.prefix)


def records(settings):
    read = read_to_end(settings.client(), settings.topics, ["triggers"])
    return [item.record for item in read if isinstance(item, ConsumedRecord)]


class RunningWriter:
    def __init__(self, settings, instance, **options):
        self.totals = ProgressTotals(instance=instance, started_at=5)
        self.ended = threading.Event()
        self.writer = ProgressWriter(settings, self.totals, end=self.end, **options)
        self.writer.start()
        assert self.writer.claimed.wait(60)

    def end(self):
        self.ended.set()
        threading.Event().wait()  # the process has ended


def test_the_record_of_a_younger_pipeline_ends_the_older_one_and_no_other(settings):
    older = RunningWriter(settings, "z-older")
    younger = RunningWriter(settings, "a-younger")
    assert older.ended.wait(30)
    assert not younger.ended.wait(3)
    written = records(settings)
    assert [(record.instance, record.epoch) for record in written] == [
        ("z-older", 1),
        ("a-younger", 2),
    ]
    assert all(isinstance(record, PipelineRecord) for record in written)


def test_a_record_is_written_at_its_interval_while_spark_answers_and_once_at_the_end(settings):
    answers = threading.Event()
    answers.set()
    running = RunningWriter(settings, "i", is_alive=answers.is_set, interval=2.0)
    begun = time.monotonic()
    while len(records(settings)) < 3:
        assert time.monotonic() - begun < 60
        time.sleep(0.2)
    answers.clear()
    time.sleep(1.5)
    before = len(records(settings))
    assert before <= 2 + (time.monotonic() - begun) / 2.0
    time.sleep(5)
    assert len(records(settings)) == before
    running.totals.error = "no room"
    running.writer.write_last()
    *_, last = records(settings)
    assert (last.state, last.error) == ("ended", "no room")
