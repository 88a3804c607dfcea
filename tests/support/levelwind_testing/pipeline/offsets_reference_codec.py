"""A naive decoder of `__consumer_offsets`, record by record as specified, and a writer."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    key: bytes
    value: bytes | None
    timestamp: int

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        value = line["value"]
        return cls(
            key=bytes.fromhex(line["key"]),
            value=None if value is None else bytes.fromhex(value),
            timestamp=line["timestamp"],
        )


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def compact(raw: bytes) -> bytes:
    return uvarint(len(raw) + 1) + raw


def commit_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    return struct.pack(">h", version) + string(group) + string(topic) + struct.pack(">i", partition)


def group_key(group: str) -> bytes:
    return struct.pack(">h", 2) + string(group)


def commit_value(
    offset: int,
    at: int,
    version: int = 4,
    metadata: str = "",
    tags: tuple[tuple[int, bytes], ...] = (),
) -> bytes:
    out = struct.pack(">hq", version, offset)
    if version >= 3:
        out += struct.pack(">i", -1)
    out += compact(metadata.encode()) if version >= 4 else string(metadata)
    out += struct.pack(">q", at)
    if version == 1:
        out += struct.pack(">q", at + 1)
    if version >= 4:
        out += uvarint(len(tags)) + b"".join(
            uvarint(tag) + uvarint(len(raw)) + raw for tag, raw in tags
        )
    return out


class RefusedError(Exception):
    pass


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise RefusedError
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str) -> int:
        return int(struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0])

    def uvarint(self) -> int:
        value = 0
        for index in range(5):
            byte = self.number("B")
            value |= (byte & 127) << 7 * index
            if byte < 128:
                return value
        raise RefusedError

    def text(self) -> str:
        try:
            return self.take(self.number("h")).decode()
        except UnicodeDecodeError:
            raise RefusedError from None

    def end(self) -> None:
        if self.at != len(self.data):
            raise RefusedError


def key(data: bytes | None) -> tuple[Any, ...]:
    """Decode a key.

    The result is ("commit", group, topic, partition), ("group", group), ("skipped", version) or
    ("rejected", reason).
    """
    if data is None:
        return ("rejected", "no key")
    cursor = Cursor(data)
    try:
        version = cursor.number("h")
        if version in (0, 1):
            read = ("commit", cursor.text(), cursor.text(), cursor.number("i"))
            cursor.end()
            return read if 0 <= read[3] < 1_000_000 else ("rejected", "malformed key")
        if version == 2:
            group = cursor.text()
            cursor.end()
            return ("group", group)
        if version in {3, 4, 5, 6, 7, 8, 16}:
            group = cursor.text()
            if version in {5, 7, 8, 16}:
                cursor.text()
            cursor.end()
            return ("group", group)
    except RefusedError:
        return ("rejected", "malformed key")
    return ("skipped", version) if 3 <= version <= 24 else ("rejected", "unknown key version")


def commit(data: bytes | None) -> tuple[Any, ...]:
    """Decode a value; a negative offset is none.

    The result is ("commit", offset, time, topic id or None), ("tombstone",) or ("rejected",
    reason).
    """
    if data is None:
        return ("tombstone",)
    cursor = Cursor(data)
    try:
        version = cursor.number("h")
        if not 0 <= version <= 4:
            return ("rejected", "unknown commit version")
        offset = cursor.number("q")
        if version >= 3:
            cursor.take(4)
        cursor.take(cursor.uvarint() - 1 if version >= 4 else cursor.number("h"))
        at = cursor.number("q")
        if version == 1:
            cursor.take(8)
        tags = {}
        if version >= 4:
            for _ in range(cursor.uvarint()):
                tag = cursor.uvarint()
                tags[tag] = cursor.take(cursor.uvarint())
        cursor.end()
    except RefusedError:
        return ("rejected", "malformed commit")
    if not -1 <= at <= 2**52 or len(tags.get(0, bytes(16))) != 16:
        return ("rejected", "malformed commit")
    if offset < 0:
        return ("tombstone",)
    return ("commit", offset, at, tags.get(0))
