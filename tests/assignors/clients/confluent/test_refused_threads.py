"""A managed consumer where the system gives no thread: a call fails alone, or needs none."""

from threading import Event

import pytest
from confluent_kafka import KafkaException, TopicPartition

from levelwind.assignors.clients.confluent import async_consumer
from levelwind.assignors.clients.confluent.committing.transactions import TransactionalCommits
from levelwind.assignors.clients.confluent.following import subscribers
from levelwind.assignors.clients.confluent.following.obstacles import Obstacles
from levelwind.assignors.protocol.topics import Topics
from levelwind_testing.kafka.brokerless_member import consumer_of, run
from levelwind_testing.refused_threads import REFUSAL, refused_threads
from levelwind_testing.waiting import GENEROUS_SECONDS

OWN_THREADS = ("levelwind-consumer", "levelwind-callback")


def test_a_poll_gets_the_first_message_where_no_more_threads_are_given(monkeypatch):
    """A refused one was made with the next call, and a commit passed the message that it took."""
    log = ["first", "second"]

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "poll", lambda _: log.pop(0))
        with refused_threads(*OWN_THREADS):
            message = await consumer.poll(1)
        await consumer.close(0.1)
        return message

    assert run(work) == "first"
    assert log == ["second"]


def test_a_close_leaves_the_group_where_no_more_threads_are_given(monkeypatch):
    """A refused one made each later one do nothing, and the member never left."""
    left = []

    async def work():
        consumer = consumer_of()
        close = consumer._consumer.close
        monkeypatch.setattr(consumer._consumer, "close", lambda limit: left.append(close(limit)))
        with refused_threads(*OWN_THREADS):
            await consumer.close(0.1)

    run(work)
    assert left == [None]


@pytest.mark.parametrize("name", OWN_THREADS)
def test_a_consumer_that_gets_no_thread_is_not_made(name, monkeypatch):
    made = []
    monkeypatch.setattr(async_consumer, "ManagedConsumer", lambda *_, **__: made.append(name))

    async def work():
        with refused_threads(name):
            consumer_of()

    with pytest.raises(RuntimeError, match=REFUSAL):
        run(work)
    assert made == []


def test_a_member_lives_on_without_the_question_for_subscribers(monkeypatch):
    """The refusal ended the member's thread; the next occasion asks."""
    asked = Event()
    monkeypatch.setattr(subscribers, "found", lambda *_: asked.set())
    obstacles = Obstacles(group="g", topics=Topics(), heartbeat=1, identity=dict, admin=None)
    with refused_threads("levelwind-subscribers"):
        obstacles.look_for_subscribers()
    assert not asked.is_set()
    obstacles.look_for_subscribers()
    assert asked.wait(GENEROUS_SECONDS)


class TransactionLog:
    """A transactional producer that notes its calls."""

    def __init__(self):
        self.calls = []

    def begin_transaction(self):
        self.calls.append("begin")

    def send_offsets_to_transaction(self, *_):
        self.calls.append("send")

    def commit_transaction(self, *_):
        self.calls.append("commit")

    def abort_transaction(self, *_):
        self.calls.append("abort")


def test_a_transaction_that_gets_no_thread_is_aborted_and_the_next_one_commits():
    """It stayed open, so the next commit ended the member's life, and a close ended half-way."""
    commits = TransactionalCommits({"transactional.id": "id"})
    commits._producer = producer = TransactionLog()

    def commit():
        commits.commit([TopicPartition("t", 0, 1)], group_metadata=None, timeout=GENEROUS_SECONDS)

    with (
        refused_threads("levelwind-send-offsets"),
        pytest.raises(KafkaException, match=REFUSAL) as refused,
    ):
        commit()
    assert isinstance(refused.value.__cause__, RuntimeError)
    assert not commits.undecided
    commit()
    assert producer.calls == ["begin", "abort", "begin", "send", "commit"]
