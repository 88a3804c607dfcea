"""`levelwind dead-letters`: records that the pipeline could not read, and their replay.

A letter is open until its tombstone. `--retry` reads the original record again. A record that was
compacted away, or that a newer record of the same key follows, is outdated: its letter is closed.
A record that the installed version can read is replayed to the pipeline, together with the offset
up to which no newer record of its key was found. The pipeline closes the letter once it has applied
the record, and leaves the letter open if it has seen a newer record meanwhile. Hence a retry that
is interrupted or repeated does no harm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol.records import DeadLetter, ReplayRecord, Tombstone
from levelwind.daemon.console import age_text, borderless_table, stdout_console
from levelwind.daemon.errors import ClusterUnavailableError, NotFoundError
from levelwind.daemon.kafka.record_writer import write_replays
from levelwind.daemon.kafka.topic_reader import (
    ReadProgress,
    is_partition_end,
    open_consumer,
    read_to_end,
    read_until,
    stable_ends,
)
from levelwind.daemon.wall_clock import now_ms
from levelwind.streaming.messages.rows import Raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.config.settings import Settings

    PartitionKey = tuple[str, int]
    LogPosition = tuple[str, int, int]


class LetterVerdict(StrEnum):
    """Verdict on a dead letter: whether a retry would replay it, close it, or leave it open."""

    UNREADABLE = "unreadable"
    """The installed version cannot read the record either."""
    READABLE = "readable"
    """The installed version can read the record: a retry replays it."""
    OUTDATED = "outdated"
    """The record is gone, or a newer record of the same key exists: a retry closes the letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedLetter:
    """A dead letter with its verdict."""

    letter: DeadLetter
    verdict: LetterVerdict
    reason: str
    """Reason why this version cannot read the record; if it can, why an earlier one could not."""
    replay: ReplayRecord | None = None
    """The replay of a readable record; None for the others."""

    def as_json(self, now: int) -> dict[str, object]:
        """One line of JSON output; `now` in milliseconds since the epoch."""
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
    """The records of one partition for which there are letters, and newer ones of the same keys."""

    end: int
    """End of the scan: the first offset that was not read."""
    offsets: frozenset[int] = frozenset()
    """Offsets of the letters' records."""
    records: dict[int, Raw] = field(default_factory=dict)
    """The letters' records, by offset."""
    newest: dict[bytes, int] = field(default_factory=dict)
    """Offset of the newest record of each key that one of the letters' records has."""

    def add(self, raw: Raw) -> None:
        """Add the next record of the partition, in the order of offsets."""
        if raw.offset in self.offsets:
            self.records[raw.offset] = raw
            if raw.key is not None:
                self.newest.setdefault(raw.key, raw.offset)
        if raw.key is not None and raw.key in self.newest:
            self.newest[raw.key] = raw.offset


def open_letters(records: Iterable[DeadLetter | Tombstone], topic: str | None) -> list[DeadLetter]:
    """The letters without a tombstone, in the order of topic, partition and offset."""
    letters: dict[LogPosition, DeadLetter] = {}
    for record in records:
        if isinstance(record, Tombstone):
            name, partition, offset = record.key
            letters.pop((str(name), int(partition), int(offset)), None)
        elif topic is None or record.topic == topic:
            letters[record.topic, record.partition, record.offset] = record
    return [letters[position] for position in sorted(letters)]


def classify(letter: DeadLetter, scan: PartitionScan, topics: Topics, now: int) -> ClassifiedLetter:
    """Compare a letter with the record that the partition now has at the letter's offset."""
    from levelwind.streaming.decoding.ingest import unreadable  # noqa: PLC0415 - it imports NumPy and pyarrow

    raw = scan.records.get(letter.offset)
    same = (
        raw is not None
        and _matches(raw.key, letter.raw_key)
        and _matches(raw.value, letter.raw_value)
    )
    if raw is None or not same:  # compacted away, or the topic was recreated
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
    """Whether a letter's bytes, which may have been truncated, are those of the record."""
    return (
        original is None if stored is None else original is not None and original.startswith(stored)
    )


# I/O


def read_letters(settings: Settings, topic: str | None) -> list[DeadLetter]:
    """Read the open letters.

    Raises:
        NotFoundError: the cluster has no topic of dead letters.
        ClusterUnavailableError: the cluster did not answer in time.
    """
    read = read_to_end(
        settings.client(), settings.topics, ("dead_letters",), timeout=settings.topic.timeout
    )
    records = (item.record for item in read)
    return open_letters((r for r in records if isinstance(r, DeadLetter | Tombstone)), topic)


def classify_letters(settings: Settings, letters: Sequence[DeadLetter]) -> list[ClassifiedLetter]:
    """Classify letters by their original records.

    Cost: reads each partition that has a letter, from its oldest letter to its end.
    """
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
        except NotFoundError:  # the records are gone with the topic
            continue
    scans = {
        partition: PartitionScan(end=stable[partition], offsets=frozenset(offsets[partition]))
        for partition in offsets
        if partition in stable
    }
    first = {partition: min(offsets[partition]) for partition in scans}
    progress = ReadProgress({p: scan.end for p, scan in scans.items() if scan.end > first[p]})
    starts = {partition: first[partition] for partition in progress.missing}
    with closing(open_consumer(settings.client(), settings.topics, starts)) as consumer:
        for messages in read_until(consumer, progress, timeout):
            for message in messages:
                error = message.error()
                partition = (message.topic(), message.partition())
                if error is None and message.offset() < scans[partition].end:
                    scans[partition].add(_raw_record(message))
                elif error is not None and not is_partition_end(error):
                    # An error of the client as a whole names no topic.
                    name = f"{partition[0]}/{partition[1]}" if partition[0] else "the topics"
                    raise ClusterUnavailableError(f"{name} cannot be read: {error.str()}")
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
    """Replay the readable records to the pipeline, and close the letters of the outdated ones.

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
    """One line on the open letters, or on what the retry did with them."""
    if not classified:
        return "there are no dead letters"
    count = Counter(item.verdict for item in classified)
    readable, outdated, unreadable_count = (
        count[verdict]
        for verdict in (LetterVerdict.READABLE, LetterVerdict.OUTDATED, LetterVerdict.UNREADABLE)
    )
    if retried:
        later = "; retry again if a letter is still listed in a minute" if readable else ""
        return (
            f"{readable} replayed to the pipeline, {outdated} outdated and closed, "
            f"{unreadable_count} still unreadable{later}"
        )
    return (
        f"{readable} readable now, {outdated} outdated, {unreadable_count} unreadable; "
        "--retry replays the readable ones and closes the outdated ones"
    )


def print_letters(classified: Sequence[ClassifiedLetter]) -> None:
    """Print the letters as a table, if there are any."""
    if not classified:
        return
    now = now_ms()
    table = borderless_table(
        ("TOPIC", False), ("POSITION", True), ("AGE", True), ("STATUS", False), ("REASON", False)
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
