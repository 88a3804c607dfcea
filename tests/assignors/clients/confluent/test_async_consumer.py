"""`AsyncManagedConsumer` with real brokers: nothing is lost where tasks are cancelled."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest
from confluent_kafka import TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind.clients.confluent import AsyncManagedConsumer, NotOwnedError
from levelwind_testing.kafka.managed_consumers import committed, produce, spread

pytestmark = pytest.mark.integration


@pytest.fixture
def make_async(cluster, topic):
    """Make a consumer where a loop runs: `make_async(planner, **options)`."""

    def make(planner, **options):
        return AsyncManagedConsumer(
            {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest"},
            group=planner.group,
            topics=[topic],
            instance="a0",
            prefix=planner.topics.prefix,
            timers=Timers().scaled(0.25),
            **options,
        )

    return make


def test_cancelled_polls_lose_no_record_and_commit_none(
    cluster, topic, plan, make_async, monkeypatch
):
    planner = plan(spread(topic))
    values = []

    async def work():
        async with make_async(planner) as consumer:
            poll, begun = consumer._consumer.poll, Event()
            monkeypatch.setattr(
                consumer._consumer, "poll", lambda timeout: begun.set() or poll(timeout)
            )
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.to_thread(begun.wait)
            waiting.cancel()
            for number in range(200):
                if number == 20:
                    await asyncio.to_thread(produce, cluster, topic, [(0, n) for n in range(40)])
                try:
                    # Shorter than a poll takes now and then, so that some end in mid-air.
                    message = await asyncio.wait_for(consumer.poll(), 0.001 * (number % 60))
                except TimeoutError:
                    continue
                assert message.error() is None
                values.append(int(message.value()))
                if len(values) == 40:
                    break
            while len(values) < 40:
                [message] = await consumer.consume(1, 20)
                values.append(int(message.value()))

    asyncio.run(asyncio.wait_for(work(), 60))
    assert values == list(range(40))
    assert committed(cluster, planner.group, topic) == {0: 40}


def test_callbacks_are_coroutines_that_may_call_the_consumer(cluster, topic, plan, make_async):
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, n) for n in range(10)])
    called = []

    async def start(consumer, partitions):
        called.append(len(partitions))
        await consumer.seek(TopicPartition(topic, 0, 8))
        with pytest.raises(RuntimeError, match="callback"):
            await consumer.poll(0)

    async def stop(consumer, partitions):
        called.append([p.offset for p in await consumer.position([TopicPartition(topic, 0)])])
        await consumer.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)

    async def work():
        consumer = make_async(planner, on_assign=start, on_revoke=stop)
        values = []
        async for message in consumer:
            values.append(message.value())
            if len(values) == 2:
                break
        assert values == [b"8", b"9"]
        assert len(await consumer.assignment()) == 6
        with pytest.raises(NotOwnedError):
            await consumer.seek(TopicPartition(topic, 99, 0))
        await consumer.close()
        await consumer.close()

    asyncio.run(asyncio.wait_for(work(), 60))
    assert called == [6, [10]]
    assert committed(cluster, planner.group, topic)[0] == 9
    assert planner.evictions == {}
