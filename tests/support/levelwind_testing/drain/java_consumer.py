"""Kafka's own consumer in Java, as the loop of paced members reads it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from levelwind.deploy.coordinator.assignor_jar import compile_java
from levelwind.deploy.jars import classpath
from levelwind_testing.drain.polled_record import PolledRecord
from levelwind_testing.processes.java_process import JavaProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SOURCES = Path(__file__).with_name("java")
BATCH_RECORDS = 100
"""Records of a poll: a member gives partitions up between two polls."""
RECORD = struct.Struct(">iiqq")


def start_java(directory: Path) -> JavaProcess:
    """A Java process for the consumers of this one; it ends with it.

    Args:
        directory: where the class is compiled to.
    """
    compile_java(SOURCES.rglob("*.java"), directory, classpath("brokers"))
    return JavaProcess([directory, *classpath("brokers")])


class JavaConsumer:
    """A member of a group; polled as librdkafka's consumer is."""

    def __init__(
        self,
        process: JavaProcess,
        settings: Mapping[str, str],
        topics: Sequence[str],
        *,
        on_assign: Callable[[Any, list[Any]], None],
        on_revoke: Callable[[Any, list[Any]], None],
    ) -> None:
        """Subscribe.

        Args:
            process: the Java process.
            settings: those of the consumer.
            topics: topics that the member reads.
            on_assign: called with None and partitions that were gained.
            on_revoke: called with None and partitions that were lost.
        """
        jvm = process.gateway.jvm
        properties, names = jvm.java.util.Properties(), jvm.java.util.ArrayList()
        for name, value in {**settings, "max.poll.records": str(BATCH_RECORDS)}.items():
            properties.setProperty(name, value)
        for topic in topics:
            names.add(topic)
        self._topics = list(topics)
        self._calls = {"+": on_assign, "-": on_revoke}
        self._consumer = jvm.levelwind.drain.BatchConsumer(properties, names)
        self._batch: Iterator[tuple[int, int, int, int]] = iter(())

    def poll(self, timeout: float) -> PolledRecord | None:
        """The next record of the last batch; with a time, of the next batch where that is empty."""
        record = next(self._batch, None)
        if record is None and timeout:
            self._batch = RECORD.iter_unpack(self._consumer.poll(round(timeout * 1000)))
            self._tell_changes()
            record = next(self._batch, None)
        if record is None:
            return None
        topic, *rest = record
        return PolledRecord(self._topics[topic], *rest)

    def _tell_changes(self) -> None:
        for line in self._consumer.changes().splitlines():
            sign, topic, partition = line.split()
            self._calls[sign](None, [TopicPartition(self._topics[int(topic)], int(partition))])

    def close(self) -> None:
        """Commit and leave."""
        self._consumer.close()
