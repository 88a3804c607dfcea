"""Failures of a member that come with each poll: a line at once, and another one after a while."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from levelwind.assignors.clients.confluent import event_log
from levelwind.assignors.clients.confluent.following.obstacles import REMINDER_SECONDS, Obstacles
from levelwind.assignors.protocol.topics import Topics

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)
SUBSCRIBED = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)

FAILURES = {
    "member.commit_failed": lambda obstacles: obstacles.commit_failed(TIMED_OUT),
    "member.commit_refused": lambda obstacles: obstacles.commit_failed(SUBSCRIBED),
    "member.grant_retried": lambda obstacles: obstacles.grant_retried(TIMED_OUT, "t"),
}


@pytest.mark.parametrize("event", FAILURES)
def test_a_failure_that_repeats_is_logged_at_once_and_then_after_each_interval(
    event, caplog, monkeypatch
):
    now = 1_000.0
    monkeypatch.setattr(event_log, "boot_seconds", lambda: now)
    obstacles = Obstacles(
        group="g",
        topics=Topics("levelwind."),
        heartbeat=REMINDER_SECONDS,
        identity=lambda: {"instance": "i"},
        admin=None,
    )
    monkeypatch.setattr(obstacles, "look_for_subscribers", lambda: None)
    lines = []
    for _ in range(100):
        FAILURES[event](obstacles)
        lines.append(caplog.text.count(event))
        now += 0.5
    assert lines == [1 + int(index * 0.5 // REMINDER_SECONDS) for index in range(100)]
