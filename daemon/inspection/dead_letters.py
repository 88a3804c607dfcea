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
from daemon.console import age, columns, output
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

    Place = tuple[str, int, int]


class Verdict(StrEnum):
    """What can be done about a letter."""

    UNREADABLE = "unreadable"
    """Not by this version either."""
    READABLE = "readable"
    OUTDATED = "outdated"
    """Its record is gone, or a newer one of the same key is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A letter and what can be done about it."""

    letter: DeadLetter
    verdict: Verdict
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
class Found:
    """What a partition holds of the records that letters were written for."""

    end: int
    """Up to where it was read."""
    records: dict[int, Raw] = field(default_factory=dict)
    """By offset."""
    newest: dict[bytes, int] = field(default_factory=dict)
    """By key of one of them, the offset of the last record that has it."""

    def note(self, raw: Raw, wanted: frozenset[int]) -> None:
        """One record more, in their order."""
        if raw.offset in wanted:
            self.records[raw.offset] = raw
            if raw.key is not None:
                self.newest.setdefault(raw.key, raw.offset)
        if raw.key is not None and raw.key in self.newest:
            self.newest[raw.key] = raw.offset


def standing(entries: Iterable[DeadLetter | Tombstone], topic: str | None) -> list[DeadLetter]:
    """The letters that have not ended, by place."""
    letters: dict[Place, DeadLetter] = {}
    for entry in entries:
        if isinstance(entry, Tombstone):
            name, partition, offset = entry.key
            letters.pop((str(name), int(partition), int(offset)), None)
        elif topic is None or entry.topic == topic:
            letters[entry.topic, entry.partition, entry.offset] = entry
    return [letters[place] for place in sorted(letters)]


def judge(letter: DeadLetter, found: Found, topics: Topics, now: int) -> Judged:
    """Hold a letter against what stands at its place today."""
    from streaming.decoding.ingest import unreadable  # noqa: PLC0415 - it imports NumPy and pyarrow

    raw = found.records.get(letter.offset)
    same = (
        raw is not None
        and _begins(raw.key, letter.raw_key)
        and _begins(raw.value, letter.raw_value)
    )
    if raw is None or not same:  # compacted away; or the topic was deleted and made anew
        return Judged(letter=letter, verdict=Verdict.OUTDATED, reason=letter.reason)
    if raw.key is not None and found.newest[raw.key] > raw.offset:
        return Judged(letter=letter, verdict=Verdict.OUTDATED, reason=letter.reason)
    if (reason := unreadable(raw, topics)) is not None:
        return Judged(letter=letter, verdict=Verdict.UNREADABLE, reason=reason)
    replay = ReplayRecord(
        at=now,
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        timestamp=raw.timestamp,
        until=found.end,
        raw_key=raw.key,
        raw_value=raw.value,
    )
    return Judged(letter=letter, verdict=Verdict.READABLE, reason=letter.reason, replay=replay)


def _begins(whole: bytes | None, kept: bytes | None) -> bool:
    """Whether a letter's bytes, which may have been cut, are the record's."""
    return whole is None if kept is None else whole is not None and whole.startswith(kept)


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
    entries = [entry.record for entry in read if isinstance(entry, ConsumedRecord)]
    return standing((e for e in entries if isinstance(e, DeadLetter | Tombstone)), topic)


def look_up(settings: Settings, letters: Sequence[DeadLetter]) -> list[Judged]:
    """Judge letters by the records themselves: reads each of their partitions from the oldest letter on."""
    now = now_ms()
    offsets: dict[tuple[str, int], set[int]] = defaultdict(set)
    for letter in letters:
        offsets[letter.topic, letter.partition].add(letter.offset)
    found = _find(settings, offsets)
    nowhere = Found(end=0)
    return [
        judge(letter, found.get((letter.topic, letter.partition), nowhere), settings.topics, now)
        for letter in letters
    ]


def _find(
    settings: Settings, offsets: Mapping[tuple[str, int], set[int]]
) -> dict[tuple[str, int], Found]:
    timeout = settings.topic.timeout
    stable: dict[tuple[str, int], int] = {}
    for name in {name for name, _ in offsets}:
        try:
            stable |= stable_ends(settings.client(), [name], timeout)
        except NotFoundError:  # its records are gone with it
            continue
    found = {
        partition: Found(end=stable[partition]) for partition in offsets if partition in stable
    }
    wanted = {partition: frozenset(offsets[partition]) for partition in found}
    first = {partition: min(offsets[partition]) for partition in found}
    progress = ReadProgress({p: one.end for p, one in found.items() if one.end > first[p]})
    consumer = open_consumer(
        settings.client(), settings.topics, {p: first[p] for p in progress.missing}
    )
    try:
        for messages in read_until(consumer, progress, timeout):
            for message in messages:
                error = message.error()
                partition = (message.topic(), message.partition())
                if error is None and message.offset() < found[partition].end:
                    found[partition].note(_raw(message), wanted[partition])
                elif error is not None and not is_partition_end(error):
                    raise ClusterUnavailableError(
                        f"{partition[0]}/{partition[1]} cannot be read: {error.str()}"
                    )
    finally:
        consumer.close()
    return found


def _raw(message: Any) -> Raw:
    return Raw(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=max(message.timestamp()[1], 0),
        key=message.key(),
        value=message.value(),
    )


def retry(settings: Settings, judged: Sequence[Judged]) -> None:
    """Give the pipeline what can be read now, and end the letters of what is outdated.

    Raises:
        As `write_replays`.
    """
    write_replays(
        settings.client(),
        settings.topics,
        settings.topic,
        [
            (one.letter.key, one.replay)
            for one in judged
            if one.replay is not None or one.verdict is Verdict.OUTDATED
        ],
    )


def summary(judged: Sequence[Judged], *, retried: bool) -> str:
    """One line on what there is, or what was done about it."""
    if not judged:
        return "there are no dead letters"
    count = Counter(one.verdict for one in judged)
    readable, outdated, unreadable_still = (
        count[verdict] for verdict in (Verdict.READABLE, Verdict.OUTDATED, Verdict.UNREADABLE)
    )
    if retried:
        later = (
            "; a letter that stands on in a while was overtaken: try it again" if readable else ""
        )
        return (
            f"{readable} given to the pipeline again, {outdated} outdated and ended, "
            f"{unreadable_still} still unreadable{later}"
        )
    return f"{readable} readable now, {outdated} outdated, {unreadable_still} unreadable; --retry to act on it"


def show(judged: Sequence[Judged]) -> None:
    """Print the letters as a table, if there are any."""
    if not judged:
        return
    now = now_ms()
    table = columns(
        ("TOPIC", False), ("PLACE", True), ("AGE", True), ("NOW", False), ("REASON", False)
    )
    for one in judged:
        letter = one.letter
        place = f"{letter.partition}/{letter.offset}"
        table.add_row(
            letter.topic, place, age(max(now - letter.at, 0) / 1000), one.verdict.value, one.reason
        )
    output().print(table)
