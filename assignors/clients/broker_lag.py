"""`BrokerLag`: the lag of a group, asked of the brokers with confluent-kafka.

A source for `LagAssignor` and its kin, whichever client the group's members use. Requests go out
when the leader plans: committed offsets, then ends, and beginnings where a partition has no commit.
lag = end - committed, at least 0, as in KAFKA-5337. A partition that the brokers refuse, as one
without a leader, counts as having none; the group is planned by the lag of the others. Where a
leader is named and silent, as one that has just died, the lag of all is unknown.

A consumer asks, though it joins no group: an admin request for a group's offsets may end the whole
process when the group's coordinator goes away meanwhile (librdkafka's issue 4605), and plans are
made just then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from levelwind.assignors.clients.classic.lag_source import LagUnavailableError
from levelwind.assignors.clients.idle_connections import with_idle_connections

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from levelwind.assignors.protocol import partition_ranges as ranges

_log = logging.getLogger("levelwind.clients.classic")

TIMEOUT_SECONDS = 5.0
AT_END = ("latest", "largest", "end")
"""Words of clients for a reset policy by which a new reader has nothing behind."""
AT_BEGIN = ("earliest", "smallest", "beginning", "none", "error")
"""Words for one by which it begins at the log's begin, or at an offset that nobody can know."""


class BrokerLag:
    """Source of a group's lag; an instance may serve many plans."""

    def __init__(
        self,
        config: Mapping[str, Any],
        group: str,
        *,
        auto_offset_reset: str = "latest",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Configure the source; nothing connects before the first plan.

        Args:
            config: librdkafka's settings of the connection: `bootstrap.servers`, and security.
            group: id of the group, which must be allowed to be described.
            auto_offset_reset: the group's own setting, in the words of any client. A partition
                without a commit has no lag with `latest`, and all of its records with each other
                one (KAFKA-5337).
            timeout: seconds after which the lag counts as unknown.

        Raises:
            ValueError: no client has such a setting.
        """
        if auto_offset_reset not in {*AT_END, *AT_BEGIN}:
            words = ", ".join((*AT_END, *AT_BEGIN))
            raise ValueError(f"auto_offset_reset: one of {words}, not {auto_offset_reset!r}")
        self._config = {
            "client.id": "levelwind-lag",
            **with_idle_connections(config),
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",  # else an open transaction would hold the answer
        }
        self._group = group
        self._from_begin = auto_offset_reset in AT_BEGIN
        self._timeout = timeout
        self._consumer: Consumer | None = None
        self._unknown: frozenset[ranges.TopicPartition] = frozenset()

    def __call__(self, topics: Collection[str]) -> dict[str, list[int]]:
        """Ask for the records behind of each partition of some topics; unknown topics are left out.

        Raises:
            LagUnavailableError: the brokers did not answer in time, or refused every partition.
        """
        if not topics:
            return {}
        try:
            if self._consumer is None:
                self._consumer = Consumer(self._config)
            return self._lag(self._consumer, topics)
        except KafkaException as error:
            raise LagUnavailableError(f"lag of group {self._group}: {error}") from error

    def _lag(self, consumer: Consumer, topics: Collection[str]) -> dict[str, list[int]]:
        found = consumer.list_topics(timeout=self._timeout).topics
        partitions = [
            TopicPartition(topic, number)
            for topic in sorted(topics)
            if topic in found
            for number in sorted(found[topic].partitions)
        ]
        if not partitions:
            return {}
        committed: dict[ranges.TopicPartition, int] = {}
        ends: dict[ranges.TopicPartition, int] = {}
        starts: dict[ranges.TopicPartition, int] = {}
        refusals: dict[ranges.TopicPartition, KafkaError] = {}
        _divide(consumer.committed(partitions, timeout=self._timeout), committed, refusals)
        _divide(self._log_offsets(consumer, partitions, OFFSET_END), ends, refusals)
        if self._from_begin:
            fresh = [
                partition
                for partition in partitions
                if (key := (partition.topic, partition.partition)) not in refusals
                and committed[key] < 0
            ]
            if fresh:
                _divide(self._log_offsets(consumer, fresh, OFFSET_BEGINNING), starts, refusals)
        self._log_unknown(refusals, len(partitions))
        lag: dict[str, list[int]] = {}
        for partition in partitions:
            key = partition.topic, partition.partition
            behind = 0
            if key not in refusals:
                since = committed[key] if committed[key] >= 0 else starts.get(key, ends[key])
                behind = max(ends[key] - since, 0)
            lag.setdefault(partition.topic, []).append(behind)
        return lag

    def _log_offsets(
        self, consumer: Consumer, partitions: Collection[TopicPartition], which: int
    ) -> list[TopicPartition]:
        """One end of each log; the protocol asks for it by a timestamp that is none."""
        asked = [TopicPartition(one.topic, one.partition, which) for one in partitions]
        answered: list[TopicPartition] = consumer.offsets_for_times(asked, timeout=self._timeout)
        return answered

    def _log_unknown(
        self, refusals: Mapping[ranges.TopicPartition, KafkaError], asked: int
    ) -> None:
        """Log the partitions of unknown lag, once while they are the same.

        Raises:
            KafkaException: there is no other one.
        """
        if len(refusals) == asked:
            raise KafkaException(next(iter(refusals.values())))
        if refusals.keys() - self._unknown:
            topic, number = next(iter(refusals))
            _log.warning(
                "group %s: the lag of %d of %d partitions is not known and counts as 0; the "
                "first is %s-%d: %s",
                *(self._group, len(refusals), asked, topic, number),
                refusals[topic, number].str(),
            )
        self._unknown = frozenset(refusals)


def _divide(
    answered: Collection[TopicPartition],
    offsets: dict[ranges.TopicPartition, int],
    refusals: dict[ranges.TopicPartition, KafkaError],
) -> None:
    """Divide answers into offsets and errors."""
    for one in answered:
        if one.error is None:
            offsets[one.topic, one.partition] = one.offset
        else:
            refusals[one.topic, one.partition] = one.error
