"""Canaries: the signs of life of the planner in each partition of `levelwind.members`.

Whoever reads a canary back has read everything that its partition held when the canary was sent.
The producer is not transactional: a canary says that the process lives, whoever holds the
transactional id. It is idempotent, so that the last canary is the last record of its key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.protocol.records import CanaryRecord
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.record_writer import SIGN_CONFIG, enqueue, outgoing
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Outage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import KafkaError, Message, Producer

    from levelwind.assignors.protocol.records.member import CanaryState
    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.kafka.record_writer import OnDelivery, OutgoingRecord

REMEMBERED = 120
"""Canaries whose sending is remembered; more than can be under way within the time-out."""

FAREWELL_SECONDS = 2.0
"""Longest wait of a clean stop for the acknowledgements of the last canaries."""


class CanaryWriter:
    """A thread that writes a canary of rising number into each partition, at intervals."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        *,
        instance: str,
        planner_epoch: int,
        partitions: int,
        interval: float,
        log: Any = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """Make a writer; `start` begins it.

        Args:
            client_config: the clients' configuration.
            topics: the names of levelwind's topics.
            instance: the name of this daemon.
            planner_epoch: the epoch in which it leads.
            partitions: number of partitions of `levelwind.members`.
            interval: seconds between two canaries.
            log: the logger; None for the process's.
            clock: returns boot seconds.
        """
        self._client_config = client_config
        self._topics = topics
        self._instance = instance
        self._planner_epoch = planner_epoch
        self._partitions = partitions
        self._interval = interval
        self._log = log or Logger()
        self._clock = clock
        self._producer = self._make_producer()
        self._number = 0
        self._sent_at: OrderedDict[tuple[int, int], float] = OrderedDict()
        """When the canaries were sent, in boot seconds, by epoch and number."""
        self._under_way: set[int] = set()
        """Partitions whose last canary was not reported yet: they get no other one meanwhile."""
        self._written: dict[int, float] = {}
        """When the newest acknowledged canary of each partition was sent, in boot seconds."""
        self._broken = False
        """Whether the producer has failed for good."""
        self._outage = Outage()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="canary-writer", daemon=True)

    def start(self) -> None:
        """Write the first canaries, and the others in the background."""
        self._thread.start()

    def asked_at(self, canary: CanaryRecord) -> float | None:
        """Return the boot seconds just before a canary of this writer was sent.

        None if it is another's canary, or was sent too long ago. May be called from any thread.
        """
        if canary.instance != self._instance:
            return None
        return self._sent_at.get((canary.planner_epoch, canary.number))

    def written(self) -> dict[int, float]:
        """Return when the newest canary that each partition acknowledged was sent, in boot seconds.

        May be called from any thread.
        """
        return dict(self._written)

    def lead_in(self, planner_epoch: int) -> None:
        """Write the next canaries in another epoch, to which the planner has gone over."""
        self._planner_epoch = planner_epoch

    def stop(self, *, farewell: bool) -> None:
        """Stop writing; returns when the thread has ended.

        Args:
            farewell: whether to write canaries of the state `stopped`, so that another daemon takes
                over at once; false if another already leads. Waits for them for up to two seconds.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if farewell:
            self._under_way.clear()
            self._write("stopped")
            self._producer.flush(FAREWELL_SECONDS)

    def _make_producer(self) -> Producer:
        return clients.producer(self._client_config, SIGN_CONFIG)

    def _run(self) -> None:
        while True:
            self._write("leading")
            if self._stopping.wait(self._interval):
                return
            self._take_in_reports()

    def _take_in_reports(self) -> None:
        try:
            self._producer.poll(0)
        except KafkaException as exception:
            # A fatal error is raised here as well as reported: the next canary has a new producer.
            if not clients.kafka_error(exception).fatal():
                raise
            self._broken = True

    def _write(self, state: CanaryState) -> None:
        if self._broken:
            # The topic may have been created again: its partitions do not know the old sequence.
            self._producer, self._broken = self._make_producer(), False
            self._under_way.clear()
        self._number += 1
        epoch = self._planner_epoch
        sent_at = self._sent_at[epoch, self._number] = self._clock()
        if len(self._sent_at) > REMEMBERED:
            self._sent_at.popitem(last=False)
        canary = CanaryRecord(
            planner_epoch=epoch,
            instance=self._instance,
            number=self._number,
            state=state,
        )
        for record in outgoing(self._topics, "members", canary, self._partitions):
            if record.partition not in self._under_way:
                self._send(record, sent_at)

    def _send(self, record: OutgoingRecord, sent_at: float) -> None:
        self._under_way.add(record.partition)
        on_delivery = self._delivered(record, sent_at, self._producer)
        try:
            enqueue(self._producer, record, on_delivery, wait=False)
        except BufferError:
            self._under_way.discard(record.partition)
        except KafkaException as exception:
            self._failed(record, clients.kafka_error(exception))

    def _delivered(self, record: OutgoingRecord, sent_at: float, producer: Producer) -> OnDelivery:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if producer is not self._producer:
                return
            self._under_way.discard(record.partition)
            if error is not None:
                self._failed(record, error)
                return
            self._written[record.partition] = sent_at
            if (lasted := self._outage.regained(self._clock())) is not None:
                self._log.info("canary.resumed", seconds=round(lasted, 3))

        return delivered

    def _failed(self, record: OutgoingRecord, error: KafkaError) -> None:
        self._under_way.discard(record.partition)
        self._broken = self._broken or error.fatal()
        if self._outage.lost(self._clock()):
            self._log.warning(
                "canary.unwritten",
                topic=record.topic,
                partition=record.partition,
                error=error.str(),
            )
