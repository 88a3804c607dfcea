"""Columns as one binary value, for the rows between the operators and for the state store.

A value is a version byte, the lengths of two JSON heads (u32, big-endian), the heads, and the bytes
of the arrays, little-endian, in the order of the second head. The first head holds the metadata.
The second names each array with its type and length, so that a value explains itself and no class
is needed to read it; nothing in a value is ever executed. The second head stands alone because it
nearly always repeats: then it is neither written nor parsed again. Reading trusts no value: one
whose shape is wrong raises `PackingError`.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

Meta: TypeAlias = dict[str, Any]
Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"
Shape: TypeAlias = tuple[str, np.dtype[Any], int]

VERSION = 2
HEAD = struct.Struct(">BII")
TYPES = {name: np.dtype(name) for name in ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")}
SHAPES = 4096
"""The number of second heads that are remembered."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class PackingError(ValueError):
    """The value is damaged, or another version of `pack` wrote it."""


def pack(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Pack some JSON-able `meta` and one-dimensional `arrays`."""
    meta_head = _encode(meta).encode()
    shapes = _written(tuple([(name, array.dtype, array.size) for name, array in arrays.items()]))
    head = HEAD.pack(VERSION, len(meta_head), len(shapes))
    return b"".join([head, meta_head, shapes, *[array.tobytes() for array in arrays.values()]])


@lru_cache(maxsize=SHAPES)
def _written(shapes: tuple[Shape, ...]) -> bytes:
    return _encode([[name, dtype.str, size] for name, dtype, size in shapes]).encode()


def unpack(value: bytes) -> tuple[Meta, Arrays]:
    """The metadata and the arrays that `pack` received; the arrays are read-only views of `value`.

    Raises:
        PackingError: the value is damaged, or another version's.
    """
    if len(value) < HEAD.size:
        raise PackingError("shorter than its head")
    version, meta_size, shapes_size = HEAD.unpack_from(value)
    if version != VERSION:
        raise PackingError(f"version {version}, not {VERSION}")
    shapes_at = HEAD.size + meta_size
    start = shapes_at + shapes_size
    arrays, size = _layout(value[shapes_at:start])
    if start + size != len(value):
        raise PackingError(f"{len(value)} bytes, not the {start + size} of its head")
    try:
        meta = json.loads(value[HEAD.size : shapes_at])
    except ValueError as error:
        raise PackingError(f"unreadable head: {error}") from error
    return meta, {
        name: np.frombuffer(value, dtype, count, start + at) for name, dtype, count, at in arrays
    }


@lru_cache(maxsize=SHAPES)
def _layout(shapes: bytes) -> tuple[tuple[tuple[str, np.dtype[Any], int, int], ...], int]:
    """The name, type, length and position in bytes of each array, and the size of all."""
    arrays, at = [], 0
    try:
        for name, dtype, count in json.loads(shapes):
            if dtype not in TYPES or count < 0:
                raise PackingError(f"array {name} of {count} {dtype}")
            arrays.append((str(name), TYPES[dtype], int(count), at))
            at += count * TYPES[dtype].itemsize
    except (ValueError, TypeError) as error:
        raise (
            error if isinstance(error, PackingError) else PackingError(f"unreadable head: {error}")
        ) from error
    return tuple(arrays), at
