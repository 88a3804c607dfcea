"""`PublishedPlans` where the system gives no thread, without brokers."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from levelwind.assignors.clients import published_plans
from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind_testing.refused_threads import REFUSAL, refused_threads
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until


@pytest.fixture
def plans(monkeypatch):
    """A source whose first call got no thread."""
    monkeypatch.setattr(published_plans, "METADATA_TIMEOUT_SECONDS", 0.01)
    plans = PublishedPlans({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "g")
    with refused_threads("levelwind-plans"), pytest.raises(RuntimeError, match=REFUSAL):
        plans.follow(notify)
    return plans


def notify():
    """Take no notice of a newer plan."""


def test_a_source_follows_with_the_next_call(plans):
    """It never did."""
    plans.follow(notify)
    assert plans.newest(GENEROUS_SECONDS) is None
    assert plans._first_look.is_set()
    plans.close()


def test_a_source_closes_without_its_thread(plans):
    """It raised an error that no thread was there to be joined."""
    plans.close()


def test_a_source_whose_reader_got_no_thread_looks_again(monkeypatch):
    """Its own thread ended, and no call began another."""
    made = []

    def make(config):
        made.append(config)
        if len(made) == 1:
            raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))
        return Consumer(config)

    monkeypatch.setattr(published_plans, "Consumer", make)
    monkeypatch.setattr(published_plans, "METADATA_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(published_plans, "RETRY_SECONDS", 0.01)
    plans = PublishedPlans({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "g")
    plans.follow(notify)
    assert plans.newest(GENEROUS_SECONDS) is None
    assert plans._first_look.is_set()
    wait_until("another reader", lambda: len(made) > 1)
    plans.close()


def test_a_source_whose_thread_has_ended_follows_with_the_next_call(monkeypatch, plans):
    monkeypatch.setattr(published_plans, "_read", lambda *_: None)
    plans.follow(notify)
    wait_until("the end of the thread", lambda: not plans._thread.is_alive())
    monkeypatch.undo()
    plans.follow(notify)
    assert plans._thread.is_alive()
    plans.close()
