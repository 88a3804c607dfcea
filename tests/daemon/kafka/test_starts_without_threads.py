"""The threads beside the daemon's loop where the system gives none: each end works, each time."""

import threading

import pytest

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka import topic_follower
from levelwind.daemon.kafka.commit_fencer import CommitFencer
from levelwind.daemon.kafka.lead_group import LeadGroup
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind_testing.refused_threads import REFUSAL, refused_threads
from levelwind_testing.waiting import GENEROUS_SECONDS


def nothing(*_args, **_options):
    """Take no notice."""


def test_a_daemon_that_got_no_thread_is_no_member_of_its_group_and_can_leave_it(monkeypatch):
    """It counted as a member for good, and its end raised an error."""
    ran = threading.Event()
    group = LeadGroup({}, Topics(), session=3, on_change=nothing, on_crash=nothing)
    monkeypatch.setattr(group, "_run", lambda _: ran.set())
    with refused_threads("lead-group"), pytest.raises(RuntimeError, match=REFUSAL):
        group.join()
    assert not group.joined
    group.leave()
    group.join()
    assert ran.wait(GENEROUS_SECONDS)
    group.leave()


def test_a_follower_that_got_no_thread_can_be_stopped(monkeypatch, log):
    monkeypatch.setattr(topic_follower, "stable_ends", lambda *_: {})
    monkeypatch.setattr(topic_follower, "open_consumer", nothing)
    follower = TopicFollower(client_config={}, topics=Topics(), on_record=nothing, log=log)
    with refused_threads("topic-follower"), pytest.raises(RuntimeError, match=REFUSAL):
        follower.start()
    follower.stop()


def test_a_fencing_needs_no_thread_that_the_system_may_refuse(monkeypatch, log):
    """A refused one was never made, nor any after it."""
    monkeypatch.setattr(CommitFencer, "_attempt", nothing)
    fenced, fencer = threading.Event(), CommitFencer({}, log)
    fencer.start()
    with refused_threads("commit-fencer"):
        fencer.fence("key", "an-id", fenced.set)
    assert fenced.wait(GENEROUS_SECONDS)
    fencer.close()


def test_the_threads_of_a_fencer_that_got_too_few_end_with_it(monkeypatch, log):
    given, start = [], threading.Thread.start

    def start_one(thread):
        if given:
            raise RuntimeError(REFUSAL)
        given.append(thread)
        start(thread)

    fencer = CommitFencer({}, log)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start_one)
        with pytest.raises(RuntimeError, match=REFUSAL):
            fencer.start()
    fencer.close()
    (only,) = given
    only.join(GENEROUS_SECONDS)
    assert not only.is_alive()
