"""Decoder of the records of `__consumer_offsets`, in columns: never a Python loop over commits.

Records about a group itself are rare, a few for each rebalance, and decoded one by one.

    K 0000, 0001 | i16-len group | i16-len topic | i32 partition             an offset commit
    V            its value: see `offset_commits`
    K 0002       | i16-len group             classic group metadata: see `classic_group`
    K 0003 … 0008, 0010   KIP-848 consumer groups: see `consumer_group`
    K 0009 … 0018         share and streams groups: skipped by kind

Keys repeat, so each distinct key is decoded once (Arrow's dictionary). A record that does not fit
its version becomes a rejection with its reason. Nothing in a record's bytes can raise an error
here, or make the decoder allocate more than it was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.streaming.decoding import classic_group, consumer_group, offset_commits
from levelwind.streaming.decoding.byte_columns import ByteRows, from_arrow
from levelwind.streaming.errors import UnknownVersion

if TYPE_CHECKING:
    import pyarrow as pa

    from levelwind.streaming.rules.event_time import Int64


MAX_PARTITION = 1_000_000
"""A larger partition number is garbage: it must not size an array."""

NO_KEY = "no key"
MALFORMED_KEY = "malformed key"
UNKNOWN_KEY = "unknown key version"
MALFORMED_COMMIT = "malformed commit"
UNKNOWN_COMMIT = "unknown commit version"
MALFORMED_GROUP = "malformed group metadata"
UNKNOWN_GROUP = "unknown group metadata version"
REASONS = (
    NO_KEY,
    MALFORMED_KEY,
    UNKNOWN_KEY,
    MALFORMED_COMMIT,
    UNKNOWN_COMMIT,
    MALFORMED_GROUP,
    UNKNOWN_GROUP,
)

GROUP_METADATA = 2
KEPT = (
    GROUP_METADATA,
    consumer_group.EPOCH,
    consumer_group.MEMBER,
    consumer_group.CURRENT,
    consumer_group.REGEX,
)
"""Key versions of the records that name a group's members, what they read and what they own."""
SKIPPED = {
    4: "consumer group partitions",
    6: "consumer group target epoch",
    7: "consumer group target assignment",
    9: "share group partitions",
    10: "share group member",
    11: "share group epoch",
    12: "share group target epoch",
    13: "share group target assignment",
    14: "share group current assignment",
    15: "share group state",
    17: "streams group epoch",
    18: "streams group partitions",
    19: "streams group member",
    20: "streams group target epoch",
    21: "streams group target assignment",
    22: "streams group current assignment",
    23: "streams group topology",
    24: "streams group topic ids",
}
"""By key version, the kinds of records that are only counted. Those of KIP-848 groups are decoded,
too, and rejected if they are malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedCommits:
    """Offset commits and tombstones; the columns are indexed by commit, in input order."""

    row: Int64
    """The index of the commit's record in the input."""
    key: Int64
    """A number of the commit's key: equal numbers, equal keys, within the batch."""
    group: Int64
    """An index of `groups`."""
    topic: Int64
    """An index of `topics`."""
    partition: Int64
    offset: Int64
    """The committed offset; `offset_commits.TOMBSTONE`: the commit was deleted or taken back."""
    at: Int64
    """The time in the commit, in milliseconds since the epoch; `UNKNOWN`: a tombstone has none."""
    topic_id: Int64
    """An index of `topic_ids`; `UNKNOWN`: the commit carries no topic id."""
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    topic_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """The records of the offsets topic in one batch."""

    commits: DecodedCommits
    memberships: dict[int, str]
    """By row of a record about a group's members, the group: `classic_group.decode` or
    `consumer_group.decode_value` can decode the value."""
    read_topics: dict[int, frozenset[str]]
    """By row of such a record, the topics that it says members of the group read, if any."""
    skipped: dict[str, int]
    """By kind, the number of records that are only counted."""
    rejected: dict[int, str]
    """By row, why the record could not be decoded."""


@dataclass(slots=True)
class _Keys:
    """The distinct keys; every column is indexed by key."""

    version: Int64
    group: Int64
    topic: Int64
    partition: Int64
    consumer: dict[int, str]
    """By key of a record of a KIP-848 group, the group."""
    reason: dict[int, str]
    """By malformed key, why it was rejected."""
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(slots=True)
class _Collected:
    memberships: dict[int, str] = field(default_factory=dict)
    read_topics: dict[int, frozenset[str]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)


def decode(keys: pa.Array, values: pa.Array) -> DecodedBatch:
    """Decode records whose keys and values are two binary Arrow arrays of equal length."""
    encoded = keys.dictionary_encode()
    key = np.asarray(encoded.indices.fill_null(-1), dtype=np.int64)  # by row; -1: the key is null
    distinct = _read_keys(from_arrow(encoded.dictionary))
    value_bytes = from_arrow(values)
    out = _Collected()
    version = _key_versions(out, key, distinct)
    _read_groups(out, version, key, distinct, value_bytes)
    return DecodedBatch(
        commits=_read_commits(out, version, key, distinct, value_bytes),
        memberships=out.memberships,
        read_topics=out.read_topics,
        skipped=out.skipped,
        rejected=out.rejected,
    )


def _key_versions(out: _Collected, key: Int64, distinct: _Keys) -> Int64:
    """The version of each row's key; -1: the key is null or malformed, and the row is rejected."""
    out.rejected.update(dict.fromkeys(np.flatnonzero(key < 0).tolist(), NO_KEY))
    bad = np.isin(key, np.fromiter(distinct.reason, np.int64, len(distinct.reason)))
    out.rejected.update(
        {row: distinct.reason[int(key[row])] for row in np.flatnonzero(bad).tolist()}
    )
    if not distinct.version.size:
        return np.full(key.size, -1, np.int64)
    return np.where(bad | (key < 0), -1, distinct.version[key])


def _read_groups(
    out: _Collected, version: Int64, key: Int64, distinct: _Keys, values: ByteRows
) -> None:
    """Read the records about groups themselves, one by one; count those that are only counted."""
    for row in np.flatnonzero(version == GROUP_METADATA).tolist():
        group = distinct.groups[int(distinct.group[key[row]])]
        _read_group(out, row, GROUP_METADATA, group, values)
    consumer = np.isin(version, consumer_group.KEYS)
    for row in np.flatnonzero(consumer).tolist():
        _read_group(out, row, int(version[row]), distinct.consumer[int(key[row])], values)
    others = (version > GROUP_METADATA) & ~consumer
    for other in np.unique(version[others]).tolist():
        out.skipped[SKIPPED[other]] = int(np.count_nonzero(others & (version == other)))


def _read_commits(
    out: _Collected, version: Int64, key: Int64, distinct: _Keys, values: ByteRows
) -> DecodedCommits:
    """Read the offset commits, in columns."""
    rows = np.flatnonzero((version >= 0) & (version < GROUP_METADATA))
    read = offset_commits.decode_values(values.take(rows))
    out.rejected.update(dict.fromkeys(rows[read.unknown].tolist(), UNKNOWN_COMMIT))
    out.rejected.update(dict.fromkeys(rows[read.malformed].tolist(), MALFORMED_COMMIT))
    fits = ~(read.unknown | read.malformed)
    rows = rows[fits]
    commit_key = key[rows]
    return DecodedCommits(
        row=rows,
        key=commit_key,
        group=distinct.group[commit_key],
        topic=distinct.topic[commit_key],
        partition=distinct.partition[commit_key],
        offset=read.offset[fits],
        at=read.at[fits],
        topic_id=read.topic_id[fits],
        groups=distinct.groups,
        topics=distinct.topics,
        topic_ids=read.topic_ids,
    )


def _read_group(out: _Collected, row: int, version: int, group: str, values: ByteRows) -> None:
    value = values.at(row)
    try:
        topics: frozenset[str] = frozenset()
        if value is not None and version == GROUP_METADATA:
            topics = classic_group.decode(value).topics
        elif value is not None:
            topics = consumer_group.topics_of(consumer_group.decode_value(version, value))
        if topics and group:
            out.read_topics[row] = topics
        if version in KEPT:
            out.memberships[row] = group
        else:
            out.skipped[SKIPPED[version]] = out.skipped.get(SKIPPED[version], 0) + 1
    except UnknownVersion:
        out.rejected[row] = UNKNOWN_GROUP
    except WireError:
        out.rejected[row] = MALFORMED_GROUP


def _read_keys(keys: ByteRows) -> _Keys:
    version = np.where(keys.size >= 2, keys.int16(keys.start), -1)
    commit = (version >= 0) & (version < GROUP_METADATA)
    grouped = commit | (version == GROUP_METADATA)

    group_at = keys.start + 4
    group_size = np.where(keys.size >= 4, keys.int16(keys.start + 2), -1)
    after_group = group_at + group_size
    topic_at = after_group + 2
    topic_size = np.where(topic_at <= keys.end, keys.int16(after_group), -1)
    after_topic = topic_at + topic_size
    partition = keys.int32(after_topic)
    fits_commit = (group_size >= 0) & (topic_size >= 0) & (after_topic + 4 == keys.end)
    fits_commit &= (partition >= 0) & (partition < MAX_PARTITION)
    fits_group = (group_size >= 0) & (after_group == keys.end)
    fits = np.where(commit, fits_commit, fits_group) & grouped

    groups, group = keys.intern(np.where(fits, group_at, 0), np.where(fits, group_size, 0))
    named_topic = fits & commit
    topics, topic = keys.intern(
        np.where(named_topic, topic_at, 0), np.where(named_topic, topic_size, 0)
    )
    fits &= (group >= 0) & (topic >= 0)  # -1: not UTF-8

    reason = dict.fromkeys(
        np.flatnonzero(grouped & ~fits | (keys.size < 2)).tolist(), MALFORMED_KEY
    )
    consumer = _read_consumer_keys(
        keys, np.flatnonzero(np.isin(version, consumer_group.KEYS)), reason
    )
    unknown = (keys.size >= 2) & ((version < 0) | (version > max(SKIPPED)))
    reason.update(dict.fromkeys(np.flatnonzero(unknown).tolist(), UNKNOWN_KEY))
    return _Keys(version, group, topic, partition, consumer, reason, groups, topics)


def _read_consumer_keys(keys: ByteRows, rows: Int64, reason: dict[int, str]) -> dict[int, str]:
    groups: dict[int, str] = {}
    for row in rows.tolist():
        try:
            groups[row] = consumer_group.decode_key(keys.slice(row, int(keys.start[row]))).group
        except WireError:
            reason[row] = MALFORMED_KEY
    return groups
