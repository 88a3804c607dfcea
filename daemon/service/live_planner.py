"""The planner: the control's state while the daemon leads, and the effects of its steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tenacity import RetryError, Retrying, retry_if_exception_type, wait_exponential

from assignors.boot_clock import boot_seconds
from assignors.protocol.records import WireError
from daemon.control.context import LogEvent
from daemon.control.controller import (
    Clock,
    FenceCommits,
    Fenced,
    Publish,
    PublishRefused,
    Recovered,
    Ticked,
    concerns,
    step,
)
from daemon.errors import ClusterUnavailableError, FencedError
from daemon.kafka.publisher import UnpublishableError
from daemon.kafka.record_writer import outgoing
from daemon.service.planning_pace import PlanningPace
from daemon.telemetry.log_events import level_of
from daemon.telemetry.logger import Logger
from daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignors.protocol.records import Record, Tombstone
    from assignors.protocol.topics import TopicKind, Topics
    from daemon.control.controller import ControlState, Effect, Event
    from daemon.kafka.publisher import Publisher
    from daemon.kafka.record_writer import OutgoingRecord
    from daemon.service.metrics import Metrics
    from daemon.shutdown import AnyEvent

log = Logger()

TICK_SECONDS = 0.5
"""The control handles a tick at most this often."""


class Planner:
    """Lets the control decide, and performs the effects; one thread calls all methods."""

    def __init__(
        self,
        state: ControlState,
        topics: Topics,
        partitions: Mapping[str, int],
        publisher: Publisher,
        fence_commits: Callable[[FenceCommits], None],
        metrics: Metrics,
        over: AnyEvent,
    ) -> None:
        """Make a planner that leads from its first `Recovered` on.

        Args:
            state: the control's first state.
            topics: the names of levelwind's topics.
            partitions: number of partitions of each of them, by name.
            publisher: the publisher, which has become the planner.
            fence_commits: begins to fence a member's commits; a `CommitsFenced` follows.
            metrics: the daemon's metrics.
            over: set when the planner must perform no further effect.
        """
        self._state = state
        self._topics = topics
        self._partitions = partitions
        self._publisher = publisher
        self._fence_commits = fence_commits
        self._metrics = metrics
        self._over = over
        self._leading = False
        self._pace = PlanningPace(TICK_SECONDS)

    @property
    def state(self) -> ControlState:
        """The control's state; the next event changes its groups in place."""
        return self._state

    @property
    def leading(self) -> bool:
        """Whether everything has been read that the topics held when the daemon took over."""
        return self._leading

    def handle(self, event: Event) -> None:
        """Let the control take one step, and perform its effects in their order.

        Events before `Recovered` are dropped. A daemon that is asked to stop performs no further
        effect; nothing that was not published has been logged, and a later daemon decides it again.

        If a group's records are refused, the control puts that group back, and the effects of the
        other groups are performed all the same.

        Raises:
            FencedError: another planner has taken over.
            UnpublishableError: the planner's own record is refused.
        """
        self._leading = self._leading or isinstance(event, Recovered)
        if not self._leading:
            return
        begun = time.monotonic()
        if isinstance(event, Ticked):
            self._pace.ticked(begun)
            event = Ticked(budget=self._pace.budget)
        before = self._state.backlog.computed
        self._take_step(event)
        if self._state.backlog.computed > before:
            self._pace.planned(self._state.backlog.computed - before, time.monotonic() - begun)

    def _take_step(self, event: Event) -> None:
        clock = Clock(now=boot_seconds(), at=now_ms())
        self._state, effects = step(self._state, event, clock)
        refused: set[str] = set()
        for effect in effects:
            if self._over.is_set():
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

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Publish(records=records):
                self._publish([m for kind, record in records for m in self._outgoing(kind, record)])
            case LogEvent(event, fields):
                self._metrics.on_log_event(event, fields)
                getattr(log, level_of(event))(event, **fields)
            case FenceCommits():
                self._fence_commits(effect)
            case Fenced(planner=planner):
                raise FencedError(
                    f"another daemon, {planner.instance}, plans for this cluster since its epoch"
                    f" {planner.planner_epoch}"
                )

    def _outgoing(self, kind: TopicKind, record: Record | Tombstone) -> list[OutgoingRecord]:
        return outgoing(self._topics, kind, record, self._partitions[self._topics.name(kind)])

    def _publish(self, records: Sequence[OutgoingRecord]) -> None:
        """Publish the records of one step.

        The state has moved on already, so publishing is tried until it succeeds or the planner is
        to stop; assignments stay as they are meanwhile.
        """
        try:
            Retrying(
                retry=retry_if_exception_type(ClusterUnavailableError),
                wait=wait_exponential(max=10),
                sleep=self._over.sleep,
                stop=lambda _: self._over.is_set(),
                before_sleep=_log_retry,
            )(self._publisher.publish, records)
        except RetryError:
            log.warning(
                "publisher.transaction_left_open",
                error="the planner was to stop while the cluster did not answer",
            )


def _log_retry(attempt: Any) -> None:
    log.warning(
        "publisher.retrying",
        error=str(attempt.outcome.exception()),
        retry_in=round(attempt.next_action.sleep, 1),
    )
