"""Commits at a steady rate beside samples of offsets, as groups and the observer write them."""

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.wall_clock import now_ms
from levelwind_testing.processes.offsets_writer import (
    FIRST_END,
    Load,
    OffsetsWriter,
    commit_keys,
    commit_value,
)

STEP_SECONDS = 0.05


@dataclass(slots=True)
class CommitLoad:
    """Writes commits in the background until it is stopped, and samples of each topic."""

    writer: OffsetsWriter
    load: Load
    per_second: int
    sample_seconds: float = 1.0
    """Seconds between two samples."""
    written: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Write a layout of each topic, a commit of each key, and a sample."""
        for topic, partitions in self.load.topic_sizes:
            self.writer.layout(topic, partitions)
        for partition, key in commit_keys(self.load):
            self.writer.write(key, commit_value(0, now_ms()), partition)
        self.sample()

    def start(self) -> None:
        """Begin to write in the background."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End with samples that count every commit."""
        self._stopping.set()
        assert self._thread is not None
        self._thread.join(60)
        for _ in range(3):
            self.sample()

    def sample(self) -> None:
        """Write a sample of each topic that counts every commit so far."""
        self.writer.producer.flush()
        reader = Consumer({"bootstrap.servers": self.writer.bootstrap, "group.id": "ends"})
        cut = tuple(
            reader.get_watermark_offsets(TopicPartition(OFFSETS_TOPIC, number), timeout=30)[1]
            for number in range(self.load.offsets_partitions)
        )
        reader.close()
        for topic, partitions in self.load.topic_sizes:
            self.writer.sample(topic, partitions, FIRST_END, cut)
        self.writer.producer.flush()

    def _run(self) -> None:
        keys = commit_keys(self.load)
        begun, sampled = time.monotonic(), -1
        while not self._stopping.wait(STEP_SECONDS):
            seconds = time.monotonic() - begun
            for number in range(self.written, round(seconds * self.per_second)):
                partition, key = keys[number % len(keys)]
                self.written = number + 1
                self.writer.write(key, commit_value(self.written, now_ms()), partition)
            self.writer.producer.poll(0)
            interval = round(seconds // self.sample_seconds)
            if interval > sampled:
                sampled = interval
                self.sample()
