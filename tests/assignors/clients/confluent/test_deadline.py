"""A wait for what librdkafka may still send: over only when both clocks say so."""

from types import SimpleNamespace

import pytest

from levelwind.assignors.clients.confluent.committing import deadline
from levelwind.assignors.clients.confluent.committing.deadline import PASSED, Deadline


@pytest.fixture
def clocks(monkeypatch):
    clocks = {"boot": 1000.0, "monotonic": 50.0}
    monkeypatch.setattr(deadline, "boot_seconds", lambda: clocks["boot"])
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: clocks["monotonic"]))
    return clocks


def test_a_wait_does_not_end_while_the_machine_sleeps(clocks):
    wait = Deadline.after(12)
    clocks["boot"] += 3600  # librdkafka's clock stands still meanwhile: it has waited for nothing
    assert not wait.passed
    clocks["monotonic"] += 11.9
    assert not wait.passed
    clocks["monotonic"] += 0.1
    assert wait.passed


def test_the_boot_clock_alone_does_not_end_it_either(clocks):
    wait = Deadline.after(12)
    clocks["monotonic"] += 20
    assert not wait.passed
    clocks["boot"] += 12
    assert wait.passed


def test_no_wait_has_passed():
    assert PASSED.passed
