"""The daemon: reads the clock, hears the topics, lets the control decide, and performs what it decided.

One thread owns the control's state: the main one. The observer's jobs, the log reader and the signals only post to its
mailbox or set a flag. It leads once everything that stood in our topics has been read after it became the planner.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from tenacity import Retrying, retry_if_exception_type, wait_exponential

from assignors.protocol.records import PlannerRecord, Tombstone, encode, encode_key, place
from assignors.protocol.topics import partition_for
from daemon import topics as our_topics
from daemon.control import ControlState, Fenced, Moment, Publish, Recovered, Ticked, Told, step
from daemon.errors import ClusterUnavailableError, FencedError, LevelwindError
from daemon.events import level_of
from daemon.group_state import Say
from daemon.log_reader import LogReader
from daemon.mailbox import Mailbox
from daemon.observer import Observer
from daemon.publisher import Outgoing, Publisher
from daemon.supervision import Attempts, PipelineChild
from deploy.jars import classpath

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assignors.protocol.records import Record
    from assignors.protocol.topics import TopicKind
    from daemon.control import Effect, Event
    from daemon.reading import Entry
    from daemon.settings import Settings

log = structlog.get_logger()

TICK = 0.5


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        LevelwindError: it cannot start or go on; it has been logged, and its text says whose fault it is.
    """
    stop = threading.Event()
    log.info(
        "daemon.started", bootstrap=settings.bootstrap, prefix=settings.prefix, version=version("levelwind")
    )
    try:
        with signals(stop), ExitStack() as stack:
            _run(settings, stop, stack)
    except LevelwindError as error:
        log.error("daemon.failed", error=str(error))  # noqa: TRY400 - its text says it all; a trace would bury it
        raise
    log.info("daemon.stopped", reason="asked to")


@contextmanager
def signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set the flag, and only that."""

    def note(*_: object) -> None:
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(settings: Settings, stop: threading.Event, stack: ExitStack) -> None:
    client = settings.client()
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    our_topics.ensure(client, settings.topics, settings.topic, log)
    our_topics.offsets_partitions(
        client, settings.topic, f"{settings.prefix}probe"
    )  # makes sure that it exists

    # Started first, since it takes longest; it needs nothing of what follows.
    child = PipelineChild(
        settings,
        classpath("spark"),
        Attempts(allowed=settings.pipeline.restarts, window=settings.pipeline.restart_window),
    )
    stack.callback(child.stop)
    child.watch(time.monotonic())

    publisher = Publisher(client, settings.topics, log=log)
    stack.callback(publisher.close)
    publisher.init()

    mailbox: Mailbox[Event | BaseException] = Mailbox()
    reader = _reader(settings, mailbox)
    stack.callback(reader.stop)
    stack.callback(mailbox.close)  # before the reader is waited for: it may wait for the mailbox
    reader.start()

    _observe(settings, stack)
    stack.callback(child.ask_to_stop)  # runs first, so that the rest is closed while Spark ends
    daemon = Daemon(settings, publisher)
    ticked_at = float("-inf")
    while not stop.is_set():
        for event in mailbox.take(TICK):
            if isinstance(event, BaseException):
                raise event
            daemon.handle(event)
            if stop.is_set():
                return
        if time.monotonic() - ticked_at >= TICK:
            ticked_at = time.monotonic()
            child.watch(ticked_at)
            daemon.handle(Ticked())


def _reader(settings: Settings, mailbox: Mailbox[Event | BaseException]) -> LogReader:
    """Make the reader: what it reads before it has caught up is one event, then each record is."""
    before: list[tuple[TopicKind, Record | Tombstone]] = []
    caught_up = threading.Event()

    def entry(read: Entry) -> None:
        if caught_up.is_set():
            mailbox.put((read.kind, read.record.key), Told(kind=read.kind, record=read.record))
        else:
            before.append((read.kind, read.record))

    def done() -> None:
        caught_up.set()
        mailbox.put("recovered", Recovered(records=tuple(before)))
        before.clear()

    return LogReader(
        client_config=settings.client(),
        topics=settings.topics,
        on_entry=entry,
        on_caught_up=done,
        on_death=lambda error: mailbox.put("death", error),
        log=log,
    )


def _observe(settings: Settings, stack: ExitStack) -> None:
    observer = Observer(settings.client(), settings.topics, settings.observer, log)
    stack.callback(observer.close)
    scheduler = BackgroundScheduler(timezone="UTC")
    observer.schedule(scheduler)
    scheduler.start()
    stack.callback(scheduler.shutdown)


class Daemon:
    """The control's state and the hands that do what it decides; for one thread."""

    def __init__(self, settings: Settings, publisher: Publisher) -> None:
        self._topics = settings.topics
        self._partitions = settings.topic.partitions
        self._publisher = publisher
        self._leading = False
        self._state = ControlState(
            instance=f"{socket.gethostname()}/{uuid4().hex[:8]}",
            settings=settings.control,
            timers=settings.timers,
            strategy_of=settings.strategy_of,
        )

    def handle(self, event: Event) -> None:
        """Let the control take one step, and perform its effects in their order.

        Raises:
            FencedError: another planner has taken over.
        """
        self._leading = self._leading or isinstance(event, Recovered)
        if not self._leading:
            return
        self._state, effects = step(
            self._state, event, Moment(now=time.monotonic(), at=time.time_ns() // 1_000_000)
        )
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Publish(records=records):
                self._publish(records)
            case Say(event, fields):
                getattr(log, level_of(event))(event, **fields)
            case Fenced(planner=planner):
                raise FencedError(
                    f"another daemon, {planner.instance}, plans for this cluster since its epoch {planner.planner_epoch}"
                )

    def _publish(self, records: Sequence[tuple[TopicKind, Record | Tombstone]]) -> None:
        """Publish a step. The state has moved on already, so it is tried until it is done: assignments freeze meanwhile."""
        outgoing = [message for kind, record in records for message in self._outgoing(kind, record)]
        for attempt in Retrying(
            retry=retry_if_exception_type(ClusterUnavailableError),
            wait=wait_exponential(max=10),
            before_sleep=_say_retry,
        ):
            with attempt:
                self._publisher.publish(outgoing)

    def _outgoing(self, kind: TopicKind, record: Record | Tombstone) -> list[Outgoing]:
        key, value = (encode_key(record.key), None) if isinstance(record, Tombstone) else encode(record)
        everywhere = isinstance(record, PlannerRecord)
        name = place(record.key)
        partitions = (
            range(self._partitions) if everywhere or name is None else [partition_for(name, self._partitions)]
        )
        return [
            Outgoing(topic=self._topics.name(kind), key=key, value=value, partition=number)
            for number in partitions
        ]


def _say_retry(attempt: Any) -> None:
    log.warning(
        "publisher.retrying",
        error=str(attempt.outcome.exception()),
        again_in=round(attempt.next_action.sleep, 1),
    )
