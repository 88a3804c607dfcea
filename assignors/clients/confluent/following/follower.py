"""Background thread of a managed consumer: owns the member's state, and announces it.

Events reach the thread through one mailbox, and what the application's thread has to do leaves as
orders. So heartbeats continue while the application is busy, and only the application's thread
calls the application's consumer. The lease is a value that the application's thread reads.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any

from msgspec import structs

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.committing.deadline import Deadline
from levelwind.assignors.clients.confluent.event_log import log, log_event
from levelwind.assignors.clients.confluent.following.admission import Admission
from levelwind.assignors.clients.confluent.following.announcer import Announcer
from levelwind.assignors.clients.confluent.following.follower_messages import (
    Order,
    UndecidedRevocation,
)
from levelwind.assignors.clients.confluent.following.obstacles import Obstacles
from levelwind.assignors.clients.confluent.following.poll_watch import PollWatch
from levelwind.assignors.clients.confluent.reading.assignments_reader import (
    AssignmentsReader,
    EndReached,
    ReaderFailed,
    RecordRead,
    StableOffsetAnswered,
)
from levelwind.assignors.clients.confluent.reading.read_proof import ReadProof
from levelwind.assignors.clients.confluent.reading.received_assignment import event_of_assignment
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_machine import step
from levelwind.assignors.handover.member_state import MemberMachine, Phase
from levelwind.assignors.protocol.records.reassembly import Reassembly, names_record
from levelwind.assignors.protocol.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka import ThrottleEvent

    from levelwind.assignors.clients.confluent.committing.transactions import TransactionalCommits
    from levelwind.assignors.clients.confluent.settings import ClientSettings
    from levelwind.assignors.handover.lease import Lease

WAIT_SECONDS = 0.25
"""Longest time between two ticks of the member."""
ACK_WAIT_SECONDS = 0.02
"""The same, while an announcement waits for its acknowledgement."""


class AssignmentFollower(Thread):
    """Follows the planner for one consumer until the member has left."""

    def __init__(
        self,
        *,
        member: MemberMachine,
        settings: ClientSettings,
        prefix: str,
        transactions: TransactionalCommits | None = None,
        after_subscribers: bool = False,
    ) -> None:
        super().__init__(
            name=f"levelwind-{member.profile.group}-{member.profile.instance}", daemon=True
        )
        self.orders: deque[Order] = deque()
        """Orders for the application's thread, oldest first."""
        self._ordered = Flag()
        self.lost = Flag()
        """Set while the member's partitions may have another owner.

        That lasts until the application's thread has dropped them.
        """
        self.joined = False
        """Whether the member has announced itself; levelwind's topics exist then."""
        self.failure: Exception | None = None
        self.profile = member.profile
        self.poll_watch = PollWatch(settings.max_poll_interval)
        self._mailbox: SimpleQueue[Any] = SimpleQueue()
        self._machine = member
        self._settings = settings = settings.with_throttle_callback(self._on_throttled)
        self._topics = Topics(prefix)
        self._transactions = transactions
        self._rejoin: ev.LoseFinished | None = None
        self._held: list[UndecidedRevocation] = []
        self._closing = Flag()
        self._abandoned = Flag()
        self._asked_at = float("-inf")
        self._wait_seconds = min(WAIT_SECONDS, member.timers.heartbeat / 10)
        self._proof = ReadProof(0)
        self._reassembly = Reassembly()
        self._reader = AssignmentsReader(
            settings, topics=self._topics, group=self.profile.group, post=self._mailbox.put
        )
        self.obstacles = Obstacles(
            group=self.profile.group,
            topics=self._topics,
            heartbeat=member.timers.heartbeat,
            identity=self.identity,
            admin=self._reader.admin,
        )
        self._admission = Admission(
            profile=member.profile,
            reader=self._reader,
            transactions=transactions,
            heartbeat=member.timers.heartbeat,
            after_subscribers=after_subscribers,
            closing=self._closing,
            obstacles=self.obstacles,
        )
        self._announcer = Announcer(
            settings,
            topic=self._topics.members,
            on_acked=self._take_acknowledgement,
            on_failed=self.obstacles.announcement_failed,
            on_replaced=lambda error: self._log(
                logging.WARNING, "member.producer_replaced", error=error
            ),
        )

    # Called by the application's thread.

    def end_life(self) -> None:
        """End this life, whose commits the brokers refuse; nothing is handed out from now on."""
        self.lost.set()
        self.post(ev.CommitsEnded())

    def post(self, event: ev.Event) -> None:
        """Put an event into the member's mailbox."""
        self._mailbox.put(event)

    def await_order(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for an order."""
        self._ordered.wait(timeout)
        self._ordered.clear()

    def post_undecided(self) -> None:
        """Report a revocation whose commit may still arrive for `timers.commit`.

        The member hears of it when that has passed on both clocks, and takes it as decided.
        """
        # A loss in between makes another incarnation, which has no part in this revocation.
        until = Deadline.after(self._machine.timers.commit)
        self._mailbox.put(UndecidedRevocation(self.incarnation, until))

    def weigh(self, capacity: float, priority: int) -> None:
        """Announce another capacity and priority, now and in all later lives."""
        self.profile = structs.replace(self.profile, capacity=capacity, priority=priority)
        self.post(ev.WeightChanged(capacity, priority))

    def leave(self) -> None:
        """Ask the member to leave; the thread ends once it has left."""
        self._closing.set()
        self.post(ev.LeaveRequested())

    def abandon(self) -> None:
        """End the thread without leaving.

        Nothing was given up, so no release may be announced: the planner evicts the member.
        """
        self._abandoned.set()
        self._closing.set()

    @property
    def admin(self) -> Any:
        """An `AdminClient`, for questions to the brokers."""
        return self._reader.admin

    @property
    def incarnation(self) -> str:
        """Identifier of the member's current life."""
        return self._machine.incarnation

    @property
    def phase(self) -> Phase:
        """State of the member in the hand-over."""
        return self._machine.phase_at(boot_seconds())

    @property
    def lease(self) -> Lease:
        """How long the member may use its partitions."""
        return self._machine.lease

    @property
    def may_deliver(self) -> bool:
        """Whether records may be handed out, stored and committed now."""
        return not self.lost.is_set() and self.lease.deliverable(boot_seconds())

    @property
    def lease_is_valid(self) -> bool:
        """Whether the member's partitions are still its own; if so, the lease may be renewed."""
        return not self.lost.is_set() and self.lease.valid(boot_seconds())

    @property
    def lease_remaining(self) -> float:
        """Seconds until the end of the lease, 0 without one."""
        return self.lease.remaining(boot_seconds())

    @property
    def grant_superseded(self) -> bool:
        """Whether a newer record takes back what is just being started."""
        return self._machine.grant_superseded

    # The thread.

    def run(self) -> None:
        """Follow the assignments until the member has left; the body of the thread."""
        try:
            start = self._admission.wait()
            if start is not None:
                self._announcer.partition, read_from = start
                self._proof = ReadProof(read_from)
                self._reader.start()
                self.obstacles.look_for_subscribers()
                self._handle(ev.Started())
                self.joined = True
                self._log(
                    logging.INFO,
                    "member.joining",
                    topics=",".join(self.profile.topics),
                    pattern=self.profile.pattern,
                )
                while self._machine.phase is not Phase.LEFT and not self._abandoned.is_set():
                    self._run_once()
                if self._machine.phase is Phase.LEFT:
                    self._log(logging.INFO, "member.left")
            self._announcer.flush(self._machine.timers.dead_after)
        except Exception as error:  # noqa: BLE001 - raised again in the application's thread
            self.failure = error
            self.lost.set()
            log.exception("member.failed %s", self.identity())
        finally:
            self._reader.stop()

    def _run_once(self) -> None:
        """Wait for something in the mailbox or the next tick, and take in what there is."""
        try:
            waits_for_ack = self._announcer.undelivered
            wait = ACK_WAIT_SECONDS if waits_for_ack else self._wait_seconds
            self._take(self._mailbox.get(timeout=wait))
            while True:
                self._take(self._mailbox.get_nowait())
        except Empty:
            pass
        self._take_held()
        self._check_poll_interval()
        self._handle(ev.Tick())
        self._take_rejoin()
        now = boot_seconds()
        if now - self._asked_at >= self._machine.timers.heartbeat:
            self._asked_at = now
            self._reader.ask(self._proof.read_to)
        if self._machine.phase is Phase.JOINING and self._machine.newest_epochs == (0, 0):
            self.obstacles.waits(
                "member.waiting_for_planner",
                hint="no assignment yet; check that the daemon runs and manages this group",
            )
        self._announcer.serve()

    def _take_rejoin(self) -> None:
        """Begin the next life, or end, once the application's thread has dropped everything."""
        if self._rejoin is None:
            return
        event = self._rejoin
        if not self._closing.is_set():
            if not self._admission.may_begin_life():
                return
            if self._transactions is not None:  # to initialise the id decides every commit
                event = replace(event, no_commit_in_flight=True)
        self._rejoin = None
        self._handle(event)

    def _take(self, message: Any) -> None:
        match message:
            case RecordRead(record):
                self._take_record(record)
            case EndReached(offset):
                self._confirm(self._proof.read(offset))
            case StableOffsetAnswered():
                self._confirm(self._proof.answered(*message))
            case ReaderFailed(error):
                raise error
            case UndecidedRevocation():
                self._held.append(message)
            case ev.LoseFinished():
                self._rejoin = message
            case _:
                self._handle(message)

    def _take_record(self, message: Any) -> None:
        if message.error() is not None:
            self.obstacles.read_failed(message.error())
            return
        if names_record(message.key(), self._machine.key):
            event = event_of_assignment(message, self.identity(), self._reassembly)
            if event is not None:
                self._handle(event)
        # Only now: everything below has been applied.
        self._confirm(self._proof.read(message.offset() + 1))

    def _confirm(self, asked_at: float | None) -> None:
        if asked_at is not None:
            self._handle(ev.ReadConfirmed(asked_at))

    def _take_acknowledgement(self, incarnation: str, sent_at: float) -> None:
        if incarnation == self._machine.incarnation:
            self._handle(ev.AnnouncementAcked(sent_at))

    def _take_held(self) -> None:
        due = [held for held in self._held if held.until.passed]
        self._held = [held for held in self._held if held not in due]
        for held in due:
            if held.incarnation == self._machine.incarnation:
                self._handle(ev.RevokeFinished())

    def _on_throttled(self, event: ThrottleEvent) -> None:
        # The clients are made before the obstacles, which ask by one of them.
        self.obstacles.throttled(event)

    def _check_poll_interval(self) -> None:
        if self.poll_watch.overdue and not self.lost.is_set() and not self._closing.is_set():
            self._log(
                logging.ERROR,
                "member.poll_overdue",
                hint=(
                    f"poll was not called for {self.poll_watch.limit} s (max.poll.interval.ms): "
                    "this consumer loses its partitions and joins again at the next poll"
                ),
            )
            self._handle(ev.PollOverdue())

    def _handle(self, event: ev.Event) -> None:
        self._machine, effects = step(self._machine, event, boot_seconds())
        for effect in effects:
            match effect:
                case ev.Announce(record):
                    self._announcer.announce(record)
                case ev.Retire(key):
                    self._announcer.retire(key)
                case ev.Lose() | ev.Grant() | ev.Revoke():
                    if isinstance(effect, ev.Lose):
                        self.lost.set()
                    self.orders.append(Order(effect, self._machine.acked_epochs))
                    self._ordered.set()

    def _log(self, level: int, event: str, **fields: object) -> None:
        log_event(level, event, **self.identity(), **fields)

    def identity(self) -> dict[str, object]:
        """Fields that name the member in every log line."""
        profile = self.profile
        return {
            "group": profile.group,
            "instance": profile.instance,
            "incarnation": self._machine.incarnation,
        }
