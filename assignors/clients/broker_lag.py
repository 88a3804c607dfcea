"""`BrokerLag`: the lag of a group, asked of the brokers with confluent-kafka.

A source for `LagAssignor` and its kin, whichever client the group's members use. Requests go out
when the leader plans: committed offsets and ends together, and beginnings where a partition has no
commit. lag = end - committed, at least 0, as in KAFKA-5337.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from assignors.clients.classic.lag_source import LagUnavailableError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TIMEOUT_SECONDS = 5.0


class BrokerLag:
    """Source of a group's lag; an instance may serve many plans."""

    def __init__(
        self,
        config: Mapping[str, Any],
        group: str,
        *,
        auto_offset_reset: Literal["latest", "earliest"] = "latest",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Configure the source; nothing connects before the first plan.

        Args:
            config: librdkafka's settings of the connection: `bootstrap.servers`, and security.
            group: id of the group, which must be allowed to be described.
            auto_offset_reset: the group's own setting. A partition without a commit has no lag with
                `latest`, and all of its records with `earliest`.
            timeout: seconds after which the lag counts as unknown.
        """
        self._config = {"client.id": "levelwind-lag", **config}
        self._group = group
        self._reset = auto_offset_reset
        self._timeout = timeout
        self._admin: AdminClient | None = None

    def __call__(self, topics: Collection[str]) -> dict[str, list[int]]:
        """Ask for the records behind of each partition of some topics; unknown topics are left out.

        Raises:
            LagUnavailableError: the brokers did not answer in time, or refused.
        """
        if not topics:
            return {}
        try:
            if self._admin is None:
                self._admin = AdminClient(self._config)
            return self._lag(self._admin, topics)
        except (KafkaException, TimeoutError) as error:
            raise LagUnavailableError(f"lag of group {self._group}: {error}") from error

    def _lag(self, admin: AdminClient, topics: Collection[str]) -> dict[str, list[int]]:
        found = admin.list_topics(timeout=self._timeout).topics
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            if topic in found
            for number in found[topic].partitions
        ]
        if not partitions:
            return {}
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group, partitions)],
            request_timeout=self._timeout,
        )
        ends = self._offsets(admin, partitions, OffsetSpec.latest())
        committed = {
            (partition.topic, partition.partition): partition.offset
            for partition in asked[self._group].result(self._timeout).topic_partitions
        }
        starts: dict[tuple[str, int], int] = {}
        if self._reset == "earliest":
            fresh = [p for p in partitions if committed.get((p.topic, p.partition), -1) < 0]
            starts = self._offsets(admin, fresh, OffsetSpec.earliest()) if fresh else {}
        lag: dict[str, list[int]] = {}
        for partition in sorted(partitions, key=lambda each: (each.topic, each.partition)):
            key = partition.topic, partition.partition
            position = committed.get(key, -1)
            since = position if position >= 0 else starts.get(key, ends[key])
            lag.setdefault(partition.topic, []).append(max(ends[key] - since, 0))
        return lag

    def _offsets(
        self, admin: AdminClient, partitions: Collection[TopicPartition], spec: Any
    ) -> dict[tuple[str, int], int]:
        asked = admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=self._timeout)
        return {
            (partition.topic, partition.partition): found.result(self._timeout).offset
            for partition, found in asked.items()
        }
