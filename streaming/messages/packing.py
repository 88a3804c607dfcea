"""Columns as one binary value: between the operators, and in the state store.

A version byte, the lengths of two JSON heads (u32, big-endian), the heads, then the arrays' bytes, little-endian, in the
order of the second head. That names each array with its type and length, so that a value explains itself and no class is
needed to read it back; nothing in it is ever executed. It stands apart from the first, what is said beside the arrays,
since it is nearly always one that was seen before: then it is neither written nor read again. Reading trusts nobody but
checks shape: a foreign value raises `PackingError`.
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
TYPES = {name: np.dtype(name) for name in ("|b1", "|u1", "<i4", "<i8", "<f8")}
SHAPES = 4096
"""So many second heads are remembered."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class PackingError(ValueError):
    """A value that `pack` did not write: another version's, or damaged."""


def pack(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The value of some JSON-able `meta` and one-dimensional `arrays`."""
    said = _encode(meta).encode()
    shapes = _written(tuple([(name, array.dtype, array.size) for name, array in arrays.items()]))
    head = HEAD.pack(VERSION, len(said), len(shapes))
    return b"".join([head, said, shapes, *[array.tobytes() for array in arrays.values()]])


@lru_cache(maxsize=SHAPES)
def _written(shapes: tuple[Shape, ...]) -> bytes:
    return _encode([[name, dtype.str, size] for name, dtype, size in shapes]).encode()


def unpack(value: bytes) -> tuple[Meta, Arrays]:
    """What `pack` was given; the arrays are read-only views of `value`."""
    if len(value) < HEAD.size:
        raise PackingError("shorter than its head")
    version, said, shapes = HEAD.unpack_from(value)
    if version != VERSION:
        raise PackingError(f"version {version}, not {VERSION}")
    first = HEAD.size + said
    places, size = _places(value[first : first + shapes])
    start = first + shapes
    if start + size != len(value):
        raise PackingError(f"{len(value)} bytes, not the {start + size} that its head tells")
    try:
        meta = json.loads(value[HEAD.size : first])
    except ValueError as error:
        raise PackingError(f"unreadable head: {error}") from error
    return meta, {
        name: np.frombuffer(value, dtype, count, start + at) for name, dtype, count, at in places
    }


@lru_cache(maxsize=SHAPES)
def _places(shapes: bytes) -> tuple[tuple[tuple[str, np.dtype[Any], int, int], ...], int]:
    """Each array's name, type, length and place, and the size of all."""
    places, at = [], 0
    try:
        for name, dtype, count in json.loads(shapes):
            if dtype not in TYPES or count < 0:
                raise PackingError(f"array {name} of {count} {dtype}")
            places.append((str(name), TYPES[dtype], int(count), at))
            at += count * TYPES[dtype].itemsize
    except (ValueError, TypeError) as error:
        raise (
            error if isinstance(error, PackingError) else PackingError(f"unreadable head: {error}")
        ) from error
    return tuple(places), at
