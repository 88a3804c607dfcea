"""The follower's mailbox, without brokers: what it withholds from the member."""

import threading

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

from levelwind.assignors.clients.confluent.committing import deadline
from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
from levelwind.assignors.clients.confluent.settings import client_settings, member_profile
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_state import MemberMachine
from levelwind.assignors.handover.timers import Timers
from levelwind_testing.waiting import GENEROUS_SECONDS

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


def test_an_acknowledgement_of_a_life_that_was_lost_renews_no_lease_of_the_next(follower):
    follower._take_acknowledgement("zero", 990.0)
    assert follower.handled == []
    follower._take_acknowledgement("one", 1000.0)
    assert follower.handled == [ev.AnnouncementAcked(1000.0)]


def test_an_order_ends_the_wait_for_one(follower, monkeypatch):
    monkeypatch.undo()
    waiting = threading.Thread(
        target=follower.await_order, args=[threading.TIMEOUT_MAX], daemon=True
    )
    waiting.start()
    assert waiting.is_alive()
    follower._handle(ev.PollOverdue())
    waiting.join(GENEROUS_SECONDS)
    assert not waiting.is_alive()
    assert [order.effect.reason for order in follower.orders] == ["poll_overdue"]


@pytest.mark.parametrize("answer", [OFFSET_INVALID, KafkaError(KafkaError.FENCED_LEADER_EPOCH)])
def test_without_an_end_the_leader_is_looked_for_anew_and_nothing_is_proved(
    make_brokerless, answer
):
    """A leader that is silent is answered for with a negative offset, not with an error."""
    consumer = make_brokerless()
    follower, brokers = consumer._follower, consumer._consumer
    reader, log = follower._reader, TopicPartition("levelwind.assignments", 0)
    reader.admin, reader._position = brokers, log
    brokers.ends[log.topic, log.partition] = answer
    reader.ask(0)
    assert brokers.looked_up == [log.topic]
    assert follower._mailbox.empty()
    brokers.ends[log.topic, log.partition] = 3
    reader.ask(0)
    assert brokers.looked_up == [log.topic]
    assert follower._mailbox.get_nowait().stable_offset == 3
