"""Commits and samples of a bucket's topics: rows from the decoding to the topics' operator.

Each is packed in columns for all topics of a bucket, and gives what concerns a single topic. With a
row for each, 2,500 topics took 0.3 s of CPU a batch: to pack and unpack the rows, to decode each
sample twice, and for Spark's worker, which makes a row in 11 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from levelwind.assignors.protocol.records import OffsetsRecord
from levelwind.streaming.messages.buckets import topic_key
from levelwind.streaming.messages.packing import names_column, names_of, pack, unpack
from levelwind.streaming.messages.rows import NO_REPLAY, Raw
from levelwind.streaming.rules.event_time import Int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from levelwind.streaming.messages.packing import Arrays, Meta

MAX_PARTITIONS = 64
"""The number of a topic's partitions up to which its samples may be plain."""
_Joined = TypeVar("_Joined", bytes, tuple[int, ...])


class TopicCommits(Struct, frozen=True, kw_only=True):
    """Offset commits of one topic; the columns are indexed by commit."""

    groups: tuple[str, ...]
    topic_ids: tuple[str, ...]
    group: Int64
    """The group of each commit, an index of `groups`."""
    partition: Int64
    offset: Int64
    """The committed offset; -1: the commit is a tombstone."""
    at: Int64
    """The time of the commit, in milliseconds since the epoch."""
    topic_id: Int64
    """An index of `topic_ids`; -1: the commit carries no topic id."""
    source: Int64
    """The partition of the offsets topic that holds the commit's record."""
    position: Int64
    """The offset of that record."""
    until: int = NO_REPLAY
    """Of a replay, which is of one commit: the offset below which its log has no newer record of
    the key; see `NO_REPLAY`."""


class BucketCommits(Struct, frozen=True, kw_only=True):
    """Offset commits of a bucket's topics; see `TopicCommits`.

    Commits, groups and topic ids of a topic lie together, those of the first topic first. The
    columns are indexed by commit, or by topic.
    """

    topics: tuple[str, ...]
    """Each once."""
    commits: Int64
    """By topic, the number of its commits."""
    groups: tuple[str, ...]
    group_count: Int64
    """By topic, the number of its groups."""
    topic_ids: tuple[str, ...]
    topic_id_count: Int64
    """By topic, the number of its topic ids."""
    group: Int64
    """By commit, an index of the topic's groups."""
    topic_id: Int64
    """By commit, an index of the topic's ids; -1: the commit carries none."""
    partition: Int64
    offset: Int64
    at: Int64
    source: Int64
    position: Int64
    until: int = NO_REPLAY
    """As in `TopicCommits`."""

    @property
    def _counts(self) -> tuple[Int64, Int64, Int64]:
        return self.commits, self.group_count, self.topic_id_count

    def pack(self) -> bytes:
        """The payload."""
        names = {name: names_column(getattr(self, name)) for name in _NAMES}
        narrow = {name: getattr(self, name).astype(np.int32) for name in (*_COUNTS, *_NARROW)}
        return pack(
            {"until": self.until}, names | narrow | {name: getattr(self, name) for name in _WIDE}
        )

    @classmethod
    def unpack(cls, payload: bytes) -> BucketCommits:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        columns: dict[str, Any] = {name: names_of(arrays[name]) for name in _NAMES}
        for name in (*_COUNTS, *_NARROW, *_WIDE):
            columns[name] = arrays[name].astype(np.int64, copy=False)
        return cls(until=meta["until"], **columns)

    def divided(self, buckets: int) -> Iterator[tuple[str, BucketCommits]]:
        """The commits of each of so many buckets, of topics that lie together, by state key."""
        keys = [topic_key(topic, buckets) for topic in self.topics]
        bounds = [0, *[at for at in range(1, len(keys)) if keys[at] != keys[at - 1]], len(keys)]
        ends = [list(accumulate(count.tolist(), initial=0)) for count in self._counts]
        for first, last in pairwise(bounds):
            rows, groups, ids = (slice(end[first], end[last]) for end in ends)
            yield (
                keys[first],
                replace(
                    self,
                    topics=self.topics[first:last],
                    groups=self.groups[groups],
                    topic_ids=self.topic_ids[ids],
                    **{name: getattr(self, name)[first:last] for name in _COUNTS},
                    **{name: getattr(self, name)[rows] for name in (*_NARROW, *_WIDE)},
                ),
            )

    def by_topic(self) -> Iterator[tuple[str, TopicCommits]]:
        """The commits of each topic."""
        bounds = [pairwise(accumulate(count.tolist(), initial=0)) for count in self._counts]
        for topic, (first, last), groups, ids in zip(self.topics, *bounds, strict=True):
            yield (
                topic,
                TopicCommits(
                    groups=self.groups[slice(*groups)],
                    topic_ids=self.topic_ids[slice(*ids)],
                    group=self.group[first:last],
                    partition=self.partition[first:last],
                    offset=self.offset[first:last],
                    at=self.at[first:last],
                    topic_id=self.topic_id[first:last],
                    source=self.source[first:last],
                    position=self.position[first:last],
                    until=self.until,
                ),
            )


_NAMES = ("topics", "groups", "topic_ids")
_COUNTS = ("commits", "group_count", "topic_id_count")
_NARROW = ("group", "partition", "topic_id", "source")
_WIDE = ("offset", "at", "position")


class BucketSamples(Struct, frozen=True, kw_only=True):
    """Plain samples of a bucket's topics: with an exact cut, without gaps, and no replays.

    A sample is decoded once: its record's bytes are for a sample that has to wait, be it until the
    other topics of a backlog are updated. A sample of many partitions is none: unpacked with all
    others of its row, their numbers would take much memory.
    """

    raws: Sequence[Raw]
    """At least one, all from one topic."""
    records: Sequence[OffsetsRecord]
    """The content of each."""

    @staticmethod
    def fits(raw: Raw, record: OffsetsRecord) -> bool:
        """Whether a sample is plain."""
        is_exact = record.offsets_topic_ends is not None
        is_small = len(record.begin) <= MAX_PARTITIONS
        return is_exact and is_small and record.gaps is None and not raw.replayed

    def pack(self) -> bytes:
        """The payload."""
        raws, records = self.raws, self.records
        cuts = list({record.offsets_topic_ends for record in records})
        numbers = {cut: number for number, cut in enumerate(cuts)}
        columns: Arrays = {
            "topics": names_column(tuple([record.topic for record in records])),
            "ids": names_column(tuple([record.id for record in records])),
            "at": _numbers([record.at for record in records]),
            "cut": _numbers([numbers[record.offsets_topic_ends] for record in records]),
            "partitions": _numbers([len(record.begin) for record in records]),
            "has_data_end": np.array([r.data_end is not None for r in records], np.bool_),
            "data_end": _joined([record.data_end or () for record in records]),
        }
        for name in _ENDS:
            columns[name] = _joined([getattr(record, name) for record in records])
        for name in _POSITION:
            columns[name] = _numbers([getattr(raw, name) for raw in raws])
        for name in _CONTENT:
            parts = [getattr(raw, name) for raw in raws]
            columns[f"{name}_size"] = _numbers([len(part) for part in parts])
            columns[name] = np.frombuffer(b"".join(parts), np.uint8)
        return pack({"topic": raws[0].topic, "cuts": cuts}, columns)

    @classmethod
    def unpack(cls, payload: bytes) -> BucketSamples:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        columns = zip(
            *[arrays[name].tolist() for name in _POSITION],
            *[_divided(arrays[name].tobytes(), arrays[f"{name}_size"]) for name in _CONTENT],
            strict=True,
        )
        log = meta["topic"]
        raws = [
            Raw(
                topic=log,
                partition=partition,
                offset=offset,
                timestamp=timestamp,
                key=key,
                value=value,
            )
            for partition, offset, timestamp, key, value in columns
        ]
        return cls(raws=raws, records=list(_records(meta, arrays)))


_POSITION = ("partition", "offset", "timestamp")
_CONTENT = ("key", "value")
_ENDS = ("begin", "stable", "high")


def _records(meta: Meta, arrays: Arrays) -> Iterator[OffsetsRecord]:
    """The samples of packed columns."""
    cuts = [tuple(cut) for cut in meta["cuts"]]
    sizes, has_data_end = arrays["partitions"], arrays["has_data_end"]
    columns = zip(
        names_of(arrays["topics"]),
        names_of(arrays["ids"]),
        arrays["at"].tolist(),
        arrays["cut"].tolist(),
        has_data_end.tolist(),
        _divided(tuple(arrays["data_end"].tolist()), sizes * has_data_end),
        *[_divided(tuple(arrays[name].tolist()), sizes) for name in _ENDS],
        strict=True,
    )
    for topic, id_, at, cut, has_end, data_end, begin, stable, high in columns:
        yield OffsetsRecord(
            topic=topic,
            at=at,
            id=id_,
            begin=begin,
            stable=stable,
            high=high,
            data_end=data_end if has_end else None,
            offsets_topic_ends=cuts[cut],
        )


def _numbers(numbers: list[int]) -> Int64:
    return np.array(numbers, np.int64)


def _joined(parts: Iterable[Iterable[int]]) -> Int64:
    """Lists of numbers, one after another."""
    return _numbers(list(chain.from_iterable(parts)))


def _divided(joined: _Joined, sizes: npt.NDArray[Any]) -> list[_Joined]:
    """Parts of such sizes."""
    bounds = pairwise(accumulate(sizes.tolist(), initial=0))
    return [joined[first:last] for first, last in bounds]
