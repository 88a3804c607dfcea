"""A term: all that a daemon runs only while it leads, from its take-over to its end."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from apscheduler.schedulers.background import BackgroundScheduler
from tenacity import Retrying, retry_if_exception_type, wait_exponential

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.daemon.control.boundary.control_events import CommitsFenced
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka.canary_writer import CanaryWriter
from levelwind.daemon.kafka.commit_fencer import CommitFencer
from levelwind.daemon.kafka.publisher import Publisher
from levelwind.daemon.observer.observer import LAYOUT_TICK, Observer
from levelwind.daemon.polling.commit_poller import CommitPoller
from levelwind.daemon.polling.commits_topic import CommitsTopic
from levelwind.daemon.service.availability.vital_signs import VitalSigns
from levelwind.daemon.service.live_planner import Planner
from levelwind.daemon.service.proxied_groups import ProxiedGroups
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenacity import RetryCallState

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.boundary.control_effects import FenceCommits
    from levelwind.daemon.control.boundary.control_events import (
        Event,
        ProxiedMembersChanged,
        ProxyChanged,
    )
    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
    from levelwind.daemon.control.state.control_state import ControlState
    from levelwind.daemon.service.leadership import LeadershipEvent
    from levelwind.daemon.service.mailbox import Mailbox
    from levelwind.daemon.service.metrics import Metrics
    from levelwind.daemon.service.record_intake import RecordIntake
    from levelwind.daemon.shutdown import AnyEvent

log = Logger()

PUBLISH_TIMEOUT_SECONDS = 5.0
"""Limit of one attempt to publish; between two attempts the daemon checks whether it must stop."""


class Term:
    """The publisher, the observer, the poller, the canaries and the planner of one leadership.

    The main thread calls all methods.
    """

    def __init__(
        self,
        settings: Settings,
        state: ControlState,
        partitions: Mapping[str, int],
        mailbox: Mailbox[Event | LeadershipEvent | BaseException],
        intake: RecordIntake,
        metrics: Metrics,
        over: AnyEvent,
    ) -> None:
        """Make the parts; `begin` starts them.

        Args:
            settings: the settings of the daemon.
            state: the control's first state.
            partitions: number of partitions of each of levelwind's topics, by name.
            mailbox: the mailbox of the daemon.
            intake: the intake, which posts the marks of the canaries.
            metrics: the daemon's metrics.
            over: set when the term must end.
        """
        self._settings = settings
        self._mailbox = mailbox
        self._intake = intake
        self._partitions = partitions
        self._metrics = metrics
        self._over = over
        self._on_end = ExitStack()
        self._canary: CanaryWriter | None = None
        self._poller: CommitPoller | None = None
        self._observer: Observer | None = None
        self._publisher = Publisher(
            settings.client(), settings.topics, timeout=PUBLISH_TIMEOUT_SECONDS, log=log
        )
        self._fencer = CommitFencer(settings.client(), log)
        self.vitals = VitalSigns(
            lambda: self.planner.state.settings, boot_seconds(), now_ms(), self._on_clock_step
        )
        self._proxied = ProxiedGroups(
            settings, lambda: self.planner.state, metrics, self._post_change
        )
        self.planner = Planner(
            state,
            settings.topics,
            partitions,
            self._publisher,
            self._fence_commits,
            metrics,
            over,
            self._proxied.on_published,
            self._look_at_inputs,
            self._cannot_publish,
        )

    def begin(self) -> bool:
        """Become the planner, and start the observer.

        Returns:
            Whether this daemon is the planner: false if it was asked to stop before.

        Raises:
            FencedError: another daemon became the planner at the same time.
            ClusterUnavailableError: no answer within `topic.timeout` seconds, or no right to
                publish.
        """
        self._on_end.callback(self._publisher.close)
        self._on_end.callback(self._fencer.close)
        self._fencer.start()
        try:
            Retrying(
                retry=retry_if_exception_type(ClusterUnavailableError),
                stop=self._given_up,
                wait=wait_exponential(max=2),
                sleep=self._over.sleep,
                reraise=True,
            )(self._publisher.init)
        except ClusterUnavailableError:
            if self._over.is_set():
                return False
            raise
        self._start_observer()
        if self._settings.commits.polled:
            self._start_poller()
        return True

    def start_canaries(self) -> None:
        """Write canaries in the epoch in which the planner leads, and post their marks."""
        self._canary = CanaryWriter(
            self._settings.client(),
            self._settings.topics,
            instance=self.planner.state.instance,
            planner_epoch=self.planner.state.planner_epoch,
            partitions=self._partitions[self._settings.topics.members],
            interval=self._settings.timers.canary,
            log=log,
        )
        self._intake.expect(self._canary.asked_at)
        self._canary.start()

    def start_proxy(self) -> None:
        """Let the leader proxy join the groups that are configured for it."""
        self._on_end.callback(self._proxied.stop)
        self._proxied.start()

    def lead_in(self, planner_epoch: int) -> None:
        """Write the next canaries in another epoch, to which the planner has gone over."""
        if self._canary is not None:
            self._canary.lead_in(planner_epoch)

    def written_canaries(self) -> dict[int, float]:
        """Return when the newest canary that each partition acknowledged was sent, in boot seconds.

        Empty before the first one.
        """
        return self._canary.written() if self._canary is not None else {}

    @property
    def fenced_reason(self) -> str:
        """Why a part other than the planner has lost its transactional id; empty if none has."""
        return self._poller.fenced_reason if self._poller is not None else ""

    def bid_farewell(self) -> None:
        """Say that the term ends in good order, so that nobody waits for its canaries."""
        self._fall_silent(farewell=True)

    def end(self, *, farewell: bool) -> None:
        """Stop all parts; returns when they have ended.

        Args:
            farewell: whether another daemon may take over at once; false if one has.
        """
        self._fall_silent(farewell=farewell)
        self._on_end.close()

    def _fall_silent(self, *, farewell: bool) -> None:
        """Post no records, ask for no layout and write no canaries any more."""
        self._intake.stand_by()
        if self._observer is not None:
            self._observer.ask_to_end()
        if self._canary is not None:
            self._canary.stop(farewell=farewell)
            self._canary = None

    def _given_up(self, attempts: RetryCallState) -> bool:
        waited = attempts.seconds_since_start or 0.0
        return self._over.is_set() or waited >= self._settings.topic.timeout

    def _start_observer(self) -> None:
        settings = self._settings
        self._observer = observer = Observer(
            settings.client(),
            settings.topics,
            settings.observer,
            log,
            self._on_tick,
            self.vitals.on_brokers,
            self._metrics.unwritten,
            settings.commits_topic,
        )
        self._on_end.callback(observer.close)
        scheduler = BackgroundScheduler(timezone="UTC")
        observer.schedule(scheduler)
        scheduler.start()
        self._on_end.callback(scheduler.shutdown)

    def _start_poller(self) -> None:
        settings = self._settings
        client = settings.client()
        topic = CommitsTopic(
            client,
            settings.topics,
            self._partitions[settings.topics.commits],
            self._metrics.unwritten,
            log,
        )
        self._poller = CommitPoller(client, settings.commits, topic, self._metrics.on_poll, log)
        self._on_end.callback(self._metrics.on_poll, None)
        self._on_end.callback(self._poller.stop)
        self._poller.start()

    def _post_change(self, changed: ProxyChanged | ProxiedMembersChanged) -> None:
        self._mailbox.put((type(changed).__name__, changed.group), changed)

    def _on_tick(self, tick: str, seconds: float, answered: bool) -> None:
        self._metrics.on_tick(tick, seconds, answered)
        if answered and tick == LAYOUT_TICK:
            self.vitals.on_layout(boot_seconds())

    def _on_clock_step(self) -> None:
        if self._observer is not None:
            self._observer.tick_now()

    def _look_at_inputs(self) -> Mapping[FreezeReason, str]:
        intake = self._intake
        return self.vitals.look(boot_seconds(), now_ms(), intake.pipeline, intake.lag_at)

    def _cannot_publish(self, since: float) -> bool:
        """Whether canaries are written and plans are not, for longer than a take-over may take.

        Where canaries are not written either, no other daemon could do better.
        """
        written = self._canary is None or any(
            sent_at > since for sent_at in self._canary.written().values()
        )
        return written and boot_seconds() - since >= self._settings.topic.timeout

    def _fence_commits(self, effect: FenceCommits) -> None:
        key = (effect.group, effect.incarnation)
        fenced = CommitsFenced(group=effect.group, incarnation=effect.incarnation)
        post = partial(self._mailbox.put, ("commits fenced", *key), fenced)
        self._fencer.fence(key, effect.transactional_id, post)
