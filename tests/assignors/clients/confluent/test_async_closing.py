"""The end of an `AsyncManagedConsumer` waits for no message, whatever its tasks await."""

import asyncio
from threading import Event

import pytest

from levelwind_testing.kafka.brokerless_member import consumer_of, run


async def first_message(consumer):
    async for message in consumer:
        return message
    return None


WAITING = {
    "poll": (lambda consumer: consumer.poll(), None),
    "consume": (lambda consumer: consumer.consume(10), []),
    "long poll": (lambda consumer: consumer.poll(1e6), None),
    "iteration": (first_message, None),
}
each_way = pytest.mark.parametrize(("wait", "nothing"), WAITING.values(), ids=WAITING)


async def waiting_tasks(consumer, wait, count, monkeypatch):
    """Tasks of which one runs in the consumer's thread, and the others wait for that thread."""
    begun = Event()
    set_polling = consumer._consumer._follower.poll_watch.set_polling

    def seen(*, polling):
        set_polling(polling=polling)
        begun.set()

    monkeypatch.setattr(consumer._consumer._follower.poll_watch, "set_polling", seen)
    tasks = [asyncio.create_task(wait(consumer)) for _ in range(count)]
    await asyncio.to_thread(begun.wait)
    return tasks


@each_way
@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_tasks_that_await_messages_get_none_when_the_consumer_closes(
    wait, nothing, count, monkeypatch
):
    async def work():
        consumer = consumer_of()
        tasks = await waiting_tasks(consumer, wait, count, monkeypatch)
        await consumer.close(0.1)
        return await asyncio.gather(*tasks)

    assert run(work) == [nothing] * count


@each_way
def test_they_do_when_the_context_ends(wait, nothing, monkeypatch):
    async def work():
        async with consumer_of() as consumer:
            tasks = await waiting_tasks(consumer, wait, 3, monkeypatch)
        return await asyncio.gather(*tasks)

    assert run(work) == [nothing] * 3


@each_way
def test_a_cancelled_task_takes_no_wakeup_from_the_others(wait, nothing, monkeypatch):
    async def work():
        consumer = consumer_of()
        cancelled, *others = await waiting_tasks(consumer, wait, 4, monkeypatch)
        cancelled.cancel()
        await consumer.close(0.1)
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return await asyncio.gather(*others)

    assert run(work) == [nothing] * 3


def test_calls_between_those_for_messages_are_still_carried_out(monkeypatch):
    async def work():
        consumer = consumer_of()
        tasks = await waiting_tasks(consumer, WAITING["poll"][0], 2, monkeypatch)
        owned = asyncio.create_task(consumer.assignment())
        tasks.append(asyncio.create_task(consumer.poll()))
        await asyncio.sleep(0)
        await consumer.close(0.1)
        return [await owned, *await asyncio.gather(*tasks)]

    assert run(work) == [[], None, None, None]


def test_no_call_for_messages_begins_once_the_consumer_ends(monkeypatch):
    async def work():
        consumer = consumer_of()
        tasks = await waiting_tasks(consumer, WAITING["poll"][0], 2, monkeypatch)
        monkeypatch.setattr(consumer._consumer, "poll", None)
        for _ in range(2):
            await consumer.close(0.1)
        return await asyncio.gather(*tasks)

    assert run(work) == [None, None]


@pytest.mark.parametrize("ask", [lambda consumer: consumer.poll(0), lambda one: one.consume(1, 0)])
def test_a_closed_consumer_hands_out_nothing(ask):
    async def work():
        consumer = consumer_of()
        await consumer.close(0.1)
        with pytest.raises(RuntimeError, match="closed"):
            await ask(consumer)
        assert [message async for message in consumer] == []

    run(work)
