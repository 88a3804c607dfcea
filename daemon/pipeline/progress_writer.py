"""Writer of the pipeline's own record, and the end of a pipeline that a younger one replaces.

The record lies in one partition of `levelwind.triggers`, under `["pipeline"]`. A pipeline that
starts reads that partition, takes an epoch above all it finds, and writes its first record. Every
pipeline follows the partition: the record of a younger one ends it, so that two of one prefix, one
of which was thought dead, do not both write for long. No clock is compared.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, KafkaException

from levelwind.assignors.protocol.records import PipelineRecord, decode, encode_key, partition_key
from levelwind.assignors.protocol.topics import partition_for
from levelwind.daemon.errors import LevelwindError
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.record_writer import SIGN_CONFIG, enqueue, outgoing
from levelwind.daemon.kafka.topic_reader import (
    ReadProgress,
    open_consumer,
    poll_batch,
    read_until,
    stable_ends,
)
from levelwind.daemon.pipeline.progress_totals import REPORT_INTERVAL_SECONDS
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import Consumer, Message, Producer

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.pipeline.progress_totals import ProgressTotals

log = Logger()

KEY = encode_key(PipelineRecord.KEY)
POLL_SECONDS = 1.0
"""Time between two looks for the record of a younger pipeline."""
FETCH_WAIT_MS = 5_000
"""Longest wait of a fetch for a record: it is answered at once when there is one."""
RETRY_SECONDS = 5.0
"""Pause after the cluster did not answer, or lacks the topic."""
ACKNOWLEDGED_INTERVALS = 2.5
"""Intervals for which an acknowledgement shows that the brokers take records."""
FAREWELL_SECONDS = 2.0
"""Longest wait for the acknowledgement of the last record."""


class ProgressWriter:
    """A thread that writes the pipeline's record, and looks for that of a younger pipeline."""

    def __init__(
        self,
        settings: Settings,
        totals: ProgressTotals,
        *,
        is_alive: Callable[[], bool] = lambda: True,
        end: Callable[[], object],
        interval: float = REPORT_INTERVAL_SECONDS,
    ) -> None:
        """Make a writer; `start` begins it.

        Args:
            settings: the settings of the daemon.
            totals: what the pipeline did.
            is_alive: whether Spark answers; no record is written while it does not.
            end: ends the process at once; called after a younger pipeline was found.
            interval: seconds between two records.
        """
        self._settings = settings
        self._totals = totals
        self._is_alive = is_alive
        self._end = end
        self._interval = interval
        self._epoch = 0
        self._partition = 0
        self._partitions = 0
        self._producer: Producer | None = None
        self.claimed = threading.Event()
        """Set when the first record has been written."""
        self._acknowledged_at = float("-inf")
        """When the brokers last acknowledged a record; monotonic seconds."""

    def start(self) -> None:
        """Write the first record, and the others in the background."""
        threading.Thread(target=self._run, name="pipeline-record", daemon=True).start()

    def is_acknowledged(self) -> bool:
        """Whether the brokers have taken one of the last two records."""
        return time.monotonic() - self._acknowledged_at <= ACKNOWLEDGED_INTERVALS * self._interval

    def write_last(self) -> None:
        """Write the last record, where the query has ended; waits for it for two seconds."""
        if self._producer is not None and self.claimed.is_set():
            with suppress(KafkaException, BufferError):
                self._write(self._producer)
                self._producer.flush(FAREWELL_SECONDS)

    def _run(self) -> None:
        while True:
            try:
                self._claim_and_follow()
            except (LevelwindError, KafkaException) as error:
                log.debug("pipeline.trace", error=f"the pipeline's record: {error}")
            time.sleep(RETRY_SECONDS)

    def _claim_and_follow(self) -> None:
        """Take an epoch, write the first record, and follow the partition for as long as it works.

        Raises:
            LevelwindError: the cluster does not answer, or lacks the topic.
            KafkaException: the client failed for good.
        """
        settings, topics = self._settings, self._settings.topics
        ends = stable_ends(settings.client(), [topics.triggers], settings.topic.timeout)
        self._partitions = len(ends)
        self._partition = partition_for(str(partition_key(PipelineRecord.KEY)), len(ends))
        position = (topics.triggers, self._partition)
        producer = self._producer = clients.producer(settings.client(), SIGN_CONFIG)
        beginning = {position: OFFSET_BEGINNING}
        with closing(open_consumer(settings.client(), topics, beginning)) as reader:
            progress = ReadProgress.to({position: ends[position]})
            for messages in read_until(reader, progress, settings.topic.timeout):
                self._take(messages)
        if not self.claimed.is_set():
            self._epoch += 1
        follower = open_consumer(
            settings.client(),
            topics,
            {position: ends[position]},
            fetch_wait_ms=FETCH_WAIT_MS,
        )
        with closing(follower):
            self._follow(follower, producer)

    def _follow(self, consumer: Consumer, producer: Producer) -> None:
        next_at = float("-inf")
        while True:
            now = time.monotonic()
            if now >= next_at and self._is_alive():
                next_at = now + self._interval
                self._write(producer)
            producer.poll(0)
            self._take(poll_batch(consumer, POLL_SECONDS))

    def _write(self, producer: Producer) -> None:
        record = self._totals.record(at=now_ms(), epoch=self._epoch)
        for message in outgoing(self._settings.topics, "triggers", record, self._partitions):
            enqueue(producer, message, self._on_delivery, wait=False)

    def _on_delivery(self, error: Any, _: Message) -> None:
        if error is None:
            self._acknowledged_at = time.monotonic()
            self.claimed.set()

    def _take(self, messages: Iterable[Message]) -> None:
        """Take the epochs of other pipelines; end if one of them is younger."""
        for message in messages:
            if message.error() is not None or message.key() != KEY:
                continue
            record = decode("triggers", message.key(), message.value())
            if not isinstance(record, PipelineRecord) or record.instance == self._totals.instance:
                continue
            if not self.claimed.is_set():
                self._epoch = max(self._epoch, record.epoch)
            elif record.generation > (self._epoch, self._totals.instance):
                log.error(
                    "pipeline.superseded",
                    instance=record.instance,
                    epoch=record.epoch,
                    started_at=record.started_at,
                )
                self._end()
