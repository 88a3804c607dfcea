"""kafka-python's consumer with `PublishedAssignor`, as the loop of paced members reads it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind_testing.drain.polled_record import PolledRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BATCH_RECORDS = 100
"""Records of a poll: a member notices a rebalance between two polls."""
POLL_SECONDS = 1.0
"""Longest poll; a shorter one would break off the commit before a rebalance."""


class PublishedConsumer:
    """A member of a group whose plans the daemon publishes; polled as librdkafka's consumer is."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        instance: str,
        rack: str,
        eager: bool,
        on_assign: Callable[[Any, list[Any]], None],
        on_revoke: Callable[[Any, list[Any]], None],
    ) -> None:
        """Subscribe.

        Args:
            bootstrap: address of the brokers.
            group: id of the group.
            topics: topics that the member reads.
            instance: the member's `group.instance.id`.
            rack: the member's rack.
            eager: whether members give up everything in a rebalance, or what they lose.
            on_assign: called with the consumer and partitions that were gained.
            on_revoke: called with the consumer and partitions that were lost.
        """
        from kafka import (  # noqa: PLC0415 - an extra
            ConsumerRebalanceListener,
            KafkaConsumer,
        )

        from levelwind.clients import kafka_python  # noqa: PLC0415 - an extra

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            """Passes changes on."""

            def on_partitions_revoked(self, revoked: Any) -> None:
                on_revoke(None, list(revoked))

            def on_partitions_assigned(self, assigned: Any) -> None:
                on_assign(None, list(assigned))

        kind = (
            kafka_python.PublishedAssignor if eager else kafka_python.CooperativePublishedAssignor
        )
        self._plans = PublishedPlans({"bootstrap.servers": bootstrap, "log_level": 0}, group)
        assignor = kind(plans=self._plans, instance=instance, rack=rack)
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            client_id=instance,
            group_id=group,
            group_instance_id=instance,
            client_rack=rack,
            auto_offset_reset="earliest",
            max_poll_records=BATCH_RECORDS,
            partition_assignment_strategy=[assignor],
        )
        assignor.attach(self._consumer)
        self._consumer.subscribe(topics, listener=Listener())
        self._batch: Iterator[Any] = iter(())

    def poll(self, timeout: float) -> PolledRecord | None:
        """The next record of the last batch; with a time, of the next batch where that is empty.

        As `for message in consumer`, which commits what was iterated over and no more, and drops
        what is left of a partition that was revoked.
        """
        record = next(self._batch, None)
        if record is None and timeout:
            self._consumer._consumer_timeout = time.monotonic() + POLL_SECONDS
            self._batch = self._consumer._message_generator_v2()
            record = next(self._batch, None)
        if record is None:
            return None
        return PolledRecord(
            topic_name=record.topic,
            number=record.partition,
            at_offset=record.offset,
            time_ms=record.timestamp,
        )

    def close(self) -> None:
        """Commit and leave."""
        self._consumer.close()
        self._plans.close()
