"""Kafka's scalar wire types: reading them from untrusted bytes, and writing them.

Guarantees: every length is checked against the remaining bytes before it is used, so that a few
foreign bytes never claim more memory than they have. What does not fit raises `WireError`.

This module is for rare records, such as a member's subscription or a group's metadata; offset
commits are read in columns by `levelwind.streaming.decoding.offsets_topic`.
"""

# ruff: noqa: D102, D103 - the names are those of Kafka's types.

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from levelwind.assignors.protocol.partition_ranges import Partitions

Item = TypeVar("Item")

MAX_VARINT_BYTES = 5
MAX_STRING_BYTES = 2**15 - 1
"""Most bytes of a string: its length is an int16."""
MIN_TOPIC_BYTES = 6
"""Least bytes of a topic with partitions: the lengths of its name and of its list."""


class Reader:
    """Read position in untrusted bytes; every method raises `WireError` for what does not fit."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        if size < 0:
            raise WireError(f"a length of {size}")
        if size > self.left:
            raise WireError(f"truncated: {size} bytes wanted, {self.left} left")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    @property
    def left(self) -> int:
        """Number of bytes that are still to be read."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """The next bytes, whatever they are."""
        return self._take(size)

    def same(self, expected: bytes) -> bytes | None:
        """Some bytes if they come next, which are then read; else None."""
        if not self._data.startswith(expected, self._at):
            return None
        self._at += len(expected)
        return expected

    def ahead(self) -> Reader:
        """Another reader at the same position."""
        other = Reader(self._data)
        other._at = self._at
        return other

    def end(self) -> None:
        """Raise `WireError` if any bytes follow."""
        if self.left:
            raise WireError(f"{self.left} trailing bytes")

    def int8(self) -> int:
        return int(struct.unpack(">b", self._take(1))[0])

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def int64(self) -> int:
        return int(struct.unpack(">q", self._take(8))[0])

    def uuid(self) -> bytes:
        return self._take(16)

    def uvarint(self) -> int:
        value = 0
        for index in range(MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise WireError("varint too long")

    def string(self, *, compact: bool = False) -> str:
        text = self.nullable_string(compact=compact)
        if text is None:
            raise WireError("null where a string is required")
        return text

    def nullable_string(self, *, compact: bool = False) -> str | None:
        size = self.uvarint() - 1 if compact else self.int16()
        if size == -1:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise WireError("a string that is not UTF-8") from None

    def nullable_bytes(self, *, compact: bool = False) -> bytes | None:
        size = self.uvarint() - 1 if compact else self.int32()
        return None if size == -1 else self._take(size)

    def array(
        self, item: Callable[[], Item], *, compact: bool = False, min_bytes: int = 1
    ) -> tuple[Item, ...]:
        """Items of at least `min_bytes` each."""
        size = self.uvarint() - 1 if compact else self.int32()
        return tuple(item() for _ in range(self._checked(size, min_bytes)))

    def int32s(self) -> tuple[int, ...]:
        size = self._checked(self.int32(), 4)
        return struct.unpack(f">{size}i", self._take(4 * size))

    def _checked(self, size: int, min_bytes: int) -> int:
        if size < 0:
            raise WireError(f"an array of {size}")
        if size * min_bytes > self.left:
            raise WireError(f"an array of {size} is longer than its record: {self.left} bytes left")
        return size

    def tags(self) -> dict[int, bytes]:
        count = self._checked(self.uvarint(), 2)
        return {self.uvarint(): self._take(self.uvarint()) for _ in range(count)}

    def topic_partitions(self) -> dict[str, tuple[int, ...]]:
        """Distinct, ascending partitions by topic.

        A topic that is named twice is merged; a topic without partitions is left out.
        """
        read: dict[str, tuple[int, ...]] = {}
        for topic, partitions in self.array(
            lambda: (self.string(), self.int32s()), min_bytes=MIN_TOPIC_BYTES
        ):
            read[topic] = read[topic] + partitions if topic in read else partitions
        return {
            topic: tuple(sorted(set(partitions)))
            for topic, partitions in read.items()
            if partitions
        }


def int16(value: int) -> bytes:
    return _packed(">h", value)


def int32(value: int) -> bytes:
    return _packed(">i", value)


def string(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"cannot be written: {error}") from None
    if len(raw) > MAX_STRING_BYTES:
        raise WireError(
            f"cannot be written: a string of {len(raw)} bytes, more than {MAX_STRING_BYTES}"
        )
    return int16(len(raw)) + raw


def nullable_string(text: str | None) -> bytes:
    return int16(-1) if text is None else string(text)


def nullable_bytes(raw: bytes | None) -> bytes:
    return int32(-1) if raw is None else int32(len(raw)) + raw


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string(text: str | None) -> bytes:
    """A string of Kafka's flexible encoding, or its null."""
    if text is None:
        return b"\0"
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def compact_array(items: Sequence[bytes]) -> bytes:
    """An array of Kafka's flexible encoding."""
    return uvarint(len(items) + 1) + b"".join(items)


def array(items: Sequence[bytes]) -> bytes:
    return int32(len(items)) + b"".join(items)


def topic_partitions(partitions: Partitions, topics: Sequence[str]) -> bytes:
    """The topics in the given order, each with its partitions ascending.

    A topic without partitions is left out.
    """
    return array(
        [
            string(topic) + _int32s(sorted(partitions[topic]))
            for topic in topics
            if partitions[topic]
        ]
    )


def _int32s(values: Sequence[int]) -> bytes:
    try:
        return int32(len(values)) + struct.pack(f">{len(values)}i", *values)
    except struct.error as error:
        raise WireError(f"cannot be written: {error}") from None


def _packed(form: str, value: int) -> bytes:
    try:
        return struct.pack(form, value)
    except struct.error as error:
        raise WireError(f"cannot be written: {value!r}: {error}") from None
