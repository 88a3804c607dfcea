"""When a leader leaves it to another daemon to publish."""

from types import SimpleNamespace

import pytest

from levelwind.daemon.service import term as service
from levelwind.daemon.service.term import Term

LIMIT = 30.0


@pytest.mark.parametrize(
    ("canaries", "waited", "given_up"),
    [
        ({0: 101.0, 1: 90.0}, LIMIT, True),
        ({0: 101.0, 1: 90.0}, LIMIT - 1, False),
        ({0: 90.0, 1: 90.0}, 10 * LIMIT, False),
        ({}, 10 * LIMIT, False),
        (None, LIMIT, True),
        (None, LIMIT - 1, False),
    ],
    ids=[
        "one broker takes canaries",
        "not for long yet",
        "no broker takes any",
        "none was ever taken",
        "none is written yet",
        "none is written yet, and not for long",
    ],
)
def test_who_can_write_canaries_and_no_plans_gives_up(monkeypatch, canaries, waited, given_up):
    monkeypatch.setattr(service, "boot_seconds", lambda: 100.0 + waited)
    canary = None if canaries is None else SimpleNamespace(written=lambda: canaries)
    settings = SimpleNamespace(topic=SimpleNamespace(timeout=LIMIT))
    parts = SimpleNamespace(_canary=canary, _settings=settings)
    assert Term._cannot_publish(parts, since=100.0) is given_up
