"""A binary Arrow array as NumPy columns, and big-endian reads at one position of each row.

A read beyond the bytes gives some number, never an error: the caller tests whether a position lies
in its row, in columns too. All positions are indices into one buffer.
"""

# ruff: noqa: D102 - the names are those of Kafka's types.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    from levelwind.streaming.rules.event_time import Int64, Mask


WIDEST = 8
VARINT_BYTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRows:
    """Rows of bytes; every column is indexed by row."""

    data: npt.NDArray[np.uint8]
    """The buffer that holds the bytes of all rows."""
    start: Int64
    """The position of each row's first byte."""
    size: Int64
    """The number of bytes of each row; -1: the row is null."""

    @property
    def end(self) -> Int64:
        return self.start + np.maximum(self.size, 0)

    @property
    def is_null(self) -> Mask:
        return self.size < 0

    def take(self, rows: Int64) -> ByteRows:
        """Some rows, in their order."""
        return ByteRows(data=self.data, start=self.start[rows], size=self.size[rows])

    def at(self, row: int) -> bytes | None:
        """One row's bytes."""
        return None if self.size[row] < 0 else self.slice(row, int(self.start[row]))

    def slice(self, row: int, start: int) -> bytes:
        """One row's bytes from a position on."""
        return self.data[start : int(self.end[row])].tobytes()

    def uint8(self, positions: Int64) -> Int64:
        return self._read("|u1", 1, positions)

    def int16(self, positions: Int64) -> Int64:
        return self._read(">i2", 2, positions)

    def int32(self, positions: Int64) -> Int64:
        return self._read(">i4", 4, positions)

    def int64(self, positions: Int64) -> Int64:
        return self._read(">i8", 8, positions)

    def _read(self, dtype: str, width: int, positions: Int64) -> Int64:
        # A view with an item at every byte, so that one gather reads at any positions.
        at_every_byte = np.ndarray((self.data.size - width + 1,), dtype, self.data, strides=(1,))
        return at_every_byte[np.clip(positions, 0, at_every_byte.size - 1)].astype(np.int64)

    def uvarint(self, positions: Int64) -> tuple[Int64, Int64]:
        """The numbers at some positions and the bytes that each takes; -1 and 0: it is too long."""
        value = np.zeros(positions.size, np.int64)
        width = np.zeros(positions.size, np.int64)
        more = np.ones(positions.size, np.bool_)
        for position in range(VARINT_BYTES):
            byte = self.uint8(positions + position)
            value = np.where(more, value | (byte & 0x7F) << (7 * position), value)
            width += more
            more = more & (byte >= 0x80)
            if not more.any():
                break
        return np.where(more, -1, value), np.where(more, 0, width)

    def intern(self, start: Int64, size: Int64) -> tuple[tuple[str, ...], Int64]:
        """The distinct texts among slices, and the index of each slice's text; -1: no UTF-8."""
        found, index = self.intern_bytes(start, size)
        texts = [_text(name) for name in found]
        is_utf8 = np.array([text is not None for text in texts], np.bool_)
        if is_utf8.all():
            return tuple(text or "" for text in texts), index
        return tuple(text or "" for text in texts), np.where(is_utf8[index], index, -1)

    def intern_bytes(self, start: Int64, size: Int64) -> tuple[tuple[bytes, ...], Int64]:
        """The distinct byte strings among slices, and for each slice the index of its string."""
        if not start.size:
            return (), np.zeros(0, np.int64)
        ends = np.cumsum(size)
        # The position of each byte to gather: its slice's start plus its distance from that.
        positions = np.repeat(start - (ends - size), size) + np.arange(int(ends[-1]))
        offsets = np.concatenate([[0], ends]).astype(np.int64)
        gathered = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            start.size,
            [None, pa.py_buffer(offsets), pa.py_buffer(self.data[positions])],
        )
        distinct = gathered.dictionary_encode()
        return tuple(distinct.dictionary.to_pylist()), np.asarray(distinct.indices, dtype=np.int64)


def from_arrow(array: Any) -> ByteRows:
    """The rows of a binary (or large binary) Arrow array, without copying its data."""
    validity, offsets, data = array.buffers()
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    count = len(array)
    bounds = np.zeros(1, np.int64)
    if offsets is not None and count:
        bounds = np.frombuffer(
            offsets, width, count + 1, array.offset * np.dtype(width).itemsize
        ).astype(np.int64)
    size = np.diff(bounds)
    if validity is not None and array.null_count:
        size = np.where(np.asarray(array.is_null()), -1, size)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if raw.size < WIDEST:  # the widest read must fit the buffer
        raw = np.concatenate([raw, np.zeros(WIDEST - raw.size, np.uint8)])
    return ByteRows(data=raw, start=bounds[:-1], size=size)


def _text(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None
