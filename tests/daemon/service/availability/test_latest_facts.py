"""Facts about the control that one thread takes and others ask for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from levelwind.daemon.service.availability import latest_facts
from levelwind.daemon.service.availability.latest_facts import LatestFacts

LONG = 60.0
"""Seconds that no wait of these tests lasts."""


@pytest.fixture
def facts(monkeypatch):
    """Facts that are the state itself."""
    monkeypatch.setattr(latest_facts, "facts_about", lambda state: state)
    return LatestFacts()


def test_the_first_facts_are_taken_unasked_and_further_ones_only_when_somebody_asked(facts):
    assert facts.get() is None
    facts.offer("first")
    facts.offer("nobody asked")
    assert facts.get() == "first"
    facts.offer("asked")
    facts.offer("nobody asked again")
    assert facts.get() == "asked"


def test_who_waits_gets_facts_that_were_taken_after_the_question(facts):
    facts.offer("first")
    facts.get()
    over = threading.Event()

    def offers():
        while not over.is_set():
            facts.offer("new")

    with ThreadPoolExecutor() as pool:
        asked = pool.submit(facts.get, LONG)
        pool.submit(offers)
        assert asked.result(LONG) == "new"
        over.set()


def test_whose_patience_ends_gets_the_facts_of_before(facts):
    facts.offer("first")
    assert facts.get(0.001) == "first"


def test_nobody_waits_for_a_control_that_does_not_lead_yet(facts):
    assert facts.get(LONG) is None
