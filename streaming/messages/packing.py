"""Columns as one binary value, for the rows between the operators and for the state store.

A value is a version byte, a byte that tells how its content is compressed, the lengths of two JSON
heads (u32, big-endian), the heads, and the content: the bytes of the arrays, little-endian, in the
order of the second head. The first head holds the metadata. The second names each array with its
type and length, so that a value explains itself and no class is needed to read it; nothing in a
value is ever executed. The second head stands alone because it nearly always repeats: then it is
neither written nor parsed again. Reading trusts no value: one whose shape is wrong raises
`PackingError`.

A longer array of whole numbers that lie close together is written in a narrower type, as the
differences from the least one; the second head then has that type, too, and the least numbers come
first among the arrays' bytes. Equal numbers take no bytes at all. Longer content is compressed.
What is stored and handed on costs more for each byte than this does: Spark copies each several
times, and hands a state to Python one character at a time.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from levelwind.streaming.messages.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

Meta: TypeAlias = dict[str, Any]
Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"
Shape: TypeAlias = tuple[str, np.dtype[Any], int, str]

VERSION = 4
HEAD = struct.Struct(">BBII")
Codec: TypeAlias = Literal["lz4_raw", "zstd"]
CODECS: tuple[Codec | None, ...] = None, "lz4_raw", "zstd"
"""How content is compressed, by the number that tells so."""
LEAST_COMPRESSED, LEAST_DENSE, MAX_COMPRESSED = 2**12, 2**17, 2**31
"""The sizes in bytes from which content is compressed, from which it may be by zstd, whose every
call takes 0.1 ms, and up to which."""
TYPES = {name: np.dtype(name) for name in ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")}
WHOLE_NUMBERS = {TYPES["<i4"], TYPES["<i8"]}
"""Types that may be written in a narrower one."""
EQUAL, MAX_EQUAL = "=", 2**24
"""The narrower type of numbers that are all the same, and how many of them it may stand for."""
NARROWER: dict[int, np.dtype[Any]] = {
    1 << 8: np.dtype("|u1"),
    1 << 16: np.dtype("<u2"),
    1 << 32: np.dtype("<u4"),
}
"""By the end of its range, each narrower type; ascending."""
STORED: dict[str, np.dtype[Any] | None] = {dtype.str: dtype for dtype in NARROWER.values()}
STORED[EQUAL] = None
"""By its name, each narrower type; None: nothing is stored."""
LEAST_NARROWED = 64
"""Length from which an array is narrowed: of a shorter one the search would cost more."""
LEAST = np.dtype("<i8")
"""Type of the least number of a narrowed array."""
REMEMBERED_HEADS, MAX_ARRAYS, MAX_HEAD = 32, 2**13, 2**18
"""The number of long second heads that are remembered, and the arrays and bytes of one."""
REMEMBERED_LISTS, MAX_REMEMBERED = 64, 2**16
"""The number of lists of names that are remembered, and the characters of one."""

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_DAMAGE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class PackingError(ValueError):
    """The value is damaged, or another version of `pack` wrote it."""


def pack(
    meta: Mapping[str, Any] | Struct,
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    dense: bool = False,
) -> bytes:
    """Pack some JSON-able `meta` and one-dimensional `arrays`.

    Args:
        meta: what explains the arrays; finite numbers alone, of 64 bits.
        arrays: columns, by name.
        dense: whether each byte costs as much as one of a state does. Long content is then
            compressed by zstd, which takes three times LZ4's CPU for a third of the bytes.
    """
    meta_head = _encode(meta)
    named: list[Shape] = []
    least: list[int] = []
    content: list[bytes] = []
    for name, array in arrays.items():
        stored = ""
        if array.size >= LEAST_NARROWED and array.dtype in WHOLE_NUMBERS:
            low, high = int(array.min()), int(array.max())
            stored, narrowed = _narrowed(array, low, high - low)
            if stored:
                least.append(low)
            content.append(narrowed)
        else:
            content.append(array.tobytes())
        named.append((name, array.dtype, array.size, stored))
    return _finished(
        meta_head,
        _written(tuple(named)),
        b"".join([np.array(least, LEAST).tobytes(), *content]),
        dense=dense,
    )


def pack_alike(
    metas: Sequence[Mapping[str, Any] | Struct],
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    dense: bool = False,
) -> list[bytes]:
    """What `pack` gives for each of some values, whose arrays are the rows of matrices.

    Args:
        metas: what explains the arrays of each value.
        arrays: matrices by name, at least one.
        dense: see `pack`.
    """
    stored = [_stored_types(matrix) for matrix in arrays.values()]
    alike: dict[tuple[str, ...], list[int]] = {}
    for row, types in enumerate(zip(*stored, strict=True)):
        alike.setdefault(types, []).append(row)
    values = [b""] * len(metas)
    for types, rows in alike.items():
        if len(rows) == 1:
            (row,) = rows
            alone = {name: matrix[row] for name, matrix in arrays.items()}
            values[row] = pack(metas[row], alone, dense=dense)
            continue
        some = arrays
        if len(rows) < len(metas):
            some = {name: matrix[rows] for name, matrix in arrays.items()}
        shapes = _written(
            tuple(
                [
                    (name, matrix.dtype, matrix.shape[1], type_)
                    for (name, matrix), type_ in zip(some.items(), types, strict=True)
                ]
            )
        )
        contents = _contents(list(some.values()), types, len(rows))
        for row, content in zip(rows, contents, strict=True):
            values[row] = _finished(_encode(metas[row]), shapes, content, dense=dense)
    return values


def _stored_types(matrix: npt.NDArray[Any]) -> list[str]:
    """By row, the type that it is written in; empty: its own."""
    rows, count = matrix.shape
    if count < LEAST_NARROWED or matrix.dtype not in WHOLE_NUMBERS:
        return [""] * rows
    low, high = matrix.min(axis=1).tolist(), matrix.max(axis=1).tolist()
    return [
        _stored_type(last - first, count, matrix.dtype)
        for first, last in zip(low, high, strict=True)
    ]


def _stored_type(span: int, count: int, own: np.dtype[Any]) -> str:
    """The type that so many numbers are written in, whose least and greatest are so far apart."""
    if span == 0 and count <= MAX_EQUAL:
        return EQUAL
    for end, dtype in NARROWER.items():
        if span < end and dtype.itemsize < own.itemsize:
            return str(dtype.str)
    return ""


def _contents(matrices: Sequence[npt.NDArray[Any]], types: Sequence[str], rows: int) -> list[bytes]:
    """The content of each row: the least numbers of what is written in another type, then all."""
    least: list[npt.NDArray[Any]] = []
    parts: list[npt.NDArray[Any]] = []
    for matrix, name in zip(matrices, types, strict=True):
        if not name:
            parts.append(matrix)
            continue
        low = matrix.min(axis=1)[:, None]
        least.append(low.astype(LEAST))
        if (narrower := STORED[name]) is not None:
            parts.append((matrix - low).astype(narrower))
    columns = [np.ascontiguousarray(part).view(np.uint8) for part in (*least, *parts)]
    together = np.concatenate(columns, axis=1)
    content: bytes = together.tobytes()
    size = together.shape[1]
    return [content[row * size : (row + 1) * size] for row in range(rows)]


def _finished(meta_head: bytes, shapes: bytes, content: bytes, *, dense: bool) -> bytes:
    """A value of its parts, compressed if it is long."""
    codec: Codec | None = None
    if LEAST_COMPRESSED <= len(content) <= MAX_COMPRESSED:
        codec = "zstd" if dense and len(content) >= LEAST_DENSE else "lz4_raw"
        content = pa.compress(content, codec=codec, asbytes=True)
    head = HEAD.pack(VERSION, CODECS.index(codec), len(meta_head), len(shapes))
    return b"".join([head, meta_head, shapes, content])


@remembered(REMEMBERED_LISTS, MAX_REMEMBERED, size=lambda names: sum(map(len, names)))
def names_column(names: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    """Names as an array, which is written once for a list that comes again batch after batch."""
    return np.frombuffer(_encode(names), np.uint8)


def names_of(column: npt.NDArray[Any]) -> tuple[str, ...]:
    """The names of an array; those of equal arrays are one tuple as long as it is remembered.

    Raises:
        PackingError: the array is damaged.
    """
    try:
        return _names_of(column.tobytes())
    except _DAMAGE as error:
        raise PackingError(f"unreadable names: {error}") from error


def lines_column(texts: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Texts without line breaks, as JSON is, as an array."""
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def lines_of(column: npt.NDArray[Any], count: int) -> list[str]:
    """The texts of an array, so many of them."""
    return column.tobytes().decode().split("\n") if count else []


@remembered(REMEMBERED_LISTS, MAX_REMEMBERED)
def _names_of(content: bytes) -> tuple[str, ...]:
    return _decode_names(content)


def _narrowed(array: npt.NDArray[Any], low: int, span: int) -> tuple[str, bytes]:
    """The type that an array is written in, empty if it is its own, and the bytes."""
    name = _stored_type(span, array.size, array.dtype)
    if not name:
        return name, array.tobytes()
    if (narrower := STORED[name]) is None:
        return name, b""
    return name, (array - array.dtype.type(low)).astype(narrower).tobytes()


@remembered(REMEMBERED_HEADS, MAX_ARRAYS)
def _written(shapes: tuple[Shape, ...]) -> bytes:
    return _encode(
        [
            [name, dtype.str, size, stored] if stored else [name, dtype.str, size]
            for name, dtype, size, stored in shapes
        ]
    )


def unpack(value: bytes) -> tuple[Meta, Arrays]:
    """The metadata and the arrays that `pack` received; the arrays are read-only.

    Raises:
        PackingError: the value is damaged, or another version's.
    """
    meta, shapes, content, first = _parts(value)
    return meta, _arrays(shapes, content, first)


def _arrays(shapes: bytes, content: bytes, first: int) -> Arrays:
    """The arrays of a content, which begin somewhere in it."""
    arrays, narrowed, _ = _layout(shapes)
    least = iter(np.frombuffer(content, LEAST, narrowed, first))
    return {
        name: np.frombuffer(content, dtype, count, first + at)
        if not stored
        else _widened(content, STORED[stored], dtype, count, first + at, next(least))
        for name, dtype, count, stored, at in arrays
    }


class AlikeValues(NamedTuple):
    """Values whose arrays have the same names, types and lengths."""

    indices: list[int]
    """Which of the values that were unpacked."""
    metas: list[Any]
    arrays: Arrays
    """Matrices by name, with a row for each of the values."""


def unpack_alike(
    values: Sequence[bytes], decode: Callable[[bytes], Any] = _decode
) -> Iterator[AlikeValues]:
    """What `unpack` gives for each of some values, those that are alike together.

    Args:
        values: what `pack` gave.
        decode: decodes the metadata, as a decoder of msgspec's for JSON does.

    Raises:
        PackingError: a value is damaged, or another version's.
    """
    alike: dict[bytes, list[int]] = {}
    parts = [_parts(value, decode) for value in values]
    for index, (_, shapes, _, _) in enumerate(parts):
        alike.setdefault(shapes, []).append(index)
    for shapes, indices in alike.items():
        metas = [parts[index][0] for index in indices]
        if len(indices) == 1:
            single = _arrays(*parts[indices[0]][1:])
            yield AlikeValues(indices, metas, {name: a[None, :] for name, a in single.items()})
        else:
            contents = [parts[index][2][parts[index][3] :] for index in indices]
            yield AlikeValues(indices, metas, _matrices(shapes, contents))


def _matrices(shapes: bytes, contents: Sequence[bytes]) -> Arrays:
    """The arrays of some contents with the same second head."""
    arrays, narrowed, size = _layout(shapes)
    content = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), size)

    def column(dtype: np.dtype[Any], count: int, at: int) -> npt.NDArray[Any]:
        wanted = content[:, at : at + count * dtype.itemsize]
        return np.ascontiguousarray(wanted).view(dtype)

    least = iter(column(LEAST, narrowed, 0).T[:, :, None])
    matrices: Arrays = {}
    for name, dtype, count, stored, at in arrays:
        if not stored:
            matrices[name] = column(dtype, count, at)
        elif (narrow := STORED[stored]) is None:
            matrices[name] = np.repeat(next(least), count, axis=1).astype(dtype)
        else:
            wide = column(narrow, count, at).astype(dtype)
            matrices[name] = wide + next(least).astype(dtype)
    return matrices


def _parts(value: bytes, decode: Callable[[bytes], Any] = _decode) -> tuple[Any, bytes, bytes, int]:
    """The metadata, the second head and the content of a value, and where its arrays begin."""
    if len(value) < HEAD.size:
        raise PackingError("shorter than its head")
    version, compression, meta_size, shapes_size = HEAD.unpack_from(value)
    if version != VERSION:
        raise PackingError(f"version {version}, not {VERSION}")
    shapes_at = HEAD.size + meta_size
    start = shapes_at + shapes_size
    shapes = value[shapes_at:start]
    _, _, size = _layout(shapes)
    content, first = (
        (_decompressed(value[start:], size, compression), 0) if compression else (value, start)
    )
    if first + size != len(content):
        raise PackingError(f"{len(content)} bytes, not the {first + size} of its head")
    try:
        meta = decode(value[HEAD.size : shapes_at])
    except _DAMAGE as error:
        raise PackingError(f"unreadable head: {error}") from error
    return meta, shapes, content, first


def _decompressed(content: bytes, size: int, compression: int) -> bytes:
    if size > MAX_COMPRESSED or compression >= len(CODECS):
        raise PackingError(f"{size} bytes of content, compressed in way {compression}")
    try:
        found: bytes = pa.decompress(content, size, codec=CODECS[compression], asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise PackingError(f"damaged content: {error}") from error
    return found


def _widened(
    value: bytes, stored: np.dtype[Any] | None, dtype: np.dtype[Any], count: int, at: int, low: Any
) -> npt.NDArray[Any]:
    """An array that was written in a narrower type, read-only as the others are."""
    if stored is None:
        array = np.full(count, low, dtype)
    else:
        array = np.frombuffer(value, stored, count, at).astype(dtype)
        array += dtype.type(low)
    array.flags.writeable = False
    return array


@remembered(REMEMBERED_HEADS, MAX_HEAD)
def _layout(
    shapes: bytes,
) -> tuple[tuple[tuple[str, np.dtype[Any], int, str, int], ...], int, int]:
    """Of each array the name, type, length, narrower type and position in bytes.

    Then the number of arrays that have a narrower type, and the size of all.
    """
    arrays, at = [], 0
    try:
        parts = _decode(shapes)
        narrowed = sum(len(part) > len(("name", "dtype", "count")) for part in parts)
        at = narrowed * LEAST.itemsize
        for name, dtype, count, *rest in parts:
            (stored,) = rest or ("",)
            wrong = count < 0 or (stored == EQUAL and count > MAX_EQUAL)
            if wrong or dtype not in TYPES or (rest and stored not in STORED):
                raise PackingError(f"array {name} of {count} {dtype}")
            arrays.append((str(name), TYPES[dtype], int(count), str(stored), at))
            width = STORED.get(stored) if stored else TYPES[dtype]
            at += count * width.itemsize if width is not None else 0
    except (ValueError, TypeError, *_DAMAGE) as error:
        raise (
            error if isinstance(error, PackingError) else PackingError(f"unreadable head: {error}")
        ) from error
    return tuple(arrays), narrowed, at
