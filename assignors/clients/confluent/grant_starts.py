"""Where granted partitions start, asked of the brokers before librdkafka reads them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from confluent_kafka import IsolationLevel

    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

FETCH_TIMEOUT_SECONDS = 3.0


class GrantStarts(NamedTuple):
    """Answers of the brokers for granted partitions; each is either known or refused."""

    known: list[Any]
    """Partitions that can be read, as confluent-kafka's `TopicPartition`, with their offsets."""
    pinned: dict[Pair, int]
    """Offsets of known partitions that are to be committed."""
    refused: dict[Pair, KafkaError]
    """Why the other partitions cannot be read now."""


def look_up(client: Any, topics: Iterable[str]) -> None:
    """Have a consumer or an admin client know the present leaders of topics.

    A consumer asks for those of an unknown topic only after it was told to read from it, and the
    first fetch waits for librdkafka's next scan, which comes once a second.

    Raises:
        KafkaException: The brokers did not answer.
    """
    for topic in sorted(topics):
        client.list_topics(topic, timeout=FETCH_TIMEOUT_SECONDS)


def ask_starts(
    consumer: Any,
    admin: Any,
    pairs: Collection[Pair],
    *,
    new: Collection[Pair],
    pins_latest: IsolationLevel | None,
) -> GrantStarts:
    """Ask where partitions start; one that the brokers refuse keeps no other from being read.

    Args:
        consumer: The application's consumer.
        admin: An `AdminClient` of the same brokers.
        pairs: The granted partitions.
        new: Those that start at their beginnings without a commit.
        pins_latest: Isolation level at whose present ends the others without a commit start; None:
            they are left to the consumer.

    Raises:
        KafkaException: The brokers did not answer.
    """
    asked = [TopicPartition(*pair) for pair in sorted(pairs)]
    committed = consumer.committed(asked, timeout=FETCH_TIMEOUT_SECONDS)
    starts = {(each.topic, each.partition): each for each in committed}
    refused = {pair: each.error for pair, each in starts.items() if each.error is not None}
    unset = [p for p, each in starts.items() if p not in refused and each.offset == OFFSET_INVALID]
    for pair in set(unset) & set(new):
        # By "latest" the records were lost that came before anybody owned them (KAFKA-12261).
        starts[pair].offset = OFFSET_BEGINNING
    pinned: dict[Pair, int] = {}
    if pins_latest is not None:
        pinned, silent = _ends(admin, [pair for pair in unset if pair not in new], pins_latest)
        refused |= silent
        for pair, end in pinned.items():
            starts[pair].offset = end
    known = [each for pair, each in starts.items() if pair not in refused]
    return GrantStarts(known, pinned, refused)


def _ends(
    admin: Any, pairs: Collection[Pair], isolation: IsolationLevel
) -> tuple[dict[Pair, int], dict[Pair, KafkaError]]:
    """Ask for the ends of logs, which are to be committed.

    Otherwise "latest" were another offset for each owner, and records that arrive between two
    owners would be skipped.

    All leaders are asked at once, and each answers for its own partitions. A consumer cannot ask
    so: its `get_watermark_offsets` takes one partition after the other, and its `offsets_for_times`
    fails for all of them where one leader refuses or is silent.

    Returns:
        The ends, and the errors of partitions whose leaders did not give one.
    """
    if not pairs:
        return {}, {}
    answers = admin.list_offsets(
        {TopicPartition(*pair): OffsetSpec.latest() for pair in pairs},
        isolation_level=isolation,
        request_timeout=FETCH_TIMEOUT_SECONDS,
    )
    ends: dict[Pair, int] = {}
    refused: dict[Pair, KafkaError] = {}
    for partition, answer in answers.items():
        pair = (partition.topic, partition.partition)
        try:
            end = answer.result().offset
        except KafkaException as error:
            refused[pair] = error.args[0]
            continue
        if end < 0:  # the answer for a leader that is silent
            refused[pair] = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
        else:
            ends[pair] = end
    with suppress(KafkaException):
        # Whatever the answer, the client would ask the same leader again.
        look_up(admin, {topic for topic, _ in refused})
    return ends, refused
