"""The ears of the control: our topics, read in a thread of its own, whole and then on.

The brokers may go and come back: the client goes on by itself, and it is said once.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError

from daemon.errors import LevelwindError
from daemon.kafka.topic_reader import (
    POLL_SECONDS,
    ConsumedRecord,
    ReadProgress,
    RejectedMessage,
    decode_message,
    is_offset_sample,
    is_partition_end,
    open_consumer,
    poll_batch,
    read_to_end,
    stable_ends,
)
from daemon.telemetry.logger import Logger
from daemon.telemetry.throttle import (
    Outage,
    Throttle,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, Message

    from assignors.protocol.topics import TopicKind, Topics

__all__ = ["ConsumedRecord", "RejectedMessage", "TopicFollower", "read_to_end"]


@dataclass(slots=True, kw_only=True)
class TopicFollower:
    """Reads our topics in a thread of its own and hands on what it reads; the callbacks run in that thread."""

    client_config: Mapping[str, Any]
    topics: Topics
    kinds: tuple[TopicKind, ...] = (
        "members",
        "assignments",
        "lag",
        "triggers",
        "metadata",
        "control",
    )
    samples: bool = False
    """Whether the samples of offsets in `metadata` are wanted."""
    on_record: Callable[[ConsumedRecord], None]
    on_rejected: Callable[[RejectedMessage], None] = lambda _: None
    on_caught_up: Callable[[], None] = lambda: None
    """Once, when all that was there at the start has been handed on."""
    on_connection: Callable[[bool], None] = lambda _: None
    """False: no broker is left to read from; True: reading goes on."""
    on_crash: Callable[[BaseException], None] = lambda _: None
    """The thread ends by an error: nothing will be handed on any more."""
    log: Any = field(default_factory=Logger)
    timeout: float = 30.0
    rejected: int = 0
    _outage: Outage = field(default_factory=Outage)
    _said: Throttle[tuple[str | None, ...]] = field(default_factory=lambda: Throttle(interval=10.0))
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Ask for the ends of the logs, now, and begin to read in the background.

        Raises:
            NotFoundError: a topic does not exist.
            ClusterUnavailableError: no answer in time.
        """
        names = [self.topics.name(kind) for kind in self.kinds]
        stable = stable_ends(self.client_config, names, self.timeout)
        starts = dict.fromkeys(stable, OFFSET_BEGINNING)
        consumer = open_consumer(self.client_config, self.topics, starts, self._hear)
        self._thread = threading.Thread(
            target=self._run,
            args=(consumer, ReadProgress.to(stable)),
            name="topic-follower",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the reading; returns when the last callback has."""
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
                for message in poll_batch(consumer, POLL_SECONDS):
                    counted += self._take(message)
                    ends.note(message)
        except Exception as error:
            # What an operator can mend says so itself; of a bug the trace is wanted.
            self.log.critical(
                "topic_reader.crashed",
                error=str(error),
                exc_info=not isinstance(error, LevelwindError),
            )
            self.on_crash(error)
        finally:
            consumer.close()

    def _take(self, message: Message) -> int:
        """Hand one message on; 1 if it was one of ours."""
        error = message.error()
        if error is not None and not is_partition_end(error):
            self._trouble(error, topic=message.topic(), partition=message.partition())
            return 0
        self._regained()
        if error is not None or (not self.samples and is_offset_sample(message)):
            return 0
        item = decode_message(self.topics, message)
        if isinstance(item, ConsumedRecord):
            self.on_record(item)
        else:
            self._reject(item)
        return 1

    def _reject(self, item: RejectedMessage) -> None:
        self.rejected += 1
        held = self._said.allows(("rejected", item.kind), time.monotonic())
        if held is not None:
            self.log.warning(
                "record.rejected",
                topic=self.topics.name(item.kind),
                partition=item.partition,
                offset=item.offset,
                reason=item.reason,
                total=self.rejected,
                suppressed=held,
            )
        self.on_rejected(item)

    def _hear(self, error: KafkaError) -> None:
        """Say once that no broker is left, and now and then what else is amiss; the client goes on by itself."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the client's own name
            self._trouble(error)
        elif self._outage.lost(time.monotonic()):
            self.log.warning("topic_reader.unreachable", error=error.str())
            self.on_connection(False)

    def _trouble(self, error: KafkaError, **place: Any) -> None:
        if error.code() == KafkaError._TRANSPORT:  # noqa: SLF001 - one broker of several: the library says so itself
            return
        held = self._said.allows(("trouble", error.name(), place.get("topic")), time.monotonic())
        if held is not None:
            self.log.warning(
                "topic_reader.error", error=error.str(), code=error.name(), suppressed=held, **place
            )

    def _regained(self) -> None:
        lasted = self._outage.regained(time.monotonic())
        if lasted is not None:
            self.log.info("topic_reader.resumed", seconds=round(lasted, 3))
            self.on_connection(True)
