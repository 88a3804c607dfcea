"""Records in the pipeline's topics that were not published again since the state was rebuilt."""

import threading

import pytest

from levelwind.assignors.protocol.records import Tombstone, TriggerRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka.topic_reader import ConsumedRecord
from levelwind.daemon.pipeline import process as pipeline_process
from levelwind.daemon.pipeline.process import verify_stale_output
from levelwind.daemon.pipeline.progress_totals import ProgressTotals
from levelwind.daemon.pipeline.stale_output import unconfirmed_keys
from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark import checkpoint
from levelwind.streaming.spark.checkpoint import CheckpointShape
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles
from levelwind_testing import records

TOPICS = Topics()
SHAPE = CheckpointShape(cluster_id="C", prefix="p")
LAG, TRIGGERS = TOPICS.lag, TOPICS.triggers


@pytest.fixture
def files(tmp_path):
    return LocalFiles(tmp_path)


def entry(offset, record, partition=0):
    kind = "triggers" if record.key[0] == "skew" else "lag"
    return ConsumedRecord(kind=kind, record=record, partition=partition, offset=offset, timestamp=5)


def skewed(group):
    evidence = records.skew_evidence()
    return TriggerRecord(group=group, at=1, since=1, evidence=evidence, source={})


def asked(entries, former):
    return [
        (request.topic, request.partition, request.offset)
        for request in unconfirmed_keys(entries, former, TOPICS, 9)
    ]


def test_what_was_said_before_and_not_since_is_asked_about():
    entries = [entry(0, skewed("g")), entry(1, skewed("h")), entry(2, skewed("h"))]
    assert asked(entries, {f"{TRIGGERS}/0": 2}) == [(TRIGGERS, 0, 0)]
    assert asked(entries, {f"{TRIGGERS}/0": 3}) == [(TRIGGERS, 0, 0), (TRIGGERS, 0, 2)]
    (first, _) = unconfirmed_keys(entries, {f"{TRIGGERS}/0": 3}, TOPICS, 9)
    assert (first.raw_key, first.raw_value, first.at) == (b'["skew","g"]', None, 9)


def test_what_has_ended_is_not_asked_about():
    entries = [entry(0, skewed("g")), entry(1, Tombstone(("skew", "g")))]
    assert asked(entries, {f"{TRIGGERS}/0": 9}) == []


def test_a_partition_of_which_nothing_was_written_before_has_nothing_doubtful():
    assert asked([entry(0, skewed("g"), partition=3)], {f"{TRIGGERS}/0": 9}) == []


def test_a_checkpoint_that_is_begun_remembers_what_was_written_until_it_is_looked_through(files):
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 7})
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 9})  # went on from it
    assert checkpoint.unverified(files) == {f"{LAG}/0": 7}
    asked_about = []
    verify_stale_output(files, asked_about.append, threading.Event())
    verify_stale_output(files, asked_about.append, threading.Event())
    assert asked_about == [{f"{LAG}/0": 7}]


def test_it_says_how_much_was_asked_about_if_anything(files, monkeypatch, log):
    monkeypatch.setattr(pipeline_process, "log", log)
    for asked_about in (0, 3):
        checkpoint.quarantine(files, "damaged")
        checkpoint.prepare(files, SHAPE, now=str(asked_about), written={f"{LAG}/0": 7})
        verify_stale_output(files, lambda _, count=asked_about: count, threading.Event())
    assert log.events == [{"event": "pipeline.stale_output_checked", "level": "info", "keys": 3}]


def test_a_checkpoint_that_is_set_aside_makes_all_doubtful_again(files):
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 7})
    checkpoint.mark_verified(files)
    checkpoint.quarantine(files, "damaged")
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 9})
    assert checkpoint.unverified(files) == {f"{LAG}/0": 9}


def test_what_the_cluster_does_not_take_is_asked_again_at_the_next_start(files):
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 7})
    ended = threading.Event()

    def refused(_former):
        ended.set()  # the query dies meanwhile
        raise ClusterUnavailableError("no answer")

    verify_stale_output(files, refused, ended)
    assert checkpoint.unverified(files) == {f"{LAG}/0": 7}


def test_a_checkpoint_whose_files_cannot_be_reached_is_looked_at_again_and_ends_nothing(
    files, monkeypatch
):
    """A query that runs is not ended for what may be done at any time."""
    monkeypatch.setattr(pipeline_process, "RETRY_SECONDS", 0.0)
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 7})
    refusals = [PipelineError("cannot be read"), OSError(5, "Input/output error")]
    read, asked_about = files.read, []

    def reluctant(name):
        if refusals:
            raise refusals.pop()
        return read(name)

    monkeypatch.setattr(files, "read", reluctant)
    verify_stale_output(files, asked_about.append, threading.Event())
    assert asked_about == [{f"{LAG}/0": 7}]
    assert checkpoint.unverified(files) is None


def test_the_query_is_asked_once_where_that_cannot_be_noted(files, monkeypatch, log):
    """As where a bucket's policy refuses deletes: each question reads two topics to their end."""
    monkeypatch.setattr(pipeline_process, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(pipeline_process, "log", log)
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 7})
    refusals = [PipelineError("AccessDenied: s3:DeleteObject")] * 3
    delete, asked_about = files.delete, []

    def reluctant(name):
        if refusals:
            raise refusals.pop()
        delete(name)

    def ask(ends):
        asked_about.append(ends)
        return 4

    monkeypatch.setattr(files, "delete", reluctant)
    verify_stale_output(files, ask, threading.Event())
    assert asked_about == [{f"{LAG}/0": 7}]
    assert checkpoint.unverified(files) is None
    assert log.events == [
        {"event": "pipeline.stale_output_checked", "level": "info", "keys": 4},
        {
            "event": "pipeline.stale_output_unchecked",
            "level": "warning",
            "error": "AccessDenied: s3:DeleteObject",
        },
    ]


def test_a_question_that_the_cluster_refuses_is_said_once_and_asked_again(files, monkeypatch, log):
    monkeypatch.setattr(pipeline_process, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(pipeline_process, "log", log)
    checkpoint.prepare(files, SHAPE, now="t", written={f"{LAG}/0": 7})
    answers = [0, ClusterUnavailableError("no answer"), ClusterUnavailableError("no answer")]

    def ask(_ends):
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    verify_stale_output(files, ask, threading.Event())
    assert checkpoint.unverified(files) is None
    assert [(event["event"], event["error"]) for event in log.events] == [
        ("pipeline.stale_output_unchecked", "no answer")
    ]


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_memory_that_is_garbled_asks_about_nothing(files, content):
    files.write(checkpoint.UNVERIFIED, content.encode())
    asked_about = []
    verify_stale_output(files, asked_about.append, threading.Event())
    assert asked_about == [{}]
    assert checkpoint.unverified(files) is None


def test_the_pipelines_own_record_is_never_asked_about():
    record = ProgressTotals(instance="i", started_at=0).record(at=1, epoch=1)
    own = ConsumedRecord(kind="triggers", record=record, partition=0, offset=0, timestamp=5)
    assert asked([own], {f"{TRIGGERS}/0": 9}) == []
