"""The daemon: reads the clock, hears the topics, lets the control decide, and performs what it decided.

One thread owns the control's state: the main one. The observer's jobs, the log reader and the signals only post to its
mailbox or set a flag. It leads once everything that stood in our topics has been read after it became the planner.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from apscheduler.schedulers.background import BackgroundScheduler
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_delay,
    stop_when_event_set,
    wait_exponential,
)

from assignors.protocol.records import partition_key, partitions_for
from daemon.control.context import LogEvent
from daemon.control.controller import (
    Clock,
    ControlState,
    Fenced,
    Publish,
    ReaderStatus,
    RecordReceived,
    Recovered,
    Ticked,
    step,
)
from daemon.errors import (
    ClusterUnavailableError,
    ConfigurationError,
    FencedError,
    LevelwindError,
    PipelineFailedError,
)
from daemon.kafka import topic_setup as our_topics
from daemon.kafka.publisher import Publisher
from daemon.kafka.record_writer import outgoing
from daemon.kafka.topic_follower import TopicFollower
from daemon.observer.observer import Observer
from daemon.paths import ensure_writable
from daemon.pipeline.supervisor import (
    Attempts,
    PipelineChild,
)
from daemon.service.mailbox import Mailbox
from daemon.service.metrics import (
    Metrics,
    serve,
)
from daemon.shutdown import stop_on_signals
from daemon.telemetry.log_events import level_of
from daemon.telemetry.logger import Logger
from daemon.wall_clock import now_ms
from deploy.errors import SetupError
from deploy.jars import classpath

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from assignors.protocol.records import Record, Tombstone
    from assignors.protocol.topics import TopicKind
    from daemon.config.settings import Settings
    from daemon.control.controller import (
        Effect,
        Event,
    )
    from daemon.kafka.record_writer import OutgoingRecord
    from daemon.kafka.topic_reader import ConsumedRecord
    from daemon.shutdown import StopEvent

log = Logger()

TICK = 0.5
PUBLISH_WITHIN = 5.0
"""Seconds for one try; a daemon that is asked to stop looks up between two."""


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        LevelwindError: it cannot start or go on; it has been logged, and its text says whose fault it is.
    """
    log.info(
        "daemon.started",
        bootstrap=settings.bootstrap,
        prefix=settings.prefix,
        version=version("levelwind"),
    )
    try:
        with stop_on_signals() as stop, ExitStack() as stack:
            _run(settings, stop, stack)
    except KeyboardInterrupt:
        pass  # asked to stop while it was starting
    except LevelwindError as error:
        log.error("daemon.failed", error=str(error))  # noqa: TRY400 - its text says it all; a trace would bury it
        raise
    log.info("daemon.stopped", reason="asked to")


def _run(settings: Settings, stop: StopEvent, stack: ExitStack) -> None:
    client = settings.client()
    ensure_writable(settings.state_dir, "state_dir")
    metrics = Metrics(version("levelwind"), now=time.time)
    if settings.metrics.listen:
        served = serve(settings.metrics.listen, metrics.registry)
        stack.callback(served.close)
        log.info("metrics.listening", address=served.address)
    partitions = our_topics.ensure_topics(client, settings.topics, settings.topic, log)
    our_topics.ensure_offsets_topic(
        client, settings.topic, f"{settings.prefix}probe"
    )  # makes sure of it

    # Started first, since it takes longest; it needs nothing of what follows.
    child = PipelineChild(
        settings,
        _spark_jars(),
        Attempts(allowed=settings.pipeline.restarts, window=settings.pipeline.restart_window),
        metrics.on_pipeline_event,
    )
    stack.callback(child.stop)
    child.watch(time.monotonic())

    publisher = Publisher(client, settings.topics, timeout=PUBLISH_WITHIN, log=log)
    stack.callback(publisher.close)
    _patiently(settings.topic.timeout)(publisher.init)

    mailbox: Mailbox[Event | BaseException] = Mailbox()
    reader = _reader(settings, partitions, mailbox)
    stack.callback(reader.stop)
    stack.callback(mailbox.close)  # before the reader is waited for: it may wait for the mailbox
    reader.start()

    _observe(settings, stack, metrics)
    stack.callback(child.ask_to_stop)  # runs first, so that the rest is closed while Spark ends
    stop.polled = True
    daemon = Daemon(settings, partitions, publisher, stop, metrics)
    metrics.show(daemon.leading_state)
    _loop(daemon, mailbox, child, stop)


def _loop(
    daemon: Daemon,
    mailbox: Mailbox[Event | BaseException],
    child: PipelineChild,
    stop: threading.Event,
) -> None:
    ticked_at = float("-inf")
    while not stop.is_set():
        heard = mailbox.take(TICK)
        for event in heard:
            if isinstance(event, BaseException):
                raise event
            daemon.handle(event)
            if stop.is_set():
                return
        since = time.monotonic() - ticked_at
        # Time passes for the control only when it has heard all that was said before; under a steady stream, at last.
        if since >= TICK and (not heard or not mailbox.waiting or since >= 4 * TICK):
            ticked_at = time.monotonic()
            child.watch(ticked_at)
            daemon.handle(Ticked())


def _spark_jars() -> tuple[Path, ...]:
    try:
        return classpath("spark")
    except SetupError as error:
        raise PipelineFailedError(str(error)) from error


def _patiently(timeout: float) -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(ClusterUnavailableError),
        stop=stop_after_delay(timeout),
        wait=wait_exponential(max=2),
        reraise=True,
    )


def _reader(
    settings: Settings, partitions: Mapping[str, int], mailbox: Mailbox[Event | BaseException]
) -> TopicFollower:
    """Make the reader: what it reads before it has caught up is one event, then each record is."""
    before: list[tuple[TopicKind, Record | Tombstone]] = []
    caught_up = threading.Event()

    def entry(read: ConsumedRecord) -> None:
        if _misplaced(read, settings, partitions):
            return
        if not caught_up.is_set():
            before.append((read.kind, read.record))
            return
        # Every record is a state, which a newer one of its key replaces; an operator's word must not be lost to the
        # tombstone that takes an older one back.
        key = (read.kind, read.record.key, read.offset if read.kind == "control" else None)
        mailbox.put(key, RecordReceived(kind=read.kind, record=read.record))

    def done() -> None:
        caught_up.set()
        mailbox.put("recovered", Recovered(records=tuple(before)))
        before.clear()

    return TopicFollower(
        client_config=settings.client(),
        topics=settings.topics,
        on_record=entry,
        on_caught_up=done,
        on_connection=lambda hears: mailbox.put("listening", ReaderStatus(reading=hears)),
        on_crash=lambda error: mailbox.put("death", error),
        log=log,
    )


def _misplaced(read: ConsumedRecord, settings: Settings, partitions: Mapping[str, int]) -> bool:
    """Say of a record about a group that it stands where none of that group's should.

    A topic of ours that was given more partitions has old records in the wrong places. Whether they are the newest of
    their key nobody can tell, and who owns what rests on those of the planner: with such a topic no daemon starts.

    Raises:
        ConfigurationError: it is one of the planner's.
    """
    topic = settings.topics.name(read.kind)
    if read.kind not in {"assignments", "members"}:
        return False
    if read.partition in partitions_for(read.kind, read.record.key, partitions[topic]):
        return False
    name = partition_key(read.record.key)
    if read.kind == "assignments":
        raise ConfigurationError(
            f"{topic} was given more partitions since {name!r} was planned: its records are in the wrong ones. "
            "Stop the consumers that follow, delete the topic, and start again"
        )
    log.warning("record.misplaced", topic=topic, partition=read.partition, name=name)
    return True


def _observe(settings: Settings, stack: ExitStack, metrics: Metrics) -> None:
    observer = Observer(settings.client(), settings.topics, settings.observer, log, metrics.on_tick)
    stack.callback(observer.close)
    scheduler = BackgroundScheduler(timezone="UTC")
    observer.schedule(scheduler)
    scheduler.start()
    stack.callback(scheduler.shutdown)


class Daemon:
    """The control's state and the hands that do what it decides; for one thread."""

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[str, int],
        publisher: Publisher,
        stop: threading.Event,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._topics = settings.topics
        self._partitions = partitions
        self._publisher = publisher
        self._stop = stop
        self._leading = False
        self._state = ControlState(
            instance=f"{socket.gethostname()}/{uuid4().hex[:8]}",
            settings=settings.control,
            timers=settings.timers,
            planning_of=settings.planning_of,
        )

    def leading_state(self) -> ControlState | None:
        """Return the control's state, None until it leads; for any thread, since it is replaced and never changed."""
        return self._state if self._leading else None

    def handle(self, event: Event) -> None:
        """Let the control take one step, and perform its effects in their order.

        Raises:
            FencedError: another planner has taken over.
        """
        self._leading = self._leading or isinstance(event, Recovered)
        if not self._leading:
            return
        clock = Clock(now=time.monotonic(), at=now_ms())
        self._state, effects = step(self._state, event, clock)
        for effect in effects:
            if self._stop.is_set():
                return  # what was not published was not said either: a later daemon decides it again
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Publish(records=records):
                self._publish(
                    [
                        message
                        for kind, record in records
                        for message in outgoing(
                            self._topics, kind, record, self._partitions[self._topics.name(kind)]
                        )
                    ]
                )
            case LogEvent(event, fields):
                self._metrics.on_log_event(event, fields)
                getattr(log, level_of(event))(event, **fields)
            case Fenced(planner=planner):
                raise FencedError(
                    f"another daemon, {planner.instance}, plans for this cluster since its epoch {planner.planner_epoch}"
                )

    def _publish(self, records: Sequence[OutgoingRecord]) -> None:
        """Publish a step. The state has moved on already, so it is tried until it is done: assignments freeze meanwhile."""
        try:
            Retrying(
                retry=retry_if_exception_type(ClusterUnavailableError),
                wait=wait_exponential(max=10),
                sleep=sleep_using_event(self._stop),
                stop=stop_when_event_set(self._stop),
                before_sleep=_say_retry,
            )(self._publisher.publish, records)
        except RetryError:
            log.warning(
                "publisher.transaction_left_open",
                error="asked to stop while the cluster did not answer",
            )


def _say_retry(attempt: Any) -> None:
    log.warning(
        "publisher.retrying",
        error=str(attempt.outcome.exception()),
        retry_in=round(attempt.next_action.sleep, 1),
    )
