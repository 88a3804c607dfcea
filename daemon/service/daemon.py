"""The daemon's process: starts all parts, loops over events, performs the control's effects, stops.

One thread owns the control's state: the main one. The observer's jobs, the topic follower and the
signals only post to its mailbox or set a flag.
"""

from __future__ import annotations

import socket
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

from assignors.boot_clock import boot_seconds
from assignors.protocol.records import WireError
from daemon.control.context import LogEvent
from daemon.control.controller import (
    Clock,
    ControlState,
    FenceCommits,
    Fenced,
    MembersRead,
    Publish,
    PublishRefused,
    ReaderStatus,
    Recovered,
    Ticked,
    concerns,
    step,
)
from daemon.errors import ClusterUnavailableError, FencedError, LevelwindError, PipelineFailedError
from daemon.kafka import topic_setup
from daemon.kafka.publisher import Publisher, UnpublishableError
from daemon.kafka.record_writer import outgoing
from daemon.kafka.topic_follower import TopicFollower
from daemon.observer.observer import Observer
from daemon.paths import ensure_writable
from daemon.pipeline.supervisor import Attempts, PipelineChild
from daemon.service.mailbox import Mailbox
from daemon.service.metrics import Metrics, serve
from daemon.service.record_intake import RecordIntake
from daemon.shutdown import stop_on_signals
from daemon.telemetry.log_events import level_of
from daemon.telemetry.logger import Logger
from daemon.wall_clock import now_ms
from deploy.errors import SetupError
from deploy.jars import classpath

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from assignors.protocol.records import Record, Tombstone
    from assignors.protocol.topics import TopicKind
    from daemon.config.settings import Settings
    from daemon.control.controller import Effect, Event
    from daemon.kafka.record_writer import OutgoingRecord
    from daemon.shutdown import StopEvent

log = Logger()

TICK_SECONDS = 0.5
"""The control handles a tick at most this often."""

LATEST_TICK_SECONDS = 2.0
"""Longest time between two ticks under a steady stream of records: after that a tick is handled
before the records that are still waiting."""

PUBLISH_TIMEOUT_SECONDS = 5.0
"""Limit of one attempt to publish; between two attempts the daemon checks whether it must stop."""


def run(settings: Settings) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    Raises:
        LevelwindError: the daemon cannot start or go on. The error has been logged, and its text
            says whose fault it is.
    """
    log.info(
        "daemon.started",
        bootstrap=settings.bootstrap,
        prefix=settings.prefix,
        version=version("levelwind"),
    )
    try:
        with stop_on_signals() as stop, ExitStack() as on_exit:
            _start(settings, stop, on_exit).loop()
    except KeyboardInterrupt:
        pass  # a signal during the start
    except LevelwindError as error:
        log.error("daemon.failed", error=str(error))  # noqa: TRY400 - the text says it all
        raise
    log.info("daemon.stopped", reason="signal received")


# Start.


def _start(settings: Settings, stop: StopEvent, on_exit: ExitStack) -> Daemon:
    """Start every part of the daemon; `on_exit` stops them in the reverse order."""
    ensure_writable(settings.state_dir, "state_dir")
    metrics = _serve_metrics(settings, on_exit)
    partitions = _ensure_topics(settings)
    # The pipeline is started first: it takes longest and needs nothing of what follows.
    pipeline = _start_pipeline(settings, metrics, on_exit)
    publisher = _become_planner(settings, on_exit)
    mailbox = _follow_topics(settings, partitions, on_exit)
    _start_observer(settings, metrics, on_exit)
    on_exit.callback(pipeline.ask_to_stop)  # runs first: the rest is closed while Spark ends
    stop.polled = True
    daemon = Daemon(settings, partitions, mailbox, publisher, pipeline, metrics, stop)
    metrics.show(daemon.leading_state)
    return daemon


def _serve_metrics(settings: Settings, on_exit: ExitStack) -> Metrics:
    metrics = Metrics(version("levelwind"), now=time.time)
    if settings.metrics.listen:
        server = serve(settings.metrics.listen, metrics.registry)
        on_exit.callback(server.close)
        log.info("metrics.listening", address=server.address)
    return metrics


def _ensure_topics(settings: Settings) -> Mapping[str, int]:
    """Create levelwind's topics and `__consumer_offsets` where they are missing.

    Returns:
        The number of partitions of each of levelwind's topics, by name.
    """
    client = settings.client()
    partitions = topic_setup.ensure_topics(client, settings.topics, settings.topic, log)
    topic_setup.ensure_offsets_topic(client, settings.topic, f"{settings.prefix}probe")
    return partitions


def _start_pipeline(settings: Settings, metrics: Metrics, on_exit: ExitStack) -> PipelineChild:
    try:
        jars = classpath("spark")
    except SetupError as error:
        raise PipelineFailedError(str(error)) from error
    attempts = Attempts(allowed=settings.pipeline.restarts, window=settings.pipeline.restart_window)
    pipeline = PipelineChild(settings, jars, attempts, metrics.on_pipeline_event)
    on_exit.callback(pipeline.stop)
    pipeline.watch(time.monotonic())
    return pipeline


def _become_planner(settings: Settings, on_exit: ExitStack) -> Publisher:
    publisher = Publisher(
        settings.client(), settings.topics, timeout=PUBLISH_TIMEOUT_SECONDS, log=log
    )
    on_exit.callback(publisher.close)
    Retrying(
        retry=retry_if_exception_type(ClusterUnavailableError),
        stop=stop_after_delay(settings.topic.timeout),
        wait=wait_exponential(max=2),
        reraise=True,
    )(publisher.init)
    return publisher


def _follow_topics(
    settings: Settings, partitions: Mapping[str, int], on_exit: ExitStack
) -> Mailbox[Event | BaseException]:
    """Start to read levelwind's topics; the records arrive in the mailbox."""
    mailbox: Mailbox[Event | BaseException] = Mailbox()
    intake = RecordIntake(settings.topics, partitions, mailbox, log)
    follower = TopicFollower(
        client_config=settings.client(),
        topics=settings.topics,
        on_record=intake.on_record,
        on_caught_up=intake.on_caught_up,
        on_connection=intake.on_connection,
        on_crash=intake.on_crash,
        log=log,
    )
    on_exit.callback(follower.stop)
    on_exit.callback(mailbox.close)  # runs before follower.stop: the follower may wait for room
    follower.start()
    return mailbox


def _start_observer(settings: Settings, metrics: Metrics, on_exit: ExitStack) -> None:
    observer = Observer(settings.client(), settings.topics, settings.observer, log, metrics.on_tick)
    on_exit.callback(observer.close)
    scheduler = BackgroundScheduler(timezone="UTC")
    observer.schedule(scheduler)
    scheduler.start()
    on_exit.callback(scheduler.shutdown)


class Daemon:
    """The main loop: takes events, lets the control decide, and performs the effects.

    One thread owns the control's state and calls every method but `leading_state`.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[str, int],
        mailbox: Mailbox[Event | BaseException],
        publisher: Publisher,
        pipeline: PipelineChild,
        metrics: Metrics,
        stop: threading.Event,
    ) -> None:
        self._topics = settings.topics
        self._partitions = partitions
        self._mailbox = mailbox
        self._publisher = publisher
        self._pipeline = pipeline
        self._metrics = metrics
        self._stop = stop
        self._leading = False
        self._state = ControlState(
            instance=f"{socket.gethostname()}/{uuid4().hex[:8]}",
            settings=settings.control,
            timers=settings.timers,
            planning_of=settings.planning_of,
            members_partitions=partitions[settings.topics.members],
        )
        self._reading = True

    def leading_state(self) -> ControlState | None:
        """Return the control's state, None until the daemon leads.

        For any thread: the state is replaced and never changed.
        """
        return self._state if self._leading else None

    # Loop.

    def loop(self) -> None:
        """Handle events until the daemon is asked to stop.

        A tick tells the control that time has passed and that every record before it has been
        handled, so it waits until the mailbox is empty, but not for longer than
        `LATEST_TICK_SECONDS`.

        Raises:
            LevelwindError: the daemon cannot go on.
        """
        ticked_at = float("-inf")
        while not self._stop.is_set():
            events = self._mailbox.take(TICK_SECONDS)
            for event in events:
                if isinstance(event, BaseException):
                    raise event
                self.handle(event)
                if self._stop.is_set():
                    return
            since = time.monotonic() - ticked_at
            drained = not events or not self._mailbox.waiting
            if since >= LATEST_TICK_SECONDS or (drained and since >= TICK_SECONDS):
                ticked_at = time.monotonic()
                self._pipeline.watch(ticked_at)
                self._mark_members_read()
                self.handle(Ticked())

    def _mark_members_read(self) -> None:
        """Tell the control that everything was handled that the reader has read so far."""
        if self._reading:
            for partition in range(self._partitions[self._topics.members]):
                self.handle(MembersRead(partition=partition, asked_at=boot_seconds()))

    def handle(self, event: Event) -> None:
        """Let the control take one step, and perform its effects in their order.

        Events before `Recovered` are dropped: the daemon leads once it has read everything that its
        topics held after it became the planner. A daemon that is asked to stop performs no further
        effect; nothing that was not published has been logged, and a later daemon decides it again.

        If a group's records are refused, the control puts that group back, and the effects of the
        other groups are performed all the same.

        Raises:
            FencedError: another planner has taken over.
            UnpublishableError: the planner's own record is refused.
        """
        if isinstance(event, ReaderStatus):
            self._reading = event.reading
        self._leading = self._leading or isinstance(event, Recovered)
        if not self._leading:
            return
        clock = Clock(now=boot_seconds(), at=now_ms())
        self._state, effects = step(self._state, event, clock)
        refused: set[str] = set()
        for effect in effects:
            if self._stop.is_set():
                return
            if any(concerns(effect, group) for group in refused):
                continue
            try:
                self._perform(effect)
            except (WireError, UnpublishableError) as error:
                if not isinstance(effect, Publish) or effect.rollback is None:
                    raise
                refused.add(effect.rollback.group.name)
                self.handle(PublishRefused(rollback=effect.rollback, reason=str(error)))

    # Effects.

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Publish(records=records):
                self._publish([m for kind, record in records for m in self._outgoing(kind, record)])
            case LogEvent(event, fields):
                self._metrics.on_log_event(event, fields)
                getattr(log, level_of(event))(event, **fields)
            case FenceCommits():
                pass  # no client announces a transactional id yet
            case Fenced(planner=planner):
                raise FencedError(
                    f"another daemon, {planner.instance}, plans for this cluster since its epoch"
                    f" {planner.planner_epoch}"
                )

    def _outgoing(self, kind: TopicKind, record: Record | Tombstone) -> list[OutgoingRecord]:
        return outgoing(self._topics, kind, record, self._partitions[self._topics.name(kind)])

    def _publish(self, records: Sequence[OutgoingRecord]) -> None:
        """Publish the records of one step.

        The state has moved on already, so publishing is tried until it succeeds or the daemon is
        asked to stop; assignments stay as they are meanwhile.
        """
        try:
            Retrying(
                retry=retry_if_exception_type(ClusterUnavailableError),
                wait=wait_exponential(max=10),
                sleep=sleep_using_event(self._stop),
                stop=stop_when_event_set(self._stop),
                before_sleep=_log_retry,
            )(self._publisher.publish, records)
        except RetryError:
            log.warning(
                "publisher.transaction_left_open",
                error="the daemon was asked to stop while the cluster did not answer",
            )


def _log_retry(attempt: Any) -> None:
    log.warning(
        "publisher.retrying",
        error=str(attempt.outcome.exception()),
        retry_in=round(attempt.next_action.sleep, 1),
    )
