"""The planner: the control's state while the daemon leads, and the effects of its steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception_type, wait_exponential

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.protocol.records import WireError
from levelwind.daemon.control.boundary.control_effects import (
    Audit,
    FenceCommits,
    Fenced,
    Publish,
    concerns,
)
from levelwind.daemon.control.boundary.control_events import PublishRefused, Recovered, Ticked
from levelwind.daemon.control.context import Clock, LogEvent
from levelwind.daemon.control.controller import step
from levelwind.daemon.decisions.encoding import parts
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.kafka.publisher import UnpublishableError
from levelwind.daemon.kafka.record_writer import outgoing
from levelwind.daemon.service.availability.latest_facts import LatestFacts
from levelwind.daemon.service.planning_pace import PlanningPace
from levelwind.daemon.telemetry.log_events import level_of
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from levelwind.assignors.protocol.records import Record, Tombstone
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.daemon.control.audit.decision_draft import DecisionDraft
    from levelwind.daemon.control.boundary.control_effects import Effect
    from levelwind.daemon.control.boundary.control_events import Event
    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
    from levelwind.daemon.control.state.control_state import ControlState
    from levelwind.daemon.kafka.publisher import Publisher
    from levelwind.daemon.kafka.record_writer import OutgoingRecord
    from levelwind.daemon.service.metrics import Metrics
    from levelwind.daemon.shutdown import AnyEvent

log = Logger()

TICK_SECONDS = 0.5
"""The control handles a tick at most this often."""


def _ignore(_: object) -> None:
    """Do nothing with what was published."""


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
        on_published: Callable[[Sequence[tuple[TopicKind, Record | Tombstone]]], None] = _ignore,
        frozen: Callable[[], Mapping[FreezeReason, str]] = dict,
        given_up: Callable[[float], bool] = lambda _: False,
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
            on_published: called with the records of each transaction that was committed.
            frozen: returns why planning is frozen for all groups; called at each tick.
            given_up: whether what could not be published since a time, in boot seconds, is left to
                another daemon; asked after each attempt.
        """
        self._state = state
        self._topics = topics
        self._partitions = partitions
        self._publisher = publisher
        self._fence_commits = fence_commits
        self._metrics = metrics
        self._over = over
        self._on_published = on_published
        self._frozen = frozen
        self._given_up = given_up
        self._leading = False
        self.facts = LatestFacts()
        """Facts about the state, for other threads."""
        self._pace = PlanningPace(TICK_SECONDS)

    @property
    def state(self) -> ControlState:
        """The control's state, of which other threads may read what a step replaces."""
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
            ClusterUnavailableError: publishing was given up; the state holds what no record says.
        """
        self._leading = self._leading or isinstance(event, Recovered)
        if not self._leading:
            return
        begun = time.monotonic()
        if isinstance(event, Ticked):
            self._pace.ticked(begun)
            event = Ticked(budget=self._pace.budget, frozen=self._frozen())
        before = self._state.backlog.computed
        self._take_step(event)
        if self._state.backlog.computed > before:
            self._pace.planned(self._state.backlog.computed - before, time.monotonic() - begun)
        if isinstance(event, Ticked | Recovered):
            self.facts.offer(self._state)

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
            case Publish(records=records, drafts=drafts):
                messages = [m for kind, it in records for m in self._outgoing(kind, it)]
                if self._publish_audited(messages, drafts):
                    self._on_published(records)
            case Audit(drafts=drafts):
                self._publish_audited([], drafts)
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

    def _publish_audited(
        self, messages: Sequence[OutgoingRecord], drafts: Sequence[DecisionDraft]
    ) -> bool:
        """Publish messages with the entries of the audit trail; return whether that was done.

        Where the entries are refused, the messages are published without them: no plan waits for
        its audit.
        """
        if self._topics.decisions not in self._partitions:
            drafts = ()
        try:
            entries = [
                message
                for entry in drafts
                for part in parts(entry)
                for message in self._outgoing("decisions", part)
            ]
            return self._publish([*messages, *entries])
        except (WireError, UnpublishableError) as error:
            if not drafts:
                raise
            for entry in drafts:
                log.error("decision.unrecorded", group=entry.group, reason=str(error))  # noqa: TRY400 - the text says it all
            return self._publish(messages)

    def _outgoing(self, kind: TopicKind, record: Record | Tombstone) -> list[OutgoingRecord]:
        return outgoing(self._topics, kind, record, self._partitions[self._topics.name(kind)])

    def _publish(self, records: Sequence[OutgoingRecord]) -> bool:
        """Publish the records of one step; return whether that was done.

        The state has moved on already, so publishing is tried until it succeeds, is given up, or
        the planner is to stop; assignments stay as they are meanwhile.
        """
        begun = boot_seconds()
        try:
            Retrying(
                retry=retry_if_exception_type(ClusterUnavailableError),
                wait=wait_exponential(max=10),
                sleep=self._over.sleep,
                stop=lambda _: self._over.is_set() or self._given_up(begun),
                before_sleep=_log_retry,
                reraise=True,
            )(self._publisher.publish, records)
        except ClusterUnavailableError:
            if not self._over.is_set():
                raise
            log.warning(
                "publisher.transaction_left_open",
                error="the planner was to stop while the cluster did not answer",
            )
            return False
        return True


def _log_retry(attempt: Any) -> None:
    log.warning(
        "publisher.retrying",
        error=str(attempt.outcome.exception()),
        retry_in=round(attempt.next_action.sleep, 1),
    )
