"""The poller's pause between two rounds, without brokers."""

import asyncio
from types import SimpleNamespace

import pytest

from levelwind.daemon.errors import FencedError
from levelwind.daemon.polling.commit_poller import CommitPoller
from levelwind.daemon.polling.settings import CommitSettings
from levelwind_testing.refused_threads import refused_threads
from levelwind_testing.waiting import wait_until


@pytest.fixture
def make_poller(monkeypatch, log):
    """Makes pollers whose rounds do nothing and are counted."""

    def make(interval):
        rounds = []

        async def count(begun):
            rounds.append(begun)

        config, settings = {"bootstrap.servers": "127.0.0.1:1"}, CommitSettings(interval=interval)
        topic = SimpleNamespace(close=lambda: rounds.append("closed"))
        poller = CommitPoller(config, settings, topic, lambda _: None, log)
        monkeypatch.setattr(poller, "_round", count)
        return poller, rounds

    return make


def test_a_poller_asks_on_where_the_system_gives_no_more_threads(make_poller):
    """It asked no more, and nobody said so."""
    poller, rounds = make_poller(0.01)
    with refused_threads("asyncio"):
        poller.start()
        wait_until("three rounds", lambda: len(rounds) > 2 or "closed" in rounds)
    assert "closed" not in rounds
    poller.stop()
    assert rounds[-1] == "closed"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fenced_poller_says_so_though_its_loop_gets_no_thread_to_end(make_poller, monkeypatch):
    """The end of the loop asks for a thread once a name was looked up in another one."""
    poller, rounds = make_poller(1e6)

    async def fenced(_begun):
        await asyncio.to_thread(int)
        raise FencedError("another daemon leads")

    monkeypatch.setattr(poller, "_round", fenced)
    with refused_threads("Thread-"):
        poller.start()
        wait_until("the end", lambda: rounds == ["closed"])
        poller.stop()  # its thread's error comes after that
    assert poller.fenced_reason == "another daemon leads"


def test_a_poller_that_rests_ends_at_once(make_poller):
    poller, rounds = make_poller(1e6)
    poller.start()
    wait_until("a round", lambda: rounds)
    poller.stop()
    assert rounds[1:] == ["closed"]
