"""`PublishedPlans` where the system gives no thread, without brokers."""

import pytest

from levelwind.assignors.clients import published_plans
from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind_testing.refused_threads import REFUSAL, refused_threads
from levelwind_testing.waiting import GENEROUS_SECONDS


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
