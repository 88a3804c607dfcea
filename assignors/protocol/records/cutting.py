"""Cutting of records that are too large for one message into shards, and their heads."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec.structs import asdict, replace

from levelwind.assignors.protocol import canonical_json
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.declared.declaration import canonical, written
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records.cut import (
    MOST_SHARDS,
    Cut,
    CutRecord,
    TextShard,
    text_digest,
)
from levelwind.assignors.protocol.records.planned_group import (
    GroupRecord,
    PlannedMember,
    PlannedTopic,
)
from levelwind.assignors.protocol.records.shards import GroupShard, MemberShard, PlanShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from levelwind.assignors.protocol.declared.fields import Key
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records.planner import MemberAssignment
    from levelwind.assignors.protocol.records.shards import Head, Shard

Item = TypeVar("Item")
Run: TypeAlias = "tuple[str, str, Sequence[int]]"
"""Partitions of one topic, after the name of a share and the topic."""

WHOLE_BYTES = 512 * 1024
"""Largest JSON of a record that is not cut, and of a shard of several parts.

Brokers accept messages of 1 MiB by default, and clients send messages of up to 1,000,000 bytes.
"""

TOPIC_BYTES = 900_000
"""Largest JSON of one planned topic: of a larger one the racks are left out."""

PARTITION_CHARACTERS = 11
"""Most characters of a partition in ranges: ten digits and a comma."""

RUN_PARTITIONS = 40_000
"""Most partitions of one topic that are kept together."""

LEAST_PIECE_BYTES = 64
"""Least room for a piece of text in a shard; a message with it has room for the head, too."""

ASSIGNMENT_FIELDS = ("assigned", "pending", "revoking")


def cut(record: Head) -> tuple[Shard | Head, ...]:
    """The records to write for a record: the record, or its shards and then its head.

    A record that cannot be written as JSON stays whole: whoever encodes it gets the error.
    """
    try:
        return _cut_plan(record) if isinstance(record, GroupRecord) else _cut_assignment(record)
    except WireError:
        return (record,)


def _cut_plan(record: GroupRecord) -> tuple[Shard | Head, ...]:
    if _size(written(record)) <= WHOLE_BYTES:
        return (record,)
    topics = [(name, _bounded(topic)) for name, topic in record.topics.items()]
    contents = [
        *((dict(part), ()) for part in _parts(topics, lambda named: _size(written(named[1])))),
        *(({}, part) for part in _parts(record.members, _member_size)),
    ]
    shards = [
        GroupShard(group=record.group, shard=number, digest="", topics=topics, members=members)
        for number, (topics, members) in enumerate(contents)
    ]
    digest = _digest(map(_undigested, shards))
    shards = [replace(shard, digest=digest) for shard in shards]
    head = replace(record, topics={}, members=(), shards=Cut(count=len(shards), digest=digest))
    return (*shards, head)


def _bounded(topic: PlannedTopic) -> PlannedTopic:
    """A planned topic, without its racks if they do not fit into a message."""
    return topic if _size(written(topic)) <= TOPIC_BYTES else replace(topic, racks=None)


def _member_size(member: PlannedMember) -> int:
    # The subscription of a member may be written for it alone.
    return _size(written(replace(member, topics=None))) + _size(member.topics)


def _cut_assignment(record: MemberAssignment) -> tuple[Shard | Head, ...]:
    sets = [getattr(record, name) for name in ASSIGNMENT_FIELDS]
    longest = sum(
        _size(topic) + PARTITION_CHARACTERS * len(numbers)
        for partitions in sets
        for topic, numbers in partitions.items()
    ) + _size(record.new_from)
    if longest <= WHOLE_BYTES or _size(written(record)) <= WHOLE_BYTES:
        return (record,)
    nothing: dict[str, Partitions] = {name: {} for name in ASSIGNMENT_FIELDS}
    runs = _runs(zip(ASSIGNMENT_FIELDS, sets, strict=True))
    contents = [{**nothing, **_content(part)} for part in _parts(runs, _run_size)]
    digest = _digest(map(_in_ranges, contents))
    shards = [
        MemberShard(
            group=record.group,
            instance=record.instance,
            incarnation=record.incarnation,
            shard=number,
            digest=digest,
            **content,
        )
        for number, content in enumerate(contents)
    ]
    head = replace(
        record,
        assigned={},
        pending={},
        revoking={},
        shards=Cut(count=len(shards), digest=digest),
    )
    return (*shards, head)


def cut_assignments(
    group: str, group_epoch: int, assignments: Mapping[str, Partitions]
) -> tuple[tuple[PlanShard, ...], Cut]:
    """The shards of a plan's assignment, at least one, and the plan's reference to them.

    Args:
        group: the group's name.
        group_epoch: epoch of the plan.
        assignments: partitions by member.
    """
    runs = _runs(
        (member, dict(sorted(share.items()))) for member, share in sorted(assignments.items())
    )
    parts = _parts(runs, lambda run: _size(run[0]) + _run_size(run))
    contents = [_content(part) for part in parts] or [{}]
    digest = _digest([{"group": group, "group_epoch": group_epoch}, *map(_in_ranges, contents)])
    shards = tuple(
        PlanShard(
            group=group,
            shard=number,
            group_epoch=group_epoch,
            digest=digest,
            assignments=content,
        )
        for number, content in enumerate(contents)
    )
    return shards, Cut(count=len(shards), digest=digest)


def cut_text(key: Key, value: bytes, most_bytes: int) -> tuple[TextShard | CutRecord, ...]:
    """The shards of a record's value, then its head; the head alone where no shard has room.

    Args:
        key: the record's key.
        value: its value, canonical JSON.
        most_bytes: the most that key and value of a message may have together.
    """
    digest = text_digest(value)
    empty = TextShard(head_key=key, shard=MOST_SHARDS, digest=digest, text="")
    room = most_bytes - _size(empty.key) - _size(written(empty))
    pieces = _pieces(value.decode(), room) if room >= LEAST_PIECE_BYTES else []
    if not 0 < len(pieces) <= MOST_SHARDS:
        return (CutRecord(head_key=key, bytes=len(value), shards=None),)
    shards = [
        TextShard(head_key=key, shard=number, digest=digest, text=piece)
        for number, piece in enumerate(pieces)
    ]
    cut = Cut(count=len(shards), digest=digest)
    return (*shards, CutRecord(head_key=key, bytes=len(value), shards=cut))


def _pieces(text: str, most_bytes: int) -> list[str]:
    """Split a JSON text, so that each piece has at most so many bytes as a string in JSON.

    Such a text has no control characters, so that only quotes and backslashes become escapes.
    """
    escaped = canonical(text)[1:-1]
    bounds = [0]
    while bounds[-1] < len(escaped):
        bounds.append(_bound(escaped, bounds[-1], bounds[-1] + most_bytes))
    return [
        str(canonical_json.loads(b'"%b"' % escaped[first:end])) for first, end in pairwise(bounds)
    ]


def _bound(escaped: bytes, first: int, at: int) -> int:
    """The last bound up to `at`, after `first`, that divides neither a character nor an escape."""
    if at >= len(escaped):
        return len(escaped)
    while escaped[at] & 0xC0 == 0x80:
        at -= 1
    backslashes = at - first - len(escaped[first:at].rstrip(b"\\"))
    return at - backslashes % 2


def _runs(shares: Iterable[tuple[str, Partitions]]) -> Iterator[Run]:
    """Partitions of one topic each that stay together, with the name of their share."""
    for name, partitions in shares:
        for topic, numbers in partitions.items():
            for first in range(0, len(numbers), RUN_PARTITIONS):
                yield name, topic, numbers[first : first + RUN_PARTITIONS]


def _run_size(run: Run) -> int:
    _, topic, numbers = run
    return _size(topic) + PARTITION_CHARACTERS * len(numbers)


def _content(runs: Iterable[Run]) -> dict[str, Partitions]:
    """The shares of some runs, by name."""
    content: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, topic, numbers in runs:
        share = content.setdefault(name, {})
        share[topic] = (*share.get(topic, ()), *numbers)
    return dict(content)


def _in_ranges(content: Mapping[str, Partitions]) -> dict[str, object]:
    """A shard's shares as they are written."""
    return {name: ranges.texts(share) for name, share in content.items()}


def _parts(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[tuple[Item, ...]]:
    """Split items, in their order, into parts of at most `WHOLE_BYTES` or of one item."""
    part: list[Item] = []
    filled = 0
    for item in items:
        needed = size(item)
        if part and filled + needed > WHOLE_BYTES:
            yield tuple(part)
            part, filled = [], 0
        part.append(item)
        filled += needed
    if part:
        yield tuple(part)


def _size(document: object) -> int:
    return len(canonical(document)) + 1  # and a comma


def _undigested(shard: GroupShard) -> dict[str, object]:
    """The contents of a plan's shard."""
    held = asdict(written(shard))
    del held["v"], held["digest"]
    return held


def _digest(contents: Iterable[object]) -> str:
    return hashlib.sha256(b"\n".join(map(canonical, contents))).hexdigest()
