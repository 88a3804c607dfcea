"""Background reader of levelwind's topics: replays them from the beginning, then follows.

While no broker can be reached, the client retries by itself; that is logged when it begins and when
it ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError

from levelwind.daemon.errors import LevelwindError
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind.daemon.kafka.topic_reader import (
    CONTROL_KINDS,
    POLL_SECONDS,
    ConsumedRecord,
    ReadProgress,
    RejectedMessage,
    UnreadMessage,
    is_offset_sample,
    is_partition_end,
    next_offset,
    open_consumer,
    poll_batch,
    stable_ends,
    take_message,
)
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Outage, Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, Message

    from levelwind.assignors.protocol.topics import TopicKind, Topics


@dataclass(slots=True, kw_only=True)
class TopicFollower:
    """Reads topics in a thread of its own, in which all callbacks run."""

    client_config: Mapping[str, Any]
    topics: Topics
    kinds: tuple[TopicKind, ...] = CONTROL_KINDS
    on_record: Callable[[ConsumedRecord], None]
    """Called with every record but the samples of offsets in `metadata`."""
    on_unread: Callable[[UnreadMessage], None] | None = None
    """Called with samples of lag that were left unread; None: each is read for `on_record`."""
    on_rejected: Callable[[RejectedMessage], None] = lambda _: None
    """Called with every message that matches no schema; the message has been counted and logged."""
    on_caught_up: Callable[[], None] = lambda: None
    """Called once, after all records that the topics held at the start."""
    on_crash: Callable[[BaseException], None] = lambda _: None
    """Called with the error that ended the thread; no other callback follows."""
    log: Any = field(default_factory=Logger)
    timeout: float = 30.0
    """Seconds until a start without an answer fails."""
    rejected: int = 0
    """Messages rejected so far."""
    _repeated: RepeatedRecords = field(init=False)
    _outage: Outage = field(default_factory=Outage)
    _throttle: Throttle[tuple[str | None, ...]] = field(
        default_factory=lambda: Throttle(interval=10.0)
    )
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Next offset to handle of each partition that has been read from."""
    _asked: deque[tuple[ReadProgress, Callable[[], None]]] = field(default_factory=deque)
    """Callbacks of `when_read` that the thread has not seen yet."""
    _awaited: list[tuple[ReadProgress, Callable[[], None]]] = field(default_factory=list)
    """Callbacks whose ends have not been reached yet."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        """Begin without any record."""
        self._repeated = RepeatedRecords(lazy=self.on_unread is not None)

    def start(self) -> None:
        """Look up the ends of the topics and begin to read in the background.

        Raises:
            NotFoundError: a topic does not exist.
            ClusterUnavailableError: no answer in time.
            RuntimeError: the system gives no thread.
        """
        names = [self.topics.name(kind) for kind in self.kinds]
        stable = stable_ends(self.client_config, names, self.timeout)
        starts = dict.fromkeys(stable, OFFSET_BEGINNING)
        consumer = open_consumer(self.client_config, self.topics, starts, self._on_client_error)
        thread = threading.Thread(
            target=self._run,
            args=(consumer, ReadProgress.to(stable)),
            name="topic-follower",
            daemon=True,
        )
        thread.start()
        self._thread = thread

    def when_read(self, ends: Mapping[tuple[str, int], int], call: Callable[[], None]) -> None:
        """Call back in the follower's thread once everything below some offsets has been handled.

        May be called from any thread.

        Args:
            ends: an offset of each partition, of the topics that are read, by topic and partition.
            call: called once; never if the follower is stopped before.
        """
        self._asked.append((ReadProgress.to(ends), call))

    def stop(self) -> None:
        """Stop reading; returns when the last callback has returned."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, consumer: Consumer, ends: ReadProgress) -> None:
        begun = time.monotonic()
        counted = 0
        caught_up = False
        try:
            while not self._stopping.is_set():
                if not caught_up and ends.done:
                    caught_up = True
                    seconds = round(time.monotonic() - begun, 3)
                    self.log.info("topic_reader.caught_up", records=counted, seconds=seconds)
                    self.on_caught_up()
                self._call_back()
                for message in poll_batch(consumer, POLL_SECONDS):
                    counted += self._handle(message)
                    ends.note(message)
                    self._note(message)
        except Exception as error:
            # A LevelwindError says what to do; any other error is a bug, and needs its trace.
            self.log.critical(
                "topic_reader.crashed",
                error=str(error),
                exc_info=not isinstance(error, LevelwindError),
            )
            self.on_crash(error)
        finally:
            consumer.close()

    def _call_back(self) -> None:
        """Call those back whose ends have been reached."""
        while self._asked:
            progress, call = self._asked.popleft()
            for (topic, partition), position in self._positions.items():
                progress.reached(topic, partition, position)
            self._awaited.append((progress, call))
        reached = [call for progress, call in self._awaited if progress.done]
        self._awaited = [(progress, call) for progress, call in self._awaited if not progress.done]
        for call in reached:
            call()

    def _note(self, message: Message) -> None:
        """Note the position behind a message that was handled, or behind the markers at an end."""
        position = next_offset(message)
        if position is not None:
            self._positions[message.topic(), message.partition()] = position
            for progress, _ in self._awaited:
                progress.reached(message.topic(), message.partition(), position)

    def _handle(self, message: Message) -> int:
        """Handle one message; return the number of records in it."""
        error = message.error()
        if error is not None and not is_partition_end(error):
            self._on_error(error, topic=message.topic(), partition=message.partition())
            return 0
        self._on_progress()
        if error is not None or is_offset_sample(message):
            return 0
        item = take_message(self.topics, message, self._repeated.decode)
        if isinstance(item, ConsumedRecord):
            self.on_record(item)
        elif isinstance(item, RejectedMessage):
            self._reject(item)
        elif item is not None and self.on_unread is not None:
            self.on_unread(item)
        return 1

    def _reject(self, item: RejectedMessage) -> None:
        self.rejected += 1
        suppressed = self._throttle.allows(("rejected", item.kind), time.monotonic())
        if suppressed is not None:
            self.log.warning(
                "record.rejected",
                topic=self.topics.name(item.kind),
                partition=item.partition,
                offset=item.offset,
                reason=item.reason,
                total=self.rejected,
                suppressed=suppressed,
            )
        self.on_rejected(item)

    def _on_client_error(self, error: KafkaError) -> None:
        """Log the beginning of an outage once, and other errors at intervals.

        The client recovers from both by itself.
        """
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the client's own name
            self._on_error(error)
        elif self._outage.lost(time.monotonic()):
            self.log.warning("topic_reader.unreachable", error=error.str())

    def _on_error(self, error: KafkaError, **partition: Any) -> None:
        # The connection to one broker of several: librdkafka logs that itself.
        if error.code() == KafkaError._TRANSPORT:  # noqa: SLF001 - the client's own name
            return
        suppressed = self._throttle.allows(
            ("error", error.name(), partition.get("topic")), time.monotonic()
        )
        if suppressed is not None:
            self.log.warning(
                "topic_reader.error",
                error=error.str(),
                code=error.name(),
                suppressed=suppressed,
                **partition,
            )

    def _on_progress(self) -> None:
        lasted = self._outage.regained(time.monotonic())
        if lasted is not None:
            self.log.info("topic_reader.resumed", seconds=round(lasted, 3))
