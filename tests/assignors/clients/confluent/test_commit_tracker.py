"""What a commit of the application means, without brokers."""

from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.clients.confluent.committing.offsets import CommitTracker
from levelwind.assignors.clients.confluent.settings import client_settings, member_profile
from levelwind.assignors.handover.timers import Timers

UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
PAIRS = (("orders", 0), ("orders", 1))
START = 20


def message(pair, offset):
    return SimpleNamespace(
        topic=lambda: pair[0], partition=lambda: pair[1], offset=lambda: offset, error=lambda: None
    )


def make_tracker():
    """The offsets of a consumer that owns two partitions, each committed at `START`."""
    profile = member_profile(
        UNREACHABLE,
        group="g",
        topics=["orders"],
        instance="i",
        rack=None,
        priority=0,
        capacity=1.0,
        fencing="none",
        prefix="lw.",
    )
    tracker = CommitTracker(
        client_settings(UNREACHABLE, profile=profile, timers=Timers()),
        timers=Timers(),
        follower=SimpleNamespace(),
        transactions=None,
    )
    tracker.grants.update({pair: number for number, pair in enumerate(PAIRS, 1)})
    for pair in PAIRS:
        tracker._granted.start(pair, START)
        tracker._committed[pair] = START
    return tracker


@pytest.fixture
def tracker():
    return make_tracker()


def test_a_batch_that_is_handed_back_is_committed_by_no_commit(tracker):
    batch = [message(PAIRS[0], START + number) for number in range(3)]
    tracker.hand_out(batch)
    assert tracker.offsets_to_commit(None, None) == {PAIRS[0]: START + 3}
    tracker.hand_back(batch)
    assert tracker.offsets_to_commit(None, None) == {}
    assert tracker.position(PAIRS[0]) == START


@given(st.lists(st.lists(st.sampled_from(PAIRS), max_size=5), min_size=1, max_size=4), st.data())
def test_a_commit_covers_what_the_application_got_and_not_what_it_gave_back(batches, data):
    tracker = make_tracker()
    reached = dict.fromkeys(PAIRS, START)
    for batch in batches:
        before, messages = dict(reached), []
        for pair in batch:
            messages.append(message(pair, reached[pair]))
            reached[pair] += 1
        tracker.hand_out(messages)
        if data.draw(st.booleans()):
            tracker.hand_back(messages)
            reached = before
        expected = {pair: offset for pair, offset in reached.items() if offset > START}
        assert tracker.offsets_to_commit(None, None) == expected


def test_after_a_reset_below_the_commit_messages_are_committed_and_handed_back(tracker):
    """The log ended below the commit: librdkafka began again at the log's begin."""
    batch = [message(PAIRS[0], offset) for offset in range(3)]
    tracker.hand_out(batch)
    assert tracker.offsets_to_commit(batch[0], None) == {PAIRS[0]: 1}
    assert tracker.offsets_to_commit(None, [TopicPartition(*PAIRS[0], 3)]) == {PAIRS[0]: 3}
    assert all(tracker.is_current(each) for each in batch)
    tracker.hand_back(batch)
    assert tracker.position(PAIRS[0]) == 0
    assert not tracker.is_current(message(PAIRS[1], 0)), "the other partition was not reset"


def test_a_commit_from_below_ends_the_renewal_of_the_one_beyond_the_log(tracker):
    tracker.consumer = SimpleNamespace(commit=lambda **_: None)
    tracker.start([TopicPartition(*PAIRS[0], START)], pinned={})
    [first] = batch = [message(PAIRS[0], 0)]
    tracker.hand_out(batch)
    offsets = tracker.offsets_to_commit(first, None)
    tracker.commit(offsets, metadata={}, asynchronous=True)
    assert tracker._kept._kept == {}
    tracker.on_answer(None, [TopicPartition(*PAIRS[0], 1)])
    assert tracker._kept._kept[PAIRS[0]].offset == 1
