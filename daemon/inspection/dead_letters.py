"""What the pipeline could not read, and the second chance that an upgrade gives it.

A letter stands until its tombstone. `--retry` looks at the record itself, where it stands: one that is gone was compacted
away, and one with a newer record of its key behind it is outdated: neither says anything any more, and their letters end.
What the installed version can read now is given to the pipeline once more, with the offset up to which nothing newer of
its key was found. The pipeline ends the letter when it has taken the record up, and lets it stand if it has seen
something newer meanwhile. So a retry that is broken off, or made twice, does no harm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from assignors.protocol.records import DeadLetter, ReplayRecord, Tombstone
from daemon.console import age_text, borderless_table, stdout_console
from daemon.errors import ClusterUnavailableError, NotFoundError
from daemon.kafka.record_writer import write_replays
from daemon.kafka.topic_reader import (
    ConsumedRecord,
    ReadProgress,
    is_partition_end,
    open_consumer,
    read_to_end,
    read_until,
    stable_ends,
)
from daemon.wall_clock import now_ms
from streaming.messages.rows import Raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignors.protocol.topics import Topics
    from daemon.config.settings import Settings

    PartitionKey = tuple[str, int]
    LogPosition = tuple[str, int, int]


class LetterVerdict(StrEnum):
    """What can be done about a letter."""

    UNREADABLE = "unreadable"
    """Not by this version either."""
    READABLE = "readable"
    OUTDATED = "outdated"
    """Its record is gone, or a newer one of the same key is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedLetter:
    """A letter and what can be done about it."""

    letter: DeadLetter
    verdict: LetterVerdict
    reason: str
    """Why it cannot be read: now, if it still cannot."""
    replay: ReplayRecord | None = None

    def as_json(self, now: int) -> dict[str, object]:
        """One line of the listing."""
        return {
            "topic": self.letter.topic,
            "partition": self.letter.partition,
            "offset": self.letter.offset,
            "at": self.letter.at,
            "age_seconds": max(now - self.letter.at, 0) // 1000,
            "reason": self.reason,
            "verdict": self.verdict.value,
        }


@dataclass(slots=True)
class PartitionScan:
    """What a partition holds of the records that letters were written for."""

    end: int
    """Up to where it was read."""
    offsets: frozenset[int] = frozenset()
    """Offsets of the letters' records."""
    records: dict[int, Raw] = field(default_factory=dict)
    """By offset."""
    newest: dict[bytes, int] = field(default_factory=dict)
    """By key of one of them, the offset of the last record that has it."""

    def add(self, raw: Raw) -> None:
        """One record more, in their order."""
        if raw.offset in self.offsets:
            self.records[raw.offset] = raw
            if raw.key is not None:
                self.newest.setdefault(raw.key, raw.offset)
        if raw.key is not None and raw.key in self.newest:
            self.newest[raw.key] = raw.offset


def open_letters(records: Iterable[DeadLetter | Tombstone], topic: str | None) -> list[DeadLetter]:
    """The letters that have not ended, by place."""
    letters: dict[LogPosition, DeadLetter] = {}
    for record in records:
        if isinstance(record, Tombstone):
            name, partition, offset = record.key
            letters.pop((str(name), int(partition), int(offset)), None)
        elif topic is None or record.topic == topic:
            letters[record.topic, record.partition, record.offset] = record
    return [letters[position] for position in sorted(letters)]


def classify(letter: DeadLetter, scan: PartitionScan, topics: Topics, now: int) -> ClassifiedLetter:
    """Hold a letter against what stands at its place today."""
    from streaming.decoding.ingest import unreadable  # noqa: PLC0415 - it imports NumPy and pyarrow

    raw = scan.records.get(letter.offset)
    same = (
        raw is not None
        and _matches(raw.key, letter.raw_key)
        and _matches(raw.value, letter.raw_value)
    )
    if raw is None or not same:  # compacted away; or the topic was deleted and made anew
        return ClassifiedLetter(letter=letter, verdict=LetterVerdict.OUTDATED, reason=letter.reason)
    if raw.key is not None and scan.newest[raw.key] > raw.offset:
        return ClassifiedLetter(letter=letter, verdict=LetterVerdict.OUTDATED, reason=letter.reason)
    if (reason := unreadable(raw, topics)) is not None:
        return ClassifiedLetter(letter=letter, verdict=LetterVerdict.UNREADABLE, reason=reason)
    replay = ReplayRecord(
        at=now,
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        timestamp=raw.timestamp,
        until=scan.end,
        raw_key=raw.key,
        raw_value=raw.value,
    )
    return ClassifiedLetter(
        letter=letter, verdict=LetterVerdict.READABLE, reason=letter.reason, replay=replay
    )


def _matches(original: bytes | None, stored: bytes | None) -> bool:
    """Whether a letter's bytes, which may have been cut, are the record's."""
    return (
        original is None if stored is None else original is not None and original.startswith(stored)
    )


# -- with a cluster


def read_letters(settings: Settings, topic: str | None) -> list[DeadLetter]:
    """The letters that stand.

    Raises:
        NotFoundError: there is no topic of letters.
        ClusterUnavailableError: no answer in time.
    """
    read = read_to_end(
        settings.client(), settings.topics, ("dead_letters",), timeout=settings.topic.timeout
    )
    records = [item.record for item in read if isinstance(item, ConsumedRecord)]
    return open_letters((r for r in records if isinstance(r, DeadLetter | Tombstone)), topic)


def classify_letters(settings: Settings, letters: Sequence[DeadLetter]) -> list[ClassifiedLetter]:
    """Judge letters by the records themselves: reads each of their partitions from the oldest letter on."""
    now = now_ms()
    offsets: dict[PartitionKey, set[int]] = defaultdict(set)
    for letter in letters:
        offsets[letter.topic, letter.partition].add(letter.offset)
    scans = _scan(settings, offsets)
    deleted = PartitionScan(end=0)
    return [
        classify(letter, scans.get((letter.topic, letter.partition), deleted), settings.topics, now)
        for letter in letters
    ]


def _scan(
    settings: Settings, offsets: Mapping[PartitionKey, set[int]]
) -> dict[PartitionKey, PartitionScan]:
    timeout = settings.topic.timeout
    stable: dict[PartitionKey, int] = {}
    for name in {name for name, _ in offsets}:
        try:
            stable |= stable_ends(settings.client(), [name], timeout)
        except NotFoundError:  # its records are gone with it
            continue
    scans = {
        partition: PartitionScan(end=stable[partition], offsets=frozenset(offsets[partition]))
        for partition in offsets
        if partition in stable
    }
    first = {partition: min(offsets[partition]) for partition in scans}
    progress = ReadProgress({p: scan.end for p, scan in scans.items() if scan.end > first[p]})
    consumer = open_consumer(
        settings.client(), settings.topics, {p: first[p] for p in progress.missing}
    )
    try:
        for messages in read_until(consumer, progress, timeout):
            for message in messages:
                error = message.error()
                partition = (message.topic(), message.partition())
                if error is None and message.offset() < scans[partition].end:
                    scans[partition].add(_raw_record(message))
                elif error is not None and not is_partition_end(error):
                    raise ClusterUnavailableError(
                        f"{partition[0]}/{partition[1]} cannot be read: {error.str()}"
                    )
    finally:
        consumer.close()
    return scans


def _raw_record(message: Any) -> Raw:
    return Raw(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=max(message.timestamp()[1], 0),
        key=message.key(),
        value=message.value(),
    )


def retry(settings: Settings, classified: Sequence[ClassifiedLetter]) -> None:
    """Give the pipeline what can be read now, and end the letters of what is outdated.

    Raises:
        As `write_replays`.
    """
    write_replays(
        settings.client(),
        settings.topics,
        settings.topic,
        [
            (item.letter.key, item.replay)
            for item in classified
            if item.replay is not None or item.verdict is LetterVerdict.OUTDATED
        ],
    )


def summary(classified: Sequence[ClassifiedLetter], *, retried: bool) -> str:
    """One line on what there is, or what was done about it."""
    if not classified:
        return "there are no dead letters"
    count = Counter(item.verdict for item in classified)
    readable, outdated, unreadable_count = (
        count[verdict]
        for verdict in (LetterVerdict.READABLE, LetterVerdict.OUTDATED, LetterVerdict.UNREADABLE)
    )
    if retried:
        later = (
            "; a letter that stands on in a while was overtaken: try it again" if readable else ""
        )
        return (
            f"{readable} given to the pipeline again, {outdated} outdated and ended, "
            f"{unreadable_count} still unreadable{later}"
        )
    return f"{readable} readable now, {outdated} outdated, {unreadable_count} unreadable; --retry to act on it"


def print_letters(classified: Sequence[ClassifiedLetter]) -> None:
    """Print the letters as a table, if there are any."""
    if not classified:
        return
    now = now_ms()
    table = borderless_table(
        ("TOPIC", False), ("PLACE", True), ("AGE", True), ("NOW", False), ("REASON", False)
    )
    for item in classified:
        letter = item.letter
        position = f"{letter.partition}/{letter.offset}"
        table.add_row(
            letter.topic,
            position,
            age_text(max(now - letter.at, 0) / 1000),
            item.verdict.value,
            item.reason,
        )
    stdout_console().print(table)
