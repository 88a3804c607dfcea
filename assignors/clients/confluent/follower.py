"""Background thread of a managed consumer: reads assignments and announces the member.

The thread owns the member's state. Events reach it through one mailbox, and what the application's
thread has to do leaves as orders. So heartbeats continue while the application is busy, and only
the application's thread calls the application's consumer.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from assignors.boot_clock import boot_seconds as clock
from assignors.handover import member_events as ev
from assignors.handover.member_machine import step
from assignors.handover.member_state import MemberMachine, Phase
from assignors.protocol.records import (
    MemberAssignment,
    Rejection,
    Tombstone,
    WireError,
    decode,
    encode,
    encode_key,
    headers,
)
from assignors.protocol.topics import Topics, partition_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.clients.confluent.settings import ClientSettings
    from assignors.protocol.records import MemberRecord

log = logging.getLogger("assignors.clients.confluent")

POLL_SECONDS = 0.05
"""The longest time that an event waits in the mailbox."""
REMINDER_SECONDS = 15.0
"""Time between two log lines about the same wait."""


def log_event(level: int, event: str, **fields: object) -> None:
    """Log one event as a line: its name, then key=value pairs.

    The same fields are in `extra["levelwind"]`, for applications that format records themselves.
    """
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    log.log(level, "%s %s", event, text, extra={"levelwind": {"event": event, **fields}})


class AssignmentFollower(Thread):
    """Follows the planner for one consumer until the member has left."""

    def __init__(self, *, member: MemberMachine, settings: ClientSettings, prefix: str) -> None:
        super().__init__(
            name=f"levelwind-{member.profile.group}-{member.profile.instance}", daemon=True
        )
        self.orders: deque[ev.Grant | ev.Revoke | ev.Lose] = deque()
        """Orders for the application's thread, oldest first."""
        self.lost = Flag()
        """Set while the member's partitions may have another owner.

        That lasts until the application's thread has dropped them.
        """
        self.failure: Exception | None = None
        self._mailbox: SimpleQueue[ev.Event] = SimpleQueue()
        self.profile = member.profile
        self._machine = member
        self._settings = settings
        self._topics = Topics(prefix)
        self._closing = Flag()
        self._abandoned = Flag()
        self._left_poll_at: float | None = clock()
        self._reminded_at = clock()
        self._poll_seconds = min(POLL_SECONDS, member.timers.heartbeat / 10)
        self._partition = 0  # the group's, in levelwind.members
        self._producer: Any = None
        self._end_asked_at = float("-inf")
        self._unconfirmed: tuple[float, int] | None = None
        """When the end of the assignments was asked for, and that end, until it is read."""
        self._read_to = 0
        """The offset in the assignments below which everything was read."""

    # Called by the application's thread.

    def post(self, event: ev.Event) -> None:
        """Put an event into the member's mailbox."""
        self._mailbox.put(event)

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

    def set_polling(self, *, polling: bool) -> None:
        """Note that the application entered (`polling`) or left `poll`."""
        self._left_poll_at = None if polling else clock()

    @property
    def incarnation(self) -> str:
        """Identifier of the member's current life."""
        return self._machine.incarnation

    @property
    def phase(self) -> Phase:
        """State of the member in the hand-over."""
        return self._machine.phase

    # The thread.

    def run(self) -> None:
        """Follow the assignments until the member has left; the body of the thread."""
        reader = None
        try:
            reader = Consumer(self._settings.reader)
            self._producer = Producer(self._settings.producer)
            if self._find_topics(reader):
                self._handle(ev.Started())
                self._log(
                    logging.INFO, "member.joining", topics=",".join(self._machine.profile.topics)
                )
                while self._machine.phase is not Phase.LEFT and not self._abandoned.is_set():
                    self._poll_once(reader)
                if self._machine.phase is Phase.LEFT:
                    self._log(logging.INFO, "member.left")
            self._producer.flush(self._machine.timers.dead_after)
        except Exception as error:  # raised again in the application's thread
            self.failure = error
            self.lost.set()
            log.exception("member.failed %s", self.identity())
        finally:
            if reader is not None:
                reader.close()

    def _find_topics(self, reader: Any) -> bool:
        """Wait for levelwind's topics and position the reader; return False if closed meanwhile.

        Reading starts behind the newest assignment: older ones are about earlier lives.
        """
        while not self._closing.is_set():
            missing = [
                name
                for name in (self._topics.members, self._topics.assignments)
                if not self._partition_count(reader, name)
            ]
            if not missing:
                try:
                    self._read_from_end(reader)
                except KafkaException as error:
                    self._remind("member.waiting_for_broker", error=error.args[0].str())
                else:
                    return True
            else:
                self._remind(
                    "member.waiting_for_topics",
                    missing=",".join(missing),
                    hint="start the levelwind daemon, or check `prefix`",
                )
            self._closing.wait(min(1.0, self._machine.timers.heartbeat))
        return False

    def _partition_count(self, reader: Any, topic: str) -> int:
        try:
            found = reader.list_topics(topic, timeout=5.0).topics.get(topic)
        except KafkaException as error:
            self._remind("member.waiting_for_broker", error=error.args[0].str())
            return 0
        return 0 if found is None or found.error is not None else len(found.partitions)

    def _read_from_end(self, reader: Any) -> None:
        group = self._machine.profile.group
        self._partition = partition_for(
            group, self._partition_count(reader, self._topics.members) or 1
        )
        number = partition_for(group, self._partition_count(reader, self._topics.assignments) or 1)
        position = TopicPartition(self._topics.assignments, number)
        _, position.offset = reader.get_watermark_offsets(position, timeout=5.0)
        reader.assign([position])
        self._assignments = position

    def _confirm_read(self, reader: Any) -> None:
        """Renew the lease: ask for the end of the assignments, and read up to it."""
        now = clock()
        if now - self._end_asked_at >= self._machine.timers.heartbeat:
            self._end_asked_at = now
            try:
                _, end = reader.get_watermark_offsets(self._assignments, timeout=1.0)
            except KafkaException as error:
                self._remind("member.waiting_for_broker", error=error.args[0].str())
            else:
                self._unconfirmed = (now, end)
        if self._unconfirmed is not None and self._read_to >= self._unconfirmed[1]:
            self._handle(ev.ReadConfirmed(self._unconfirmed[0]))
            self._unconfirmed = None

    def _poll_once(self, reader: Any) -> None:
        self._confirm_read(reader)
        message = reader.poll(self._poll_seconds)
        if message is not None:
            self._handle_message(message)
        try:
            while True:
                self._handle(self._mailbox.get_nowait())
        except Empty:
            pass
        self._check_poll_interval()
        self._handle(ev.Tick())
        if self._machine.phase is Phase.JOINING and self._machine.newest_epochs == (0, 0):
            self._remind(
                "member.waiting_for_planner",
                hint="no assignment yet; check that the daemon runs and manages this group",
            )
        self._producer.poll(0)

    def _handle_message(self, message: Any) -> None:
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its own name
                self._read_to = message.offset()
            else:
                self._remind("member.read_failed", error=message.error().str())
        elif message.key() == encode_key(self._machine.key):
            match decode("assignments", message.key(), message.value()):
                case MemberAssignment() as record:
                    self._log(
                        logging.INFO,
                        "member.assignment_received",
                        epoch=record.member_epoch,
                        state=record.state,
                        assigned=sum(map(len, record.assigned.values())),
                        pending=sum(map(len, record.pending.values())),
                    )
                    self._handle(ev.AssignmentReceived(record))
                case Tombstone():
                    self._handle(ev.AssignmentDeleted())
                case Rejection() as rejection:
                    self._log(
                        logging.ERROR,
                        "member.assignment_rejected",
                        reason=rejection.reason,
                        offset=message.offset(),
                    )
                    code = "unknown-v" if rejection.other_version else "malformed"
                    self._handle(ev.AssignmentRejected(_epoch(message), code))

    def _check_poll_interval(self) -> None:
        left_at, limit = self._left_poll_at, self._settings.max_poll_interval
        if (
            left_at is not None
            and clock() - left_at > limit
            and not self.lost.is_set()
            and not self._closing.is_set()
        ):
            self._log(
                logging.ERROR,
                "member.poll_overdue",
                hint=(
                    f"poll was not called for {limit} s (max.poll.interval.ms): this consumer "
                    "loses its partitions and joins again at the next poll"
                ),
            )
            self._handle(ev.PollOverdue())

    def _handle(self, event: ev.Event) -> None:
        self._machine, effects = step(self._machine, event, clock())
        for effect in effects:
            match effect:
                case ev.Announce(record):
                    self._announce(record)
                case ev.Retire(key):
                    self._write(encode_key(key), None, {})
                case ev.Lose():
                    self.lost.set()
                    self.orders.append(effect)
                case ev.Grant() | ev.Revoke():
                    self.orders.append(effect)

    def _announce(self, record: MemberRecord) -> None:
        try:
            key, value = encode(record)
        except WireError as error:
            raise ValueError(f"the member's settings cannot be announced: {error}") from error
        self._write(key, value, dict(headers(record, epoch=record.acked_epoch)))

    def _write(self, key: bytes, value: bytes | None, fields: Mapping[str, bytes]) -> None:
        try:
            self._producer.produce(
                self._topics.members,
                key=key,
                value=value,
                partition=self._partition,
                headers=list(fields.items()),
                on_delivery=partial(self._delivered, clock(), self._machine.incarnation),
            )
        except BufferError:  # brokers unreachable for long; the next heartbeat repeats it all
            self._remind("member.announce_failed", error="queue full")
        except KafkaException as error:
            self._replace_producer(error.args[0])

    def _delivered(self, sent_at: float, incarnation: str, error: Any, _message: Any) -> None:
        if error is None:
            if incarnation == self._machine.incarnation:
                self.post(ev.AnnouncementAcked(sent_at))
        else:
            self._remind("member.announce_failed", error=error.str())
            if error.fatal():
                self._replace_producer(error)

    def _replace_producer(self, error: Any) -> None:
        # An idempotent producer cannot continue after a fatal error; a new one can, since each
        # announcement is a whole state.
        self._log(logging.WARNING, "member.producer_replaced", error=error.str())
        self._producer = Producer(self._settings.producer)

    def _remind(self, event: str, **fields: object) -> None:
        if clock() - self._reminded_at >= min(REMINDER_SECONDS, 5 * self._machine.timers.heartbeat):
            self._reminded_at = clock()
            self._log(logging.WARNING, event, **fields)

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


def _epoch(message: Any) -> int:
    for name, value in message.headers() or ():
        if name == "epoch" and isinstance(value, bytes) and value.isdigit() and len(value) < 16:
            return int(value)
    return 0
