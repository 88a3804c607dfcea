"""Facts about the control that one thread takes and others ask for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from levelwind.daemon.service.availability import latest_facts
from levelwind.daemon.service.availability.latest_facts import (
    FRESH_SECONDS,
    WANTED_SECONDS,
    LatestFacts,
)

LONG = 60.0
"""Seconds that no wait of these tests lasts."""


class Taken:
    """Facts that are the state itself, by a clock that a test sets."""

    def __init__(self):
        self.now = 100.0
        self.facts = LatestFacts(lambda: self.now)

    def offer(self, state, after=0.0):
        self.now += after
        self.facts.offer(state)

    def get(self, patience=0.0):
        return self.facts.get(patience)


@pytest.fixture
def taken(monkeypatch):
    monkeypatch.setattr(latest_facts, "facts_about", lambda state: state)
    return Taken()


def test_the_first_facts_are_taken_unasked_and_others_while_somebody_asks(taken):
    taken.offer("first")
    taken.offer("nobody asked", after=0.5)
    assert taken.get() == "first"
    taken.offer("asked", after=0.5)
    assert taken.get() == "asked"
    taken.offer("asked a moment ago", after=WANTED_SECONDS)
    taken.offer("asked long ago", after=0.5)
    assert taken.get() == "asked a moment ago"


def test_who_has_patience_gets_newer_facts_than_old_ones(taken):
    taken.offer("old")
    taken.now += 2 * FRESH_SECONDS
    over = threading.Event()

    def offers():
        while not over.is_set():
            taken.offer("new")

    with ThreadPoolExecutor() as pool:
        asked = pool.submit(taken.get, LONG)
        pool.submit(offers)
        try:
            found = asked.result(LONG)
        finally:
            over.set()
    assert found == "new"


def test_nobody_waits_for_newer_facts_than_those_of_a_moment_ago(taken):
    taken.offer("first")
    taken.now += FRESH_SECONDS / 2
    assert taken.get(LONG) == "first"


def test_whose_patience_ends_gets_the_old_facts(taken):
    taken.offer("old")
    taken.now += 2 * FRESH_SECONDS
    assert taken.get(0.001) == "old"


def test_nobody_waits_for_a_control_that_does_not_lead_yet(taken):
    assert taken.get(LONG) is None
    taken.offer("first")
    assert taken.get() == "first"
