"""Questions of an `AsyncManagedConsumer`: how long they are asked, and whom they hold up."""

import asyncio
import socket
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from levelwind.assignors.clients.confluent import async_consumer
from levelwind_testing.kafka.brokerless_member import PATIENCE_SECONDS, consumer_of, run
from levelwind_testing.refused_threads import refused_threads

QUESTIONS = {
    "committed": lambda consumer: consumer.committed([TopicPartition("t", 0)]),
    "get_watermark_offsets": lambda consumer: consumer.get_watermark_offsets(
        TopicPartition("t", 0)
    ),
    "list_topics": lambda consumer: consumer.list_topics("t"),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times([TopicPartition("t", 0, 0)]),
}
NO_ANSWERS = ("_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN")


def failure(name):
    return KafkaException(KafkaError(getattr(KafkaError, name)))


class Unanswered:
    """A question that nobody answers; its one part ends when the test lets it."""

    def __init__(self):
        self.begun, self.may_end = Event(), Event()
        self.parts = 0

    def __call__(self, _partitions, timeout):
        self.parts += 1
        assert self.parts == 1, "the question is asked again"
        self.begun.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        assert timeout >= 0, "a question without a time-out does not end"
        raise failure("_TIMED_OUT")


@pytest.fixture
def silent_broker():
    """Address of a socket whose connections are accepted and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "{}:{}".format(*server.getsockname())


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_without_a_time_out_is_asked_until_a_silent_broker_answers(
    name, silent_broker, monkeypatch
):
    # librdkafka takes whole milliseconds: it gives up before the part is over.
    monkeypatch.setattr(async_consumer, "QUESTION_PART_SECONDS", 0.0009)

    async def work():
        consumer = consumer_of(silent_broker)
        question, parts = getattr(consumer._consumer, name), []

        def asked(*args, **options):
            parts.append(options["timeout"])
            return "answer" if len(parts) == 50 else question(*args, **options)

        monkeypatch.setattr(consumer._consumer, name, asked)
        assert await QUESTIONS[name](consumer) == "answer"
        await consumer.close(0.1)

    run(work)


@pytest.mark.parametrize("error", NO_ANSWERS)
def test_a_question_has_all_its_time_though_librdkafka_gives_up_early(error, monkeypatch):
    given = []

    def answer(_partitions, timeout):
        given.append(timeout)
        if len(given) < 4:
            raise failure(error)
        return ["answer"]

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "committed", answer)
        assert await consumer.committed([], 1e6) == ["answer"]
        assert given == [async_consumer.QUESTION_PART_SECONDS] * 4
        await consumer.close(0.1)

    run(work)


@pytest.mark.parametrize(
    ("error", "timeout"),
    [("GROUP_AUTHORIZATION_FAILED", -1), ("_UNKNOWN_PARTITION", 1e6)]
    + [(error, 0) for error in NO_ANSWERS],
)
def test_a_refusal_and_the_last_part_end_a_question(error, timeout, monkeypatch):
    given = []

    def answer(_partitions, timeout):
        given.append(timeout)
        raise failure(error)

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "committed", answer)
        with pytest.raises(KafkaException) as raised:
            await consumer.committed([], timeout)
        assert raised.value.args[0].name() == error
        assert len(given) == 1
        await consumer.close(0.1)

    run(work)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_end_waits_for_no_answer_of_brokers_that_are_away(name, monkeypatch):
    monkeypatch.setattr(async_consumer, "QUESTION_PART_SECONDS", 0.05)
    begun = Event()

    async def work():
        consumer = consumer_of()
        question = getattr(consumer._consumer, name)

        def asked(*args, **options):
            begun.set()
            return question(*args, **options)

        monkeypatch.setattr(consumer._consumer, name, asked)
        tasks = [asyncio.create_task(QUESTIONS[name](consumer)) for _ in range(2)]
        await asyncio.to_thread(begun.wait)
        await consumer.close()
        for task in tasks:
            with pytest.raises((KafkaException, RuntimeError)):
                await task

    run(work)


def test_a_cancelled_question_holds_up_the_next_call_for_one_part(monkeypatch):
    question = Unanswered()

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "committed", question)
        asking = asyncio.create_task(consumer.committed([]))
        await asyncio.to_thread(question.begun.wait)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        question.may_end.set()
        assert await consumer.poll(0) is None
        assert question.parts == 1
        await consumer.close(0.1)

    run(work)


def test_a_question_of_a_callback_holds_up_the_end_for_one_part(monkeypatch):
    question, errors = Unanswered(), []

    async def revoke(consumer, _partitions):
        try:
            await consumer.committed([])
        except KafkaException as error:
            errors.append(error.args[0].name())

    async def work():
        consumer = consumer_of(on_revoke=revoke)
        monkeypatch.setattr(consumer._consumer, "committed", question)
        revoking = consumer._thread.submit(consumer._in_loop(revoke), None, [])
        await asyncio.to_thread(question.begun.wait)
        ending = asyncio.create_task(consumer.close(0.1))
        await asyncio.sleep(0)
        assert consumer._ended
        question.may_end.set()
        await ending
        revoking.result(0)

    run(work)
    assert (question.parts, errors) == (1, ["_TIMED_OUT"])


def test_the_last_callbacks_may_still_ask(monkeypatch):
    answers = []

    async def revoke(consumer, _partitions):
        answers.append(await consumer.committed([]))

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "committed", lambda _, timeout: [timeout])
        close = consumer._consumer.close

        def end(timeout):
            consumer._in_loop(revoke)(None, [])
            close(timeout)

        monkeypatch.setattr(consumer._consumer, "close", end)
        await consumer.close(0.1)

    run(work)
    assert answers == [[async_consumer.QUESTION_PART_SECONDS]]


def test_a_callback_ends_after_the_questions_that_it_cancelled(monkeypatch):
    """Two threads never use the consumer at once."""
    question, order, seen = Unanswered(), [], Event()

    async def assign(consumer, _partitions):
        asking = asyncio.create_task(consumer.committed([]))
        await asyncio.to_thread(question.begun.wait)
        asking.cancel()
        order.append("callback")

    def committed(*args, **options):
        try:
            question(*args, **options)
        finally:
            order.append("question")

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "committed", committed)
        submit = consumer._callback_thread.submit

        def submitted(*args, **options):
            if question.begun.is_set():  # behind the question
                order.append("waits")
                seen.set()
            return submit(*args, **options)

        monkeypatch.setattr(consumer._callback_thread, "submit", submitted)
        assigning = asyncio.create_task(asyncio.to_thread(consumer._in_loop(assign), consumer, []))
        assigning.add_done_callback(lambda _: seen.set())
        await asyncio.to_thread(seen.wait)
        question.may_end.set()
        await assigning
        order.append("next")
        await consumer.close(0.1)

    run(work)
    assert order == ["callback", "waits", "question", "next"]


def test_a_callback_that_asks_nothing_needs_no_other_thread():
    """It counted as one that failed where the system gives no more threads."""

    async def assign(_consumer, partitions):
        return partitions

    async def work():
        consumer = consumer_of()
        callback = consumer._in_loop(assign)
        with refused_threads("levelwind-"):
            assigned = await asyncio.to_thread(callback, consumer, ["a partition"])
        await consumer.close(0.1)
        return assigned

    assert run(work) == ["a partition"]


def test_a_callback_that_asks_needs_no_thread_that_the_system_may_refuse(monkeypatch):
    """The callback counted as failed although it took the error."""
    asked = []

    async def assign(consumer, partitions):
        await consumer.committed(partitions)

    async def work():
        consumer = consumer_of()
        monkeypatch.setattr(consumer._consumer, "committed", lambda of, **_: asked.extend(of))
        callback = consumer._in_loop(assign)
        with refused_threads("levelwind-"):
            await asyncio.to_thread(callback, consumer, ["first"])
        await asyncio.to_thread(callback, consumer, ["second"])
        await consumer.close(0.1)

    run(work)
    assert asked == ["first", "second"]
