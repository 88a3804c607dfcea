"""`AsyncManagedConsumer`: `ManagedConsumer` for asyncio, one thread away from the event loop.

confluent-kafka's `AIOConsumer` calls its consumer in threads as well, so nothing is won by it here.
"""

# ruff: noqa: ASYNC109 - the time-outs are arguments of confluent-kafka

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.consumer import ManagedConsumer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from types import TracebackType

    from levelwind.assignors.clients.confluent.ownership_evidence import FencingToken
    from levelwind.assignors.handover.member_state import Phase

QUESTION_PART_SECONDS = 5.0
"""Longest time for which the consumer's thread waits for one answer without a look at its end."""
NO_ANSWER_ERRORS = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001 - confluent's own names
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
"""Errors of a question that no broker has answered: it is asked again while it has time. No clock
tells them: librdkafka takes whole milliseconds, and gives up to one too early."""

Result = TypeVar("Result")
AsyncCallback: TypeAlias = "Callable[[AsyncManagedConsumer, list[Any]], object] | None"


class _Callback:
    """A callback that the consumer's thread waits for, while `active`."""

    def __init__(self) -> None:
        self.active = True


_WITHIN: ContextVar[_Callback | None] = ContextVar("levelwind_callback", default=None)


def _started(name: str) -> ThreadPoolExecutor:
    """One thread that runs already.

    An executor queues a call before it asks the system for the thread. A call that gets none would
    fail, and be made all the same with the next one.

    Raises:
        RuntimeError: The system gives no thread.
    """
    thread = ThreadPoolExecutor(1, name)
    thread.submit(int)
    return thread


class _Fetch(Generic[Result]):
    """A call that hands out messages, and whether its task still waits for them."""

    def __init__(
        self,
        consumer: ManagedConsumer,
        call: Callable[[], Result],
        messages: Callable[[Result], list[Any]],
    ) -> None:
        self._consumer = consumer
        self._call = call
        self._messages = messages
        self._lock = Lock()
        self._abandoned = self._done = False

    def run(self) -> Result:
        """Carry out the call; take its messages back before the thread's next call if need be."""
        result = self._call()
        with self._lock:
            self._done = True
            if self._abandoned:
                self._consumer.hand_back(self._messages(result))
        return result

    def abandon(self) -> bool:
        """Wait no more; return whether the messages were handed out already."""
        with self._lock:
            self._abandoned = True
            if not self._done:
                self._consumer.wakeup()
            return self._done


class AsyncManagedConsumer:
    """A `ManagedConsumer` whose calls are awaited; make it where an event loop runs.

    The methods have the arguments, results and errors of `ManagedConsumer`. One thread carries them
    out one after the other, so a call waits for those before it, also for a long `poll`. A `poll`
    or `consume` that is cancelled loses nothing: what it got is returned by the next one. The end
    of the consumer lets all of them return, without messages. A question to the brokers that is
    cancelled, or that the end finds unanswered, holds the thread up for five seconds at most, in a
    callback too; at the end it raises `KafkaException`, as after its time-out.

    Args:
        config: As for `ManagedConsumer`. The callbacks in it are plain functions, which the thread
            calls.
        on_assign: As for `ManagedConsumer`, but the event loop runs it. It may be a coroutine
            function, which may await the consumer's methods, other than `poll`, `consume` and
            `close`.
        on_revoke: As `on_assign`.
        on_lost: As `on_assign`.
        options: The other arguments of `ManagedConsumer`.

    Raises:
        SettingError: A setting or an argument is not allowed.
        KafkaException: librdkafka refuses the configuration.
        RuntimeError: No event loop runs, or the system gives no thread.
    """

    def __init__(
        self,
        config: dict[str, Any],
        *,
        on_assign: AsyncCallback = None,
        on_revoke: AsyncCallback = None,
        on_lost: AsyncCallback = None,
        **options: Any,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._thread = _started("levelwind-consumer")
        # While the thread waits for a callback, the callback's own calls need another one.
        self._callback_thread = _started("levelwind-callback")
        self._consumer = ManagedConsumer(
            config,
            on_assign=self._in_loop(on_assign),
            on_revoke=self._in_loop(on_revoke),
            on_lost=self._in_loop(on_lost),
            **options,
        )

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._consumer.group

    @property
    def instance(self) -> str:
        """Name of this member, the same in all its lives."""
        return self._consumer.instance

    @property
    def incarnation(self) -> str:
        """Identifier of the member's current life."""
        return self._consumer.incarnation

    @property
    def phase(self) -> Phase:
        """State of this member in the hand-over."""
        return self._consumer.phase

    @property
    def capacity(self) -> float:
        """Share of the load that this member can take; it may be set anew."""
        return self._consumer.capacity

    @capacity.setter
    def capacity(self, capacity: float) -> None:
        self._consumer.capacity = capacity

    @property
    def priority(self) -> int:
        """Rank of this member for strategies that prefer members; it may be set anew."""
        return self._consumer.priority

    @priority.setter
    def priority(self, priority: int) -> None:
        self._consumer.priority = priority

    def lease_remaining(self) -> float:
        """Seconds for which this member may still use its partitions, 0 without a lease."""
        return self._consumer.lease_remaining()

    # Messages.

    async def poll(self, timeout: float = -1) -> Any:
        """Return the next message, or None."""
        return await self._fetched(
            lambda: None if self._ended else self._consumer.poll(timeout),
            lambda one: [] if one is None else [one],
        )

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Return up to `num_messages` messages."""
        return await self._fetched(
            lambda: [] if self._ended else self._consumer.consume(num_messages, timeout), list
        )

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Yield messages as `poll` returns them, with errors among them, until `close`."""
        while not self._ended:
            if (message := await self.poll()) is not None:
                yield message

    # Partitions.

    async def commit(
        self,
        message: Any = None,
        offsets: Iterable[Any] | None = None,
        *,
        asynchronous: bool = True,
    ) -> list[Any] | None:
        """Commit one message, the given offsets, or everything that was handed out."""
        return await self._call(self._consumer.commit, message, offsets, asynchronous=asynchronous)

    async def store_offsets(
        self, message: Any = None, offsets: Iterable[Any] | None = None
    ) -> None:
        """Mark everything below these offsets as processed."""
        await self._call(self._consumer.store_offsets, message, offsets)

    async def assignment(self) -> list[Any]:
        """The owned partitions."""
        return await self._call(self._consumer.assignment)

    async def fencing_token(self, partition: Any) -> FencingToken:
        """The token of an owned partition."""
        return await self._call(self._consumer.fencing_token, partition)

    async def pause(self, partitions: list[Any]) -> None:
        """Stop fetching and handing out owned partitions."""
        await self._call(self._consumer.pause, partitions)

    async def resume(self, partitions: list[Any]) -> None:
        """Read paused partitions again."""
        await self._call(self._consumer.resume, partitions)

    async def seek(self, partition: Any) -> None:
        """Continue an owned partition at another offset."""
        await self._call(self._consumer.seek, partition)

    async def position(self, partitions: list[Any]) -> list[Any]:
        """The offsets behind the last messages that were returned."""
        return await self._call(self._consumer.position, partitions)

    async def committed(self, partitions: list[Any], timeout: float = -1) -> list[Any]:
        """The group's committed offsets."""
        return await self._asked(partial(self._consumer.committed, partitions), timeout)

    async def get_watermark_offsets(
        self, partition: Any, timeout: float = -1, *, cached: bool = False
    ) -> tuple[int, int] | None:
        """The first offset of a partition's log and the one behind its last record."""
        question = partial(self._consumer.get_watermark_offsets, partition, cached=cached)
        return await self._asked(question, timeout)

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """The cluster's `ClusterMetadata`."""
        return await self._asked(partial(self._consumer.list_topics, topic), timeout)

    async def offsets_for_times(self, partitions: list[Any], timeout: float = -1) -> list[Any]:
        """The first offsets at or after a time."""
        return await self._asked(partial(self._consumer.offsets_for_times, partitions), timeout)

    # The end.

    async def close(self, timeout: float | None = None) -> None:
        """Give up every partition, commit what counts as processed, and leave the group."""
        await self._end(partial(self._consumer.close, timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end(partial(self._consumer.__exit__, kind, error, trace))

    async def _end(self, end: Callable[[], None]) -> None:
        if self._ended:
            return
        # A wakeup ends the fetch that runs. Those that wait for the thread see the mark when they
        # begin, also where the wakeup was used up, and get nothing: the end waits for all of them.
        self._ended = True
        self._consumer.wakeup()
        # To leave takes its time, and a cancelled task would leave a live member behind.
        ending = asyncio.wrap_future(self._thread.submit(end))
        try:
            await asyncio.shield(ending)
        finally:
            ending.add_done_callback(lambda _: self._shut_down())

    def _shut_down(self) -> None:
        self._thread.shutdown(wait=False)
        self._callback_thread.shutdown(wait=False)

    # The threads.

    async def _call(self, call: Callable[..., Result], *args: Any, **options: Any) -> Result:
        within, thread = _WITHIN.get(), self._thread
        if within is not None and within.active:
            thread = self._callback_thread
        return await asyncio.wrap_future(thread.submit(call, *args, **options))

    async def _asked(self, question: Callable[..., Result], timeout: float) -> Result:
        """Await the brokers' answer to a question, which is called with a time-out.

        However long that is, the thread is free at the end of a part once the consumer ends, or
        once nobody awaits the answer any more. A question of a callback has one part even then: it
        may be the end that waits for the callback.
        """
        within = _WITHIN.get()
        in_callback = within is not None and within.active
        awaited = True

        def ask() -> Result:
            if self._ended and not in_callback:
                raise RuntimeError("the consumer is closed")
            deadline = inf if timeout < 0 else boot_seconds() + timeout
            while True:
                left = max(deadline - boot_seconds(), 0.0)
                part = min(left, QUESTION_PART_SECONDS)
                try:
                    return question(timeout=part)
                except KafkaException as error:
                    over = part == left or self._ended or not awaited
                    if over or error.args[0].code() not in NO_ANSWER_ERRORS:
                        raise

        try:
            return await self._call(ask)
        except asyncio.CancelledError:
            awaited = False
            raise

    async def _fetched(
        self, call: Callable[[], Result], messages: Callable[[Result], list[Any]]
    ) -> Result:
        """Await a call that hands out messages; they are not lost where the task is cancelled."""
        within = _WITHIN.get()
        if within is not None and within.active:
            raise RuntimeError("a callback cannot ask for messages")
        if self._ended:
            raise RuntimeError("the consumer is closed")
        fetch = _Fetch(self._consumer, call, messages)
        fetching = self._thread.submit(fetch.run)
        try:
            return await asyncio.wrap_future(fetching)
        except asyncio.CancelledError:
            if not fetching.cancelled() and fetch.abandon():
                self._thread.submit(self._consumer.hand_back, messages(fetching.result()))
            raise

    def _in_loop(self, callback: AsyncCallback) -> Callable[[Any, list[Any]], object] | None:
        if not callable(callback):
            return callback  # none, or one that `ManagedConsumer` refuses

        async def run(partitions: list[Any], within: _Callback) -> object:
            _WITHIN.set(within)
            try:
                result = callback(self, partitions)
                return await result if isawaitable(result) else result
            finally:
                within.active = False

        def call(_consumer: Any, partitions: list[Any]) -> object:
            within = _Callback()
            running = asyncio.run_coroutine_threadsafe(run(partitions, within), self._loop)
            try:
                return running.result()
            finally:
                # A call that the callback did not await to its end may still run.
                self._callback_thread.submit(int).result()

        return call
