"""An observer that is asked to end asks the brokers nothing more, and writes nothing more."""

from types import SimpleNamespace

import pytest

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.observer.cluster_probe import UnansweredError
from levelwind.daemon.observer.cluster_state import ClusterState
from levelwind.daemon.observer.observer import METADATA_JOB, Observer
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind_testing.records import offsets
from levelwind_testing.records import topic as layout

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


class EndingAdmin:
    """An admin client during whose first answer the observer is asked to end."""

    def __init__(self, end):
        self.end, self.calls = end, []

    def __getattr__(self, name):
        def call(*_, **__):
            self.calls.append(name)
            if name != "poll":
                self.end()
            return SimpleNamespace(brokers={}, topics={})

        return call


class UnansweredProducer:
    """A producer whose messages no broker acknowledges."""

    def __init__(self, end=lambda: None):
        self.end, self.sent, self.flushed = end, [], []

    def list_topics(self, name, **_):
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: None})})

    def produce(self, *arguments, **_):
        self.sent.append(arguments)

    def poll(self, _timeout):
        pass

    def flush(self, timeout):
        self.flushed.append(timeout)
        self.end()
        return len(self.sent)

    def purge(self):
        self.sent.clear()


@pytest.fixture
def ticks():
    return []


@pytest.fixture
def observer(log, ticks):
    observer = Observer(
        NOWHERE, Topics("lw."), ObserverSettings(), log, lambda *tick: ticks.append(tick)
    )
    observer._topic.recover = lambda _within: ClusterState()
    yield observer
    observer.close()


def test_a_tick_asks_no_further_question(observer, monkeypatch, log, ticks):
    admin = EndingAdmin(observer.ask_to_end)
    monkeypatch.setattr(observer._client, "_client", admin)
    observer.tick_metadata()
    assert admin.calls == ["poll", "list_topics"]
    observer.tick_metadata()
    observer.tick_offsets()
    assert admin.calls == ["poll", "list_topics"]
    assert log.of("observer.unreachable") == []
    assert ticks == []  # neither answered nor unanswered


def test_a_tick_that_begins_with_the_end_has_not_failed(observer, monkeypatch, ticks):
    def pausing(_):
        observer.ask_to_end()
        return False

    monkeypatch.setattr(observer, "_outages", {METADATA_JOB: SimpleNamespace(pausing=pausing)})
    observer.tick_metadata()
    assert ticks == []


def test_changes_that_nobody_acknowledges_are_waited_for_no_longer(observer):
    topic = observer._topic
    topic._producer = producer = UnansweredProducer(observer.ask_to_end)
    with pytest.raises(UnansweredError, match="1 changes were not acknowledged in time"):
        topic.publish([layout("t", ((),))], ())
    assert producer.flushed == [1.0]


def test_nothing_is_written_any_more_and_what_waits_is_dropped(observer):
    topic = observer._topic
    topic._producer = producer = UnansweredProducer()
    topic.offer([offsets("t", [3], at=1)])
    assert producer.sent
    observer.ask_to_end()
    waiting = list(producer.sent)
    for write in (
        lambda: topic.offer([offsets("t", [4], at=2)]),
        lambda: topic.publish([layout("t", ((),))], ()),
    ):
        with pytest.raises(UnansweredError, match="ends"):
            write()
    assert producer.sent == waiting
    observer.close()
    assert producer.sent == []
