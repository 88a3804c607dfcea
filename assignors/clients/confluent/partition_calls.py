"""Calls of a consumer about partitions, as `confluent_kafka.Consumer` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.clients.confluent.settings import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.clients.confluent.committing.offsets import CommitTracker
    from levelwind.assignors.clients.confluent.owned_partitions import OwnedPartitions
    from levelwind.assignors.clients.confluent.ownership_evidence import FencingToken
    from levelwind.assignors.clients.confluent.settings import ClientSettings
    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair


class PartitionCalls:
    """Commits, positions and pauses of owned partitions, and questions about any.

    Questions to the brokers count as work of the application, which must poll within
    `max.poll.interval.ms` all the same. Their timeout is in seconds; below 0 they wait for ever.
    """

    _settings: ClientSettings
    _consumer: Any
    _owned: OwnedPartitions
    _commits: CommitTracker
    _closed: bool

    # Owned partitions.

    def assignment(self) -> list[Any]:
        """The owned partitions, as `confluent_kafka.TopicPartition` without offsets."""
        return self._owned.topic_partitions()

    def fencing_token(self, partition: Any) -> FencingToken:
        """The token of an owned `TopicPartition`, for a store that refuses former owners.

        Raises:
            NotOwnedError: This consumer does not own the partition (any more).
        """
        return self._owned.fencing_token(_pair(partition))

    def commit(
        self,
        message: Any = None,
        offsets: Iterable[Any] | None = None,
        *,
        asynchronous: bool = True,
    ) -> list[Any] | None:
        """Commit one message, the given offsets, or everything that was handed out.

        Args:
            message: Commits the offset behind this message.
            offsets: Commits these `TopicPartition` offsets: the next offsets to read. Their
                metadata is committed as well.
            asynchronous: Return at once; the outcome goes to the `on_commit` setting. With broker
                fencing, and near the end of the lease, the call waits all the same.

        Returns:
            The committed partitions, or None for an asynchronous commit.

        Raises:
            NotOwnedError: This consumer does not own one of the partitions (any more).
            StraySubscriberError: Another consumer subscribes under the group's name.
            KafkaException: The broker refused the commit, or did not answer.
            ValueError: Both are given, the message is an error, or an offset is below 0.
            RuntimeError: The consumer is closed.
        """
        self._refuse_if_closed()
        given = None if offsets is None else list(offsets)
        to_commit = self._commits.offsets_to_commit(message, given)
        self._owned.require_committable(to_commit)
        metadata = {_pair(p): p.metadata for p in given or () if p.metadata}
        return self._commits.commit(to_commit, metadata=metadata, asynchronous=asynchronous)

    def store_offsets(self, message: Any = None, offsets: Iterable[Any] | None = None) -> None:
        """Mark everything below these offsets as processed, to be committed in due course.

        Args:
            message: Marks everything up to and including this message.
            offsets: Marks everything below these `TopicPartition` offsets.

        Raises:
            SettingError: `enable.auto.offset.store=false` is not set.
            NotOwnedError: This consumer does not own one of the partitions (any more).
            ValueError: Neither or both are given, the message is an error, or an offset is below 0.
            RuntimeError: The consumer is closed.
        """
        self._refuse_if_closed()
        if self._settings.auto_store:
            raise SettingError("store_offsets needs enable.auto.offset.store=false")
        if message is None and offsets is None:
            raise ValueError("store_offsets needs a message or offsets")
        to_commit = self._commits.offsets_to_commit(message, offsets)
        self._owned.require_owned(to_commit)
        self._commits.processed.update(to_commit)

    def pause(self, partitions: list[Any]) -> None:
        """Stop fetching and handing out owned partitions; poll nevertheless.

        The pause lasts until `resume` or until the partition is given up: whoever gets it next,
        this consumer included, reads it. It outlasts a `seek`, plans that leave the partition here,
        and times without a lease that end before the lease does.

        Raises:
            NotOwnedError: This consumer does not own one of the partitions; none is paused.
        """
        self._refuse_if_closed()
        self._owned.pause([_pair(partition) for partition in partitions])

    def resume(self, partitions: list[Any]) -> None:
        """Read paused partitions again, from where they were paused.

        Raises:
            NotOwnedError: This consumer does not own one of the partitions; none is resumed.
        """
        self._refuse_if_closed()
        self._owned.resume([_pair(partition) for partition in partitions])

    def seek(self, partition: Any) -> None:
        """Continue an owned partition at another offset; what was fetched of it is dropped.

        This holds for as long as the partition is owned; whoever gets it next starts at the
        committed offset. It may be called in `on_assign`.

        Raises:
            NotOwnedError: This consumer does not own the partition (any more).
            KafkaException: librdkafka refuses the offset.
        """
        self._refuse_if_closed()
        self._owned.seek(_pair(partition), partition.offset)

    def position(self, partitions: list[Any]) -> list[Any]:
        """The offsets behind the last messages that were returned of owned partitions.

        `OFFSET_INVALID` stands for a partition of which nothing was returned since it was granted
        or sought.

        Raises:
            NotOwnedError: This consumer does not own one of the partitions (any more).
        """
        self._refuse_if_closed()
        return self._owned.positions([_pair(partition) for partition in partitions])

    # Questions to the brokers, about any partition.

    def committed(self, partitions: list[Any], timeout: float = -1) -> list[Any]:
        """The group's committed offsets, also of partitions that others own.

        Raises:
            KafkaException: The brokers refused, or did not answer in time.
        """
        return list(self._consumer.committed(partitions, timeout=timeout))

    def get_watermark_offsets(
        self, partition: Any, timeout: float = -1, *, cached: bool = False
    ) -> tuple[int, int] | None:
        """The first offset of a partition's log and the one behind its last record.

        Args:
            partition: Any `TopicPartition`.
            timeout: Seconds to wait for the broker.
            cached: Take what the last fetch brought, and ask nobody.

        Returns:
            Both offsets.

        Raises:
            KafkaException: The brokers refused, or did not answer in time.
        """
        answer = self._consumer.get_watermark_offsets(partition, timeout=timeout, cached=cached)
        return None if answer is None else tuple(answer)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """The cluster's `ClusterMetadata`: brokers, and one topic or all.

        Raises:
            KafkaException: The brokers did not answer in time.
        """
        if topic is None:
            return self._consumer.list_topics(timeout=timeout)
        return self._consumer.list_topics(topic, timeout=timeout)

    def offsets_for_times(self, partitions: list[Any], timeout: float = -1) -> list[Any]:
        """The first offsets at or after a time, given as `offset` in milliseconds since the epoch.

        Raises:
            KafkaException: The brokers refused, or did not answer in time.
        """
        return list(self._consumer.offsets_for_times(partitions, timeout=timeout))

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the consumer is closed")


def _pair(partition: Any) -> Pair:
    return partition.topic, partition.partition
