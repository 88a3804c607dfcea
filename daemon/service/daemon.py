"""The daemon's main loop: leads or stands by, and hands events to the planner of its term.

One thread owns all decisions: the main one. The observer's jobs, the topic follower, the canaries,
the group of daemons and the signals only post to its mailbox or set a flag.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.daemon import memory
from levelwind.daemon.control.boundary.control_events import (
    MembersRead,
    Recovered,
    Ticked,
    together,
)
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.service.availability.readiness import leader_readiness, standby_readiness
from levelwind.daemon.service.leadership import (
    CanaryReadBack,
    CanaryWritten,
    LeadChanged,
    Leadership,
    LeaderSighted,
    LeadPhase,
    ReadUntil,
    TopicsRead,
)
from levelwind.daemon.service.live_planner import TICK_SECONDS
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.boundary.control_events import Event, SettingsChanged
    from levelwind.daemon.control.state.control_facts import ControlFacts
    from levelwind.daemon.control.state.control_state import ControlState
    from levelwind.daemon.kafka.lead_group import LeadGroup
    from levelwind.daemon.service.availability.pipeline_host import PipelineHost
    from levelwind.daemon.service.availability.readiness import Readiness
    from levelwind.daemon.service.leadership import LeadershipEvent
    from levelwind.daemon.service.mailbox import Mailbox
    from levelwind.daemon.service.read_marks import ReadMarks
    from levelwind.daemon.service.term import Term
    from levelwind.daemon.shutdown import AnyEvent

log = Logger()

LATEST_TICK_SECONDS = 2.0
"""Longest time between two ticks under a steady stream of records: after that a tick is handled
before the records that are still waiting."""


class Daemon:
    """The main loop: takes events, leads or stands by, and hands events to the planner.

    One thread calls every method but `leading_facts` and `readiness`.
    """

    def __init__(
        self,
        settings: Settings,
        state: ControlState,
        mailbox: Mailbox[Event | LeadershipEvent | BaseException],
        marks: ReadMarks,
        make_term: Callable[[ControlState], Term],
        lead: LeadGroup,
        host: PipelineHost,
        over: AnyEvent,
        *,
        lead_from: float = float("-inf"),
        on_leading: Callable[[], None] = lambda: None,
        changed_settings: Callable[[], SettingsChanged | None] = lambda: None,
    ) -> None:
        """Make a daemon that reads its topics and does not lead yet.

        Args:
            settings: the settings of the daemon.
            state: the control's state at the beginning of each term.
            mailbox: the events.
            marks: asks how far the topics have been read.
            make_term: makes the parts that run while the daemon leads.
            lead: the membership in the group that gives the lead to one daemon.
            host: starts the pipeline, or watches over one elsewhere.
            over: set when the loop must end.
            lead_from: boot seconds before which the daemon does not lead.
            on_leading: called at the begin of each term, once the planner leads.
            changed_settings: returns the settings if they were read again; called at each tick.
        """
        self._changed_settings = changed_settings
        self._first_state = state
        self._mailbox = mailbox
        self._marks = marks
        self._make_term = make_term
        self._lead = lead
        self._host = host
        self._over = over
        self._lead_from = lead_from
        self._on_leading = on_leading
        self._interval = max(settings.timers.canary, TICK_SECONDS)
        self._leadership = Leadership(
            instance=state.instance,
            takeover=settings.timers.takeover,
            interval=self._interval,
            patience=settings.timers.dead_after,
        )
        self._term: Term | None = None
        self._recovery_asked = False
        self._took_over_at = float("-inf")
        """Boot seconds at which the daemon last took over."""
        self._fresh = True
        """Whether the daemon has neither led nor stood by yet: then a start that fails ends it."""
        self._asked_at = float("-inf")
        """Monotonic seconds of the last question for the topics' ends."""
        self._given_back_at = time.monotonic()
        """Monotonic seconds at which freed memory was last given back to the system."""
        self._read_at = float("-inf")
        """Monotonic seconds at which the daemon last showed that it can read its topics."""
        self._standing_by_logged = False

    def leading_facts(self, patience: float = 0.0) -> ControlFacts | None:
        """Return the facts about the control, None while the daemon does not lead; for any thread.

        Args:
            patience: see `LatestFacts.get`.
        """
        term = self._term
        return None if term is None else term.planner.facts.get(patience)

    def readiness(self, patience: float = 0.0) -> Readiness:
        """Return the part of this daemon, and whether planning is frozen; for any thread.

        Args:
            patience: see `LatestFacts.get`.
        """
        term, facts = self._term, self.leading_facts(patience)
        leadership, instance = self._leadership, self._first_state.instance
        if facts is None or term is None:
            return standby_readiness(leadership, instance)
        at = now_ms()
        return leader_readiness(facts, instance, term.vitals.reasons(boot_seconds(), at), at)

    @property
    def highest_epoch(self) -> int:
        """The highest epoch of a planner that was read or led in."""
        leader = self._leadership.leader
        return max(
            self._first_state.planner_epoch,
            self._leadership.planner_epoch,
            leader.planner_epoch if leader else 0,
        )

    def close(self) -> None:
        """End the term, if the daemon leads, so that another daemon takes over at once."""
        if self._term is not None and self._leadership.phase is LeadPhase.LEADING:
            self._term.bid_farewell()
        # The next leader is on its way while the rest ends.
        self._lead.leave()
        self._host.ask_to_stop()
        self._end_term(farewell=False)

    # Loop.

    def loop(self) -> None:
        """Handle events until the daemon is asked to stop.

        A tick tells the control that time has passed and that every record before it has been
        handled, so it waits until the mailbox is empty, but not for longer than
        `LATEST_TICK_SECONDS`.

        Raises:
            LevelwindError: the daemon cannot go on as it is; the text says why.
        """
        ticked_at = float("-inf")
        while not self._over.is_set():
            events = self._mailbox.take(TICK_SECONDS)
            for event in together(events):
                if isinstance(event, BaseException):
                    raise event
                self.handle(event)
                if self._over.is_set():
                    break
            if self._leadership.due and self._term is None:
                self._take_over()
            since = time.monotonic() - ticked_at
            drained = not events or not self._mailbox.waiting
            if since >= LATEST_TICK_SECONDS or (drained and since >= TICK_SECONDS):
                ticked_at = time.monotonic()
                self.tick(ticked_at)
        self._raise_errors()

    def _raise_errors(self) -> None:
        """Raise an error that was posted while an effect was performed."""
        for event in self._mailbox.take(0):
            if isinstance(event, BaseException):
                raise event

    def handle(self, event: Event | LeadershipEvent) -> None:
        """Handle one event: first who leads, then the planner.

        A daemon that is fenced, reads a canary of a higher epoch, or does not read its own stands
        by.
        """
        match event:
            case TopicsRead() | ReadUntil():
                self._decide_leadership(event)
                self._read_at = time.monotonic()
                if self._term is None:
                    self._lead.join()
            case LeaderSighted() | CanaryWritten() | CanaryReadBack() | LeadChanged():
                self._decide_leadership(event)
            case Recovered() if event.asked_at < self._took_over_at:
                pass  # asked in a former term: another planner may have published since
            case _ if self._term is not None:
                if isinstance(event, MembersRead):
                    self._decide_leadership(CanaryReadBack(partition=event.partition))
                self._plan(self._term, event)
            case _:
                pass  # a record that was posted before the daemon stood by

    def tick(self, now: float) -> None:
        """Let the planner know that time has passed; while another leads, ask who does.

        Args:
            now: monotonic seconds.
        """
        taking_over = self._term is not None and not self._term.planner.leading
        # A planner that does not lead yet would drop the change.
        if not taking_over and (change := self._changed_settings()) is not None:
            self._first_state = replace(
                self._first_state, settings=change.settings, planning_of=change.planning_of
            )
            self.handle(change)
        if now - self._given_back_at >= memory.GIVE_BACK_SECONDS:
            self._given_back_at = now
            memory.give_back()
        self._watch_pipeline(now)
        if self._term is None:
            if self._leadership.phase is LeadPhase.STANDING_BY:
                self._stand_ready(now)
            return
        for partition, sent_at in self._term.written_canaries().items():
            self._decide_leadership(CanaryWritten(partition=partition, sent_at=sent_at))
        if self._term is None:
            return
        if reason := self._term.fenced_reason:
            self._depose(reason)
            return
        if not self._recovery_asked:
            self._recovery_asked = self._ask(self._marks.recover)
        if not self._term.planner.leading and self._unread_for(now) >= self._leadership.patience:
            self._depose("it cannot read")
            self._give_up_lead("it cannot read")
            return
        self._plan(self._term, Ticked())

    def _watch_pipeline(self, now: float) -> None:
        leader = self._leadership.leader
        self._host.look(
            now,
            leading=self._term is not None,
            stopped=leader.instance if leader is not None and leader.state == "stopped" else None,
        )

    def _stand_ready(self, now: float) -> None:
        """Ask how far the topics can be read; who cannot read them must not be given the lead."""
        if now - self._asked_at >= self._interval:
            self._asked_at = now
            self._ask(self._marks.ask)
        if not self._lead.joined:
            return
        if self._unread_for(now) >= self._leadership.patience:
            self._give_up_lead("it cannot read")
        elif self._leadership.unled:
            self._give_up_lead("nobody has it")

    def _unread_for(self, now: float) -> float:
        return now - self._read_at

    def _give_up_lead(self, reason: str) -> None:
        """Leave the group of daemons, so that it chooses anew, until the next read."""
        log.warning("daemon.lead_given_up", reason=reason)
        self._lead.leave()
        self._leadership = self._leadership.gave_up()

    # Who leads.

    def _decide_leadership(self, event: LeadershipEvent) -> None:
        before, self._leadership = self._leadership, self._leadership.after(event)
        now = self._leadership
        if before.phase is LeadPhase.LEADING and now.phase is not LeadPhase.LEADING:
            if isinstance(event, CanaryWritten):
                log.error("daemon.reads_nothing", partition=event.partition, seconds=now.patience)
                self._stand_by("it cannot read", before.planner_epoch, farewell=True)
                self._give_up_lead("it cannot read")
            else:
                self._stand_by("another daemon leads", before.planner_epoch)
        elif now.phase is LeadPhase.STANDING_BY and now.contended and not self._standing_by_logged:
            self._fresh = False
            self._log_standing_by()

    def _take_over(self) -> None:
        if boot_seconds() < self._lead_from:
            return
        leader = self._leadership.leader
        log.info(
            "daemon.taking_over",
            leader=leader.instance if leader else None,
            state=leader.state if leader else None,
            silent=round(self._leadership.silent, 1),
        )
        self._standing_by_logged = False
        self._took_over_at = boot_seconds()
        state = replace(self._first_state, planner_epoch=self.highest_epoch)
        self._term = self._make_term(state)
        # The pipeline takes longest and needs nothing of what follows.
        self._watch_pipeline(time.monotonic())
        try:
            if self._term.begin():
                self._read_at = time.monotonic()  # nothing was asked while it began
                self._recovery_asked = self._ask(self._marks.recover)
        except FencedError as error:
            self._depose(str(error))
        except ClusterUnavailableError as error:
            if self._fresh:
                raise
            self._depose(str(error))
            self._give_up_lead("it cannot take over")

    def _ask(self, question: Callable[[], None]) -> bool:
        try:
            question()
        except ClusterUnavailableError:
            return False  # the next tick asks again; the reader logs an outage
        return True

    def _plan(self, term: Term, event: Event) -> None:
        try:
            term.planner.handle(event)
        except FencedError as error:
            self._depose(str(error))
            return
        except ClusterUnavailableError as error:
            self._depose(f"it cannot publish: {error}", farewell=True)
            self._give_up_lead("it cannot publish")
            return
        if not term.planner.leading or self._over.is_set():
            return
        epoch = term.planner.state.planner_epoch
        if isinstance(event, Recovered):
            self._fresh = False
            self._leadership = self._leadership.led(epoch)
            term.start_canaries()
            self._on_leading()
            term.start_proxy()
        elif epoch != self._leadership.planner_epoch:
            self._leadership = self._leadership.led(epoch)
            term.lead_in(epoch)

    def _depose(self, reason: str, *, farewell: bool = False) -> None:
        epoch = self._leadership.planner_epoch
        self._leadership = self._leadership.deposed()
        self._stand_by(reason, epoch, farewell=farewell)

    def _stand_by(self, reason: str, planner_epoch: int, *, farewell: bool = False) -> None:
        self._fresh = False
        log.warning("daemon.deposed", reason=reason, planner_epoch=planner_epoch)
        self._end_term(farewell=farewell)
        self._read_at = time.monotonic()
        self._log_standing_by()

    def _log_standing_by(self) -> None:
        self._standing_by_logged = True
        leader = self._leadership.leader
        log.info(
            "daemon.standing_by",
            leader=leader.instance if leader else None,
            planner_epoch=leader.planner_epoch if leader else None,
            takeover=self._leadership.takeover,
        )

    def _end_term(self, *, farewell: bool) -> None:
        term, self._term = self._term, None
        self._recovery_asked = False
        if term is not None:
            term.end(farewell=farewell)
