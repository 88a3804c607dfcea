"""Group of the daemons: Kafka's group protocol gives its one partition to the daemon that leads.

All daemons of a prefix are members of the consumer group `levelwind.control` and subscribe to the
topic of that name, which has one partition. Who owns it is the leader; the group only chooses, and
the transactional id of the publisher keeps everybody else from publishing. The assignor is
cooperative and sticky, so that a daemon that joins takes nothing from the owner. A static member is
not missed while it restarts: it gets back what it had. Leaving such a membership takes a request
that librdkafka does not send, so the caller brings it along.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition

from levelwind.daemon.errors import ClusterUnavailableError, ConfigurationError
from levelwind.daemon.kafka import clients
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer

    from levelwind.assignors.protocol.topics import Topics

POLL_SECONDS = 0.1
"""Longest time for which a request to leave goes unnoticed."""

LEAVE_SECONDS = 2.0
"""Longest wait for the end of a membership: the brokers may not answer."""

LONGEST_HEARTBEAT_SECONDS = 0.3
"""Time between two heartbeats, by which the others notice that the leader left; less where the
session is short."""

METADATA_MS = 2_000
"""Time between two looks for the topic while the broker does not know it yet."""

ERROR_LOG_SECONDS = 30.0
"""Least time between two log lines of one error."""

FENCED_ERRORS = frozenset(
    {
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FATAL,  # noqa: SLF001 - the client's own name
    }
)
"""Somebody else is the static member of this name, which is all that is fatal for a consumer:
another process, or this one, which repeated a request whose answer died with a coordinator."""

MOST_FENCED = 3
"""Times that the brokers must fence a daemon within `FENCED_SECONDS` for another to be to blame.
Two that share a name fence each other as often as they join."""

FENCED_SECONDS = 60.0
"""See `MOST_FENCED`."""


class _FencedError(Exception):
    """Somebody else is the static member of this daemon's name."""


class LeadGroup:
    """The membership of this daemon; the main thread calls all methods."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        *,
        session: float,
        on_change: Callable[[bool], None],
        on_crash: Callable[[BaseException], None],
        static_id: str | None = None,
        depart: Callable[[], None] = lambda: None,
        log: Any = None,
    ) -> None:
        """Make a daemon that is no member yet.

        Args:
            client_config: the clients' configuration.
            topics: the names of levelwind's topics.
            session: seconds without a heartbeat after which the brokers drop the member.
            on_change: called in another thread with whether the daemon owns the partition.
            on_crash: called in another thread with an error that ends the daemon.
            static_id: the name that the membership keeps over restarts; None: it keeps none.
            depart: leaves the group for a static member, called in another thread.
            log: the logger; None for the process's.
        """
        self._topics = topics
        self._config = client_config
        self._required = {
            "group.id": topics.control,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": round(session * 1000),
            "heartbeat.interval.ms": round(1000 * min(LONGEST_HEARTBEAT_SECONDS, session / 4)),
            "enable.auto.commit": False,
            # The topic may have been created a moment ago, and the broker may not know it yet.
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "allow.auto.create.topics": False,
            **({} if static_id is None else {"group.instance.id": static_id}),
        }
        self._session = session
        self._on_change = on_change
        self._on_crash = on_crash
        self._depart = depart
        self._log = log or Logger()
        self._errors: Throttle[str] = Throttle(interval=ERROR_LOG_SECONDS)
        self._stopping: threading.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def joined(self) -> bool:
        """Whether the daemon is a member, or about to become one."""
        return self._thread is not None

    def join(self) -> None:
        """Become a member, in the background; a member stays one.

        Raises:
            RuntimeError: the system gives no thread, and the daemon is no member.
        """
        if self._thread is not None:
            return
        # Each membership has its own event: a former one may take long to end.
        self._stopping = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(self._stopping,), name="lead-group", daemon=True
        )
        thread.start()
        self._thread = thread

    def leave(self) -> None:
        """Leave the group, so that another daemon gets the partition at once.

        Returns when that is done, or has taken `LEAVE_SECONDS`.
        """
        thread, self._thread = self._thread, None
        if thread is not None and self._stopping is not None:
            self._stopping.set()
            thread.join(LEAVE_SECONDS)

    def _run(self, stopping: threading.Event) -> None:
        fenced_at: deque[float] = deque(maxlen=MOST_FENCED)
        try:
            while not stopping.is_set():
                consumer = clients.consumer(self._config, self._required)
                try:
                    self._follow(consumer, stopping)
                except _FencedError:
                    fenced_at.append(time.monotonic())
                    self._take_fencing(fenced_at)
                    self._changed(stopping, False)
                finally:
                    consumer.close()
            if self._stopping is stopping:
                self._depart()  # a later membership has the same name
        except BaseException as error:  # noqa: BLE001 - a daemon without a membership never leads
            if not stopping.is_set():
                self._on_crash(error)

    def _follow(self, consumer: Consumer, stopping: threading.Event) -> None:
        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            # The records are read by the topic follower: this client fetches none.
            ends = [TopicPartition(each.topic, each.partition, OFFSET_END) for each in partitions]
            consumer.incremental_assign(ends)
            if ends:
                consumer.pause(ends)
                self._changed(stopping, True)

        def taken(_: Consumer, partitions: list[TopicPartition]) -> None:
            if partitions:
                self._changed(stopping, False)

        consumer.subscribe(
            [self._topics.control], on_assign=assigned, on_revoke=taken, on_lost=taken
        )
        while not stopping.is_set():
            try:
                message = consumer.poll(POLL_SECONDS)
            except KafkaException as exception:
                self._take_error(clients.kafka_error(exception))
                continue
            if message is not None and (error := message.error()) is not None:
                self._take_error(error)

    def _changed(self, stopping: threading.Event, owns: bool) -> None:
        if not stopping.is_set():
            self._on_change(owns)

    def _take_fencing(self, fenced_at: deque[float]) -> None:
        """Log that the daemon was fenced, and joins anew.

        Raises:
            ConfigurationError: another daemon fences it again and again.
        """
        group = self._topics.control
        if len(fenced_at) == MOST_FENCED and fenced_at[-1] - fenced_at[0] < FENCED_SECONDS:
            raise ConfigurationError(
                "state_dir: another daemon uses the same one, and has taken this one's place in"
                f" the group {group}; give each daemon a state_dir of its own"
            )
        self._log.warning("daemon.membership_fenced", group=group)

    def _take_error(self, error: KafkaError) -> None:
        """Log an error that the client recovers from.

        Raises:
            _FencedError: somebody else is the member of this name.
            ConfigurationError: the settings keep the daemon from being a member.
            ClusterUnavailableError: a right is missing.
        """
        group = self._topics.control
        code = error.code()
        if error.fatal() or code in FENCED_ERRORS:
            raise _FencedError
        if code == KafkaError.INVALID_SESSION_TIMEOUT:
            raise ConfigurationError(
                f"timers.takeover: the brokers refuse a session of {self._session:g} s; it must"
                " lie between their group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        if code in clients.AUTHORIZATION_ERRORS:
            raise ClusterUnavailableError(
                f"no right to join the group {group}: {error.str()}; grant the daemon's principal"
                f" READ on the group {group} and on the topic {group}"
            )
        if self._errors.allows(str(code), time.monotonic()) is not None:
            self._log.warning("daemon.group_unanswered", group=group, error=error.str())
