"""Fencing of a member's transactional commits, on real brokers."""

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from levelwind.daemon.doubling_pause import DoublingPause
from levelwind.daemon.kafka import commit_fencer
from levelwind.daemon.kafka.commit_fencer import CommitFencer
from levelwind_testing.waiting import GENEROUS_SECONDS

pytestmark = pytest.mark.integration


@pytest.fixture
def fencer(client_config, log):
    fencer = CommitFencer(client_config, log)
    fencer.start()
    yield fencer
    fencer.close()


class Member:
    """A process that commits its offsets in transactions."""

    def __init__(self, client_config, group, topic, transactional_id):
        self.topic = topic
        self.producer = Producer({**client_config, "transactional.id": transactional_id})
        self.producer.init_transactions(20)
        self.consumer = Consumer({**client_config, "group.id": group})

    def begin(self, offset):
        self.producer.begin_transaction()
        self.producer.send_offsets_to_transaction(
            [TopicPartition(self.topic, 0, offset)],
            self.consumer.consumer_group_metadata(),
            20,
        )

    def commit(self, offset):
        self.begin(offset)
        self.producer.commit_transaction(20)


def test_a_fenced_member_commits_no_more_and_its_open_transaction_is_gone(
    client_config, kafka, fresh, fencer
):
    topic, group, name = fresh("t"), fresh("g"), fresh("id")
    kafka.create(topic)
    member = Member(client_config, group, topic, name)
    member.commit(5)
    member.begin(7)
    fenced = threading.Event()
    fencer.fence("key", name, fenced.set)
    assert fenced.wait(GENEROUS_SECONDS)
    with pytest.raises(KafkaException) as refused:
        member.producer.commit_transaction(20)
    assert refused.value.args[0].code() in {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
    (committed,) = member.consumer.committed([TopicPartition(topic, 0)], timeout=20)
    assert committed.offset == 5


def test_a_fencing_that_fails_is_tried_until_it_succeeds_and_said(monkeypatch, log):
    answers = iter(["no answer", "no answer", None])
    monkeypatch.setattr(CommitFencer, "_attempt", lambda *_: next(answers))
    monkeypatch.setattr(commit_fencer, "PAUSES", DoublingPause(0.01, 1.0))
    fenced = threading.Event()
    fencer = CommitFencer({}, log)
    fencer.start()
    fencer.fence("key", "an-id", fenced.set)
    assert fenced.wait(GENEROUS_SECONDS)
    fencer.close()
    assert log.of("commits.unfenced")[0]["error"] == "no answer"


def test_ids_that_cannot_be_fenced_hold_up_no_other(monkeypatch, log):
    monkeypatch.setattr(CommitFencer, "_attempt", lambda _, name: None if name == "good" else name)
    fencer = CommitFencer({}, log)
    fencer.start()
    for number in range(2 * commit_fencer.WORKERS):
        fencer.fence(number, f"bad-{number}", lambda: None)
    fenced = threading.Event()
    fencer.fence("key", "good", fenced.set)
    assert fenced.wait(GENEROUS_SECONDS)
    fencer.close()


def test_what_the_client_raises_is_an_error_like_any_other(monkeypatch, log):
    def refused(*_):
        raise ValueError("embedded null character")

    monkeypatch.setattr(commit_fencer.clients, "producer", refused)
    assert "null character" in CommitFencer({}, log)._attempt("an-id")


def test_nothing_is_reported_after_the_end(monkeypatch, log):
    monkeypatch.setattr(CommitFencer, "_attempt", lambda *_: "no answer")
    fenced = threading.Event()
    fencer = CommitFencer({}, log)
    before = threading.enumerate()
    fencer.start()
    fencer.fence("key", "an-id", fenced.set)
    fencer.close()
    attempts = [each for each in threading.enumerate() if each not in before]
    for each in attempts:
        each.join(GENEROUS_SECONDS)
        assert not each.is_alive()
    assert not fenced.is_set()


def test_threads_do_not_grow_with_the_ids_that_cannot_be_fenced(monkeypatch, log):
    monkeypatch.setattr(CommitFencer, "_attempt", lambda *_: "no answer")
    fencer = CommitFencer({}, log)
    before = threading.active_count()
    fencer.start()
    for number in range(100):
        fencer.fence(number, f"id-{number}", lambda: None)
    assert threading.active_count() <= before + commit_fencer.WORKERS
    fencer.close()


def test_a_life_that_asks_during_an_attempt_has_one_of_its_own(monkeypatch, log):
    """The attempt under way may have come before that life took the id."""
    begun, goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def attempt(*_):
        begun.release()
        assert goes_on.acquire(timeout=GENEROUS_SECONDS)

    monkeypatch.setattr(CommitFencer, "_attempt", attempt)
    first, second = threading.Event(), threading.Event()
    fencer = CommitFencer({}, log)
    fencer.start()
    fencer.fence("a former life", "an-id", first.set)
    assert begun.acquire(timeout=GENEROUS_SECONDS)
    fencer.fence("a later life", "an-id", second.set)
    goes_on.release()
    assert first.wait(GENEROUS_SECONDS)
    assert not second.is_set()
    assert begun.acquire(timeout=GENEROUS_SECONDS)
    goes_on.release()
    assert second.wait(GENEROUS_SECONDS)
    fencer.close()


def test_an_id_that_the_client_refuses_is_an_error_like_any_other(client_config, log):
    fencer = CommitFencer(client_config, log)
    error = fencer._attempt("")
    assert error
