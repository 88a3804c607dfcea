"""Where granted partitions start, asked of the brokers before librdkafka reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from levelwind.assignors.boot_clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

FETCH_TIMEOUT_SECONDS = 3.0


class GrantStarts(NamedTuple):
    """Answers of the brokers for granted partitions; each is either known or refused."""

    known: list[Any]
    """Partitions that can be read, as confluent-kafka's `TopicPartition`, with their offsets."""
    pinned: dict[Pair, int]
    """Offsets of known partitions that are to be committed."""
    refused: dict[Pair, KafkaError]
    """Why the other partitions cannot be read now; those that nobody was asked for come first."""


def look_up(consumer: Any, topics: Iterable[str]) -> None:
    """Have librdkafka know the leaders of topics of which it reads nothing.

    It asks for those of an unknown topic only after it was told to read from it, and the first
    fetch waits for librdkafka's next scan, which comes once a second.

    Raises:
        KafkaException: The brokers did not answer.
    """
    for topic in sorted(topics):
        consumer.list_topics(topic, timeout=FETCH_TIMEOUT_SECONDS)


def ask_starts(
    consumer: Any, pairs: Sequence[Pair], *, new: Collection[Pair], pins_latest: bool
) -> GrantStarts:
    """Ask where partitions start; one that the brokers refuse keeps no other from being read.

    Args:
        consumer: The application's consumer.
        pairs: The granted partitions, in the order in which their leaders are asked.
        new: Those that start at their beginnings without a commit.
        pins_latest: Whether the others without a commit start at their present ends.

    Raises:
        KafkaException: The brokers did not answer.
    """
    asked = [TopicPartition(*pair) for pair in pairs]
    committed = consumer.committed(asked, timeout=FETCH_TIMEOUT_SECONDS)
    answers = {(each.topic, each.partition): each for each in committed}
    refused = {pair: each.error for pair, each in answers.items() if each.error is not None}
    known = [answers[pair] for pair in pairs if pair not in refused]
    _begin_new(known, new)
    pinned, silent = _pin_latest(consumer, known) if pins_latest else ({}, {})
    return GrantStarts(
        [each for each in known if (each.topic, each.partition) not in silent],
        pinned,
        {**silent, **refused},
    )


def _begin_new(starts: Iterable[Any], new: Collection[Pair]) -> None:
    """Start new partitions without a commit at their beginnings.

    By "latest" the records were lost that came before anybody owned them (KAFKA-12261).
    """
    for start in starts:
        if start.offset == OFFSET_INVALID and (start.topic, start.partition) in new:
            start.offset = OFFSET_BEGINNING


def _pin_latest(
    consumer: Any, starts: Iterable[Any]
) -> tuple[dict[Pair, int], dict[Pair, KafkaError]]:
    """Start partitions without a commit at their ends.

    Otherwise "latest" were another offset for each owner, and records that arrive between two
    owners would be skipped.

    Returns:
        Those ends, to be committed; and the errors of partitions whose leaders did not answer. A
        partition without a leader may take all the time that there is for all of them. Then the
        partitions behind it come first among the errors.
    """
    pinned: dict[Pair, int] = {}
    silent: dict[Pair, KafkaError] = {}
    unasked: dict[Pair, KafkaError] = {}
    until = boot_seconds() + FETCH_TIMEOUT_SECONDS
    for start in starts:
        if start.offset != OFFSET_INVALID:
            continue
        pair = (start.topic, start.partition)
        if (left := until - boot_seconds()) <= 0:
            unasked[pair] = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
            continue
        try:
            _, start.offset = consumer.get_watermark_offsets(TopicPartition(*pair), timeout=left)
        except KafkaException as error:
            silent[pair] = error.args[0]
        else:
            pinned[pair] = start.offset
    return pinned, {**unasked, **silent}
