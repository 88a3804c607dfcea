"""Columns as one binary value: between the operators, and in the state store.

A version byte, the length of a JSON head (u32, big-endian), the head, then the arrays' bytes, little-endian, in the
head's order. The head names each array with its type and length, so that a value explains itself and no class is
needed to read it back; nothing in it is ever executed. Reading trusts nobody but checks shape: a foreign value raises
`PackingError`.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

Meta: TypeAlias = dict[str, Any]
Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"

VERSION = 1
HEAD = struct.Struct(">BI")
TYPES = ("|b1", "|u1", "<i4", "<i8", "<f8")


class PackingError(ValueError):
    """A value that `pack` did not write: another version's, or damaged."""


def pack(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The value of some JSON-able `meta` and one-dimensional `arrays`."""
    columns = [(name, np.ascontiguousarray(array)) for name, array in arrays.items()]
    head = json.dumps(
        {"meta": meta, "arrays": [[name, array.dtype.str, array.size] for name, array in columns]},
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()
    return b"".join([HEAD.pack(VERSION, len(head)), head, *(array.tobytes() for _, array in columns)])


def unpack(value: bytes) -> tuple[Meta, Arrays]:
    """What `pack` was given; the arrays are read-only views of `value`."""
    if len(value) < HEAD.size:
        raise PackingError("shorter than its head")
    version, length = HEAD.unpack_from(value)
    if version != VERSION:
        raise PackingError(f"version {version}, not {VERSION}")
    try:
        head = json.loads(value[HEAD.size : HEAD.size + length])
        meta, shapes = (
            head["meta"],
            [(str(name), str(dtype), int(size)) for name, dtype, size in head["arrays"]],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PackingError(f"unreadable head: {error}") from error
    arrays: Arrays = {}
    at = HEAD.size + length
    for name, dtype, size in shapes:
        if dtype not in TYPES or size < 0 or at + size * np.dtype(dtype).itemsize > len(value):
            raise PackingError(f"array {name} of {size} {dtype} does not fit")
        arrays[name] = np.frombuffer(value, dtype, size, at)
        at += size * np.dtype(dtype).itemsize
    if at != len(value):
        raise PackingError("longer than its arrays")
    return meta, arrays
