"""Reading Kafka's scalar wire types one after another, with every length checked against what is left.

For the rare records (group membership); offset commits are read in columns by `offsets_topic`.
"""

# ruff: noqa: D102 - the names are those of Kafka's types.

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Item = TypeVar("Item")

MAX_VARINT_BYTES = 5


class Malformed(ValueError):  # noqa: N818 - a verdict on a peer's bytes, turned into a rejection by whoever reads
    """The bytes are not what their version says."""


class Reader:
    """A position in bytes that are not trusted."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        if size < 0 or size > self.left:
            raise Malformed("truncated")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return len(self._data) - self._at

    def end(self) -> None:
        """Nothing may follow."""
        if self.left:
            raise Malformed("trailing bytes")

    def int8(self) -> int:
        return int(struct.unpack(">b", self._take(1))[0])

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def int64(self) -> int:
        return int(struct.unpack(">q", self._take(8))[0])

    def uvarint(self) -> int:
        value = 0
        for place in range(MAX_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise Malformed("varint too long")

    def string(self, *, compact: bool = False) -> str:
        text = self.nullable_string(compact=compact)
        if text is None:
            raise Malformed("null where a string must be")
        return text

    def nullable_string(self, *, compact: bool = False) -> str | None:
        size = self.uvarint() - 1 if compact else self.int16()
        if size == -1:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise Malformed("not UTF-8") from None

    def nullable_bytes(self, *, compact: bool = False) -> bytes | None:
        size = self.uvarint() - 1 if compact else self.int32()
        return None if size == -1 else self._take(size)

    def array(self, item: Callable[[], Item], *, compact: bool = False) -> tuple[Item, ...]:
        size = self.uvarint() - 1 if compact else self.int32()
        if size < 0 or size > self.left:  # no item is shorter than a byte
            raise Malformed("array longer than its record")
        return tuple(item() for _ in range(size))

    def tags(self) -> dict[int, bytes]:
        count = self.uvarint()
        if count > self.left:
            raise Malformed("more tags than bytes")
        return {self.uvarint(): self._take(self.uvarint()) for _ in range(count)}
