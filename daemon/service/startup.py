"""The start of the daemon's process, its parts, and its end.

The metrics live as long as the process, the follower and the pipeline until a topic is deleted, and
the parts of a `Term` as long as the daemon leads.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon import memory
from levelwind.daemon.access.rights_check import may_read, require_rights
from levelwind.daemon.access.role_rights import daemon_rights
from levelwind.daemon.config.settings_reload import SettingsReload, reload_on_signal
from levelwind.daemon.control.membership.subscribed_patterns import SubscribedPatterns
from levelwind.daemon.control.state.control_state import ControlState
from levelwind.daemon.errors import LevelwindError
from levelwind.daemon.gauges.group_gauges import GroupGauges
from levelwind.daemon.kafka import topic_setup
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.kafka.topic_watch import TopicWatch
from levelwind.daemon.paths import ensure_writable
from levelwind.daemon.service.availability.daemon_identity import instance_of, kept_id
from levelwind.daemon.service.availability.http_serving import HttpServing
from levelwind.daemon.service.availability.lead_claim import lead_claim
from levelwind.daemon.service.availability.pipeline_host import PipelineHost
from levelwind.daemon.service.daemon import Daemon
from levelwind.daemon.service.mailbox import Mailbox
from levelwind.daemon.service.metrics import Metrics, serve
from levelwind.daemon.service.read_marks import ReadMarks
from levelwind.daemon.service.record_intake import RecordIntake
from levelwind.daemon.service.term import Term
from levelwind.daemon.shutdown import AnyEvent, stop_on_signals
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wire.client_security import client_security

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.boundary.control_events import Event
    from levelwind.daemon.service.leadership import LeadershipEvent
    from levelwind.daemon.shutdown import StopEvent

Read = TypeVar("Read")

log = Logger()


class TopicsReplacedError(LevelwindError):
    """Topics of levelwind were deleted or created again while the daemon followed them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"deleted or created again: {', '.join(names)}")
        self.names = names


def run(
    settings: Settings,
    serve_http: Callable[[Settings, Metrics], HttpServing] | None = None,
    read_again: Callable[[], Settings] | None = None,
) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    Args:
        settings: the settings.
        serve_http: starts the HTTP server; None for none.
        read_again: reads the settings again, at SIGHUP; None: they are read once.

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
    memory.collect_rarely()
    memory.use_few_arenas()
    reload = SettingsReload(settings, read_again)
    try:
        with stop_on_signals() as stop, reload_on_signal(reload), ExitStack() as on_exit:
            ensure_writable(settings.state_dir, "state_dir", private=True)
            if settings.proxied_groups() or settings.commits.polled:
                client_security(settings.client())  # at the start, not when the daemon takes over
            if settings.pipeline.run == "child":
                settings.java_client()  # likewise
            metrics = _serve_metrics(settings, on_exit)
            http = HttpServing()
            if serve_http is not None and settings.http.listen:
                http = serve_http(settings, metrics)
                on_exit.callback(http.close)
            past: Past | None = Past()
            while past is not None:
                past = _follow_and_lead(reload, metrics, http, stop, past)
    except KeyboardInterrupt:
        pass  # a signal during the start
    except LevelwindError as error:
        log.error("daemon.failed", error=str(error))  # noqa: TRY400 - the text says it all
        raise
    log.info("daemon.stopped", reason="signal received")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a daemon remembers of topics that are gone."""

    planner_epoch: int = 0
    """The highest epoch of a planner that was read or led in."""
    lead_from: float = float("-inf")
    """Boot seconds before which the daemon must not lead: members may hold leases until then that
    no record shows."""


def _serve_metrics(settings: Settings, on_exit: ExitStack) -> Metrics:
    metrics = Metrics(
        version("levelwind"),
        now=time.time,
        gauges=GroupGauges(settings.scaling_of, partitions=settings.metrics.partitions),
        cluster=settings.metrics.cluster_name,
    )
    if settings.metrics.listen:
        server = serve(settings.metrics.listen, metrics.registry)
        on_exit.callback(server.close)
        log.info("metrics.listening", address=server.address)
    return metrics


def _follow_and_lead(
    reload: SettingsReload, metrics: Metrics, http: HttpServing, stop: StopEvent, past: Past
) -> Past | None:
    """Follow the topics, and lead where no other daemon does, until the daemon is asked to stop.

    Returns:
        None once the daemon was asked to stop; else what to go on with, since topics were replaced.
    """
    with ExitStack() as on_exit:
        settings = reload.settings
        daemon = _start(reload, metrics, http, stop, past, on_exit)
        stop.polled = True
        try:
            daemon.loop()
        except TopicsReplacedError as error:
            log.warning("topics.replaced", topics=list(error.names), wait=settings.timers.grant)
            http.on_replaced()
            return Past(
                planner_epoch=daemon.highest_epoch,
                lead_from=boot_seconds() + settings.timers.grant,
            )
    return None


def _start(
    reload: SettingsReload,
    metrics: Metrics,
    http: HttpServing,
    stop: StopEvent,
    past: Past,
    on_exit: ExitStack,
) -> Daemon:
    """Start to follow the topics; `on_exit` stops the parts in the reverse order."""
    settings = _with_source_of_commits(reload.settings)
    partitions = _ensure_topics(settings)
    mailbox: Mailbox[Event | LeadershipEvent | BaseException] = Mailbox()
    replaced = _watch_topics(settings, partitions, mailbox, on_exit)
    kept = kept_id(settings.state_dir)
    instance = instance_of(kept)
    intake = RecordIntake(
        settings.topics,
        partitions,
        mailbox,
        log,
        instance=instance,
        on_misplaced=metrics.on_rejected,
        unwritten=metrics.unwritten,
    )
    follower = TopicFollower(
        client_config=settings.client(),
        topics=settings.topics,
        on_record=_both(intake.on_record, http.on_record),
        on_unread=_both(intake.on_unread, http.on_record),
        on_rejected=lambda rejected: metrics.on_rejected(settings.topics.name(rejected.kind)),
        on_caught_up=intake.on_caught_up,
        on_crash=intake.on_crash,
        log=log,
    )
    on_exit.callback(follower.stop)
    on_exit.callback(mailbox.close)  # runs before follower.stop: the follower may wait for room
    follower.start()
    over = AnyEvent(stop, replaced)

    def make_term(state: ControlState) -> Term:
        return Term(settings, state, partitions, mailbox, intake, metrics, over)

    host = PipelineHost(settings, metrics.pipeline, lambda: intake.pipeline, instance)
    on_exit.callback(host.stop)
    daemon = Daemon(
        settings,
        ControlState(
            instance=instance,
            settings=settings.control,
            timers=settings.timers,
            planning_of=settings.planning_of,
            modes=settings.watched_modes(),
            members_partitions=partitions[settings.topics.members],
            patterns=SubscribedPatterns(frozenset(partitions)),
            planner_epoch=past.planner_epoch,
        ),
        mailbox,
        ReadMarks(settings, partitions, follower, intake, mailbox),
        make_term,
        lead_claim(settings, kept, mailbox),
        host,
        over,
        lead_from=past.lead_from,
        on_leading=memory.keep_heap,
        changed_settings=reload.take,
    )
    on_exit.callback(daemon.close)
    metrics.show(daemon.leading_facts, daemon.readiness)
    http.show(daemon.readiness, lambda: reload.settings)
    return daemon


def _both(first: Callable[[Read], None], then: Callable[[Read], None]) -> Callable[[Read], None]:
    """Return a callback that calls two others, the one that the planner waits for first."""

    def call(read: Read) -> None:
        first(read)
        then(read)

    return call


def _ensure_topics(settings: Settings) -> Mapping[str, int]:
    """Create levelwind's topics and the one that commits are read from where they are missing.

    Returns:
        The number of partitions of each topic of levelwind's, by name.
    """
    client, timeout = settings.client(), settings.topic.timeout
    polled = settings.commits.polled
    rights = daemon_rights(settings.topics, proxied=settings.proxied_groups(), polled=polled)
    require = partial(
        require_rights,
        client,
        settings.topics,
        rights,
        timeout=timeout,
        log=log,
        commits_topic=settings.commits_topic,
    )
    # Before the topics are created: without rights a topic looks like one that does not exist.
    compared = require()
    partitions = topic_setup.ensure_topics(
        client, settings.topics, settings.topic, log, polled=polled
    )
    if not compared:
        require()
    if not polled:
        topic_setup.ensure_offsets_topic(client, settings.topic, f"{settings.prefix}probe")
    return partitions


def _with_source_of_commits(settings: Settings) -> Settings:
    """Return the settings with `auto` decided: polling where `__consumer_offsets` is hidden.

    A pipeline elsewhere cannot know what was decided here, and takes `auto` for `topic`.

    Raises:
        ClusterUnavailableError: no answer in time; that says nothing about rights.
    """
    if settings.commits.source != "auto" or settings.pipeline.run != "child":
        return settings
    client, timeout = settings.client(), settings.topic.timeout
    readable = may_read(client, OFFSETS_TOPIC, timeout=timeout)
    if readable is None:  # no group has been looked up yet, or the cluster does not show the topic
        try:
            topic_setup.ensure_offsets_topic(client, settings.topic, f"{settings.prefix}probe")
            readable = may_read(client, OFFSETS_TOPIC, timeout=timeout)
        except topic_setup.NotShownError:
            readable = False
    if readable:
        return settings
    log.warning("commits.topic_unreadable", topic=OFFSETS_TOPIC, interval=settings.commits.interval)
    client_security(client)  # at the start, not when the daemon leads
    polled = replace(settings.commits, source="poll")
    return settings.model_copy(update={"commits": polled})


def _watch_topics(
    settings: Settings,
    partitions: Mapping[str, int],
    mailbox: Mailbox[Event | LeadershipEvent | BaseException],
    on_exit: ExitStack,
) -> threading.Event:
    """Watch levelwind's topics; return an event that is set when one of them is another one."""
    replaced = threading.Event()

    def on_replaced(names: tuple[str, ...]) -> None:
        mailbox.put("topics replaced", TopicsReplacedError(names))
        replaced.set()

    watch = TopicWatch(settings.client(), partitions, on_replaced)
    watch.start(settings.topic.timeout)
    on_exit.callback(watch.stop)
    return replaced
