"""The follower's mailbox, without brokers: what it withholds from the member."""

import threading
import time

import pytest

from assignors.clients.confluent.committing import deadline
from assignors.clients.confluent.following.follower import AssignmentFollower
from assignors.clients.confluent.settings import client_settings, member_profile
from assignors.handover import member_events as ev
from assignors.handover.member_state import MemberMachine
from assignors.handover.timers import Timers

TIMERS = Timers()
UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.fixture
def follower(monkeypatch):
    profile = member_profile(
        UNREACHABLE,
        group="g",
        topics=["t"],
        instance="i",
        rack=None,
        priority=0,
        capacity=1.0,
        fencing="none",
        prefix="lw.",
    )
    follower = AssignmentFollower(
        member=MemberMachine.create(profile=profile, timers=TIMERS, incarnation="one"),
        settings=client_settings(UNREACHABLE, profile=profile, timers=TIMERS),
        prefix="lw.",
    )
    follower.handled = []
    monkeypatch.setattr(follower, "_handle", follower.handled.append)
    yield follower
    follower._reader.stop()


@pytest.fixture
def clocks(monkeypatch):
    class Clocks:
        boot, still = 1000.0, 50.0

        @classmethod
        def monotonic(cls):
            return cls.still

    monkeypatch.setattr(deadline, "boot_seconds", lambda: Clocks.boot)
    monkeypatch.setattr(deadline, "time", Clocks)
    return Clocks


def take_what_is_due(follower):
    while not follower._mailbox.empty():
        follower._take(follower._mailbox.get())
    follower._take_held()


def test_a_revocation_with_an_unknown_commit_is_reported_once_both_clocks_have_gone_on(
    follower, clocks
):
    follower.post_undecided()
    clocks.boot += 3600  # the machine slept: librdkafka still waits, and may send the commit yet
    take_what_is_due(follower)
    assert follower.handled == []
    clocks.still += TIMERS.commit
    take_what_is_due(follower)
    assert follower.handled == [ev.RevokeFinished()]
    take_what_is_due(follower)
    assert len(follower.handled) == 1


def test_a_revocation_of_a_life_that_was_lost_is_not_reported_to_the_next(follower, clocks):
    follower.post_undecided()
    take_what_is_due(follower)
    profile = follower.profile
    follower._machine = MemberMachine.create(profile=profile, timers=TIMERS, incarnation="two")
    clocks.boot += TIMERS.commit
    clocks.still += TIMERS.commit
    take_what_is_due(follower)
    assert follower.handled == []


def test_an_order_ends_the_wait_for_one(follower, monkeypatch):
    monkeypatch.undo()
    began = time.monotonic()
    threading.Timer(0.05, follower._handle, [ev.PollOverdue()]).start()
    follower.await_order(20)
    assert time.monotonic() - began < 10
    assert [order.effect.reason for order in follower.orders] == ["poll_overdue"]
