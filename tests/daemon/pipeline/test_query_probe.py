from types import SimpleNamespace

import pytest

from levelwind.daemon.pipeline.query_probe import SparkProbe
from levelwind.streaming.spark import session
from levelwind.streaming.spark.batches.progress import NothingToRead, Terminated, read_progress

BATCH = read_progress(
    {
        "batchId": 1,
        "numInputRows": 1,
        "durationMs": {"triggerExecution": 1},
        "stateOperators": [],
        "sources": [{"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 5}}}],
    },
    (),
)


class Unread:
    """What the brokers have for the query, as a test says."""

    def __init__(self):
        self.heard, self.left, self.serving = [], False, False

    def start(self):
        self.heard.append("start")

    def on_batch(self, read):
        self.heard.append(dict(read))

    def on_idle(self):
        self.heard.append("idle")

    def is_left_unread(self):
        return self.left

    def are_brokers_serving(self):
        return self.serving

    def unserved(self):
        return None if self.serving else "no leader of a/3"


@pytest.fixture
def reported():
    return []


@pytest.fixture
def unread():
    return Unread()


@pytest.fixture
def probe(unread, reported):
    return SparkProbe(None, SimpleNamespace(on_progress=reported.append), unread)


def test_what_the_query_has_read_is_known_to_whoever_asks_for_its_input(probe, unread, reported):
    probe.follow(None)
    news = [BATCH, NothingToRead(), Terminated(error="none")]
    for each in news:
        probe.on_progress(each)
    assert unread.heard == ["start", {("a", 0): 5}, "idle"]
    assert reported == news


@pytest.mark.parametrize("working", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_a_query_that_waits_beside_input_works_as_one_in_a_batch_does(
    monkeypatch, probe, unread, working, left
):
    monkeypatch.setattr(session, "is_working", lambda *_: working)
    unread.left = left
    assert probe.is_working() is (working or left)


def test_what_no_broker_serves_is_known_to_the_heartbeat(probe, unread):
    assert probe.unserved() == "no leader of a/3"
    unread.serving = True
    assert probe.unserved() is None


def test_a_query_has_input_where_the_brokers_serve_others(probe, unread):
    assert not probe.is_fed()
    unread.serving = True
    assert probe.is_fed()
