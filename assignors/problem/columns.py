"""Columns: the array types that the problem and its answers are made of, and the order in which names become integers."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Columnar = TypeVar("Columnar", bound=Any)  # a slotted dataclass


def in_java_order(names: Iterable[str]) -> list[str]:
    """Sort as Java's String.compareTo does: by UTF-16 code units.

    It differs from Python's order by code point only where a name has characters beyond U+FFFF, which client ids may have.
    """
    listed = list(names)
    if all(map(str.isascii, listed)):
        return sorted(listed)
    return sorted(listed, key=utf16)


def frozen(value: Columnar) -> Columnar:
    """The same value, whose columns nobody can write any more."""
    for name in value.__slots__:
        column = getattr(value, name)
        if isinstance(column, np.ndarray):
            column.flags.writeable = False
    return value


def utf16(name: str) -> bytes:
    """The sort key of a name in Java's order."""
    return name.encode("utf-16-be", "surrogatepass")


def starts(sizes: Sequence[int] | Longs) -> Longs:
    """Where each of consecutive runs of these sizes starts, and the end of the last."""
    bounds = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def within(sizes: Longs) -> Longs:
    """For each element of consecutive runs of these sizes, its place within its run."""
    bounds = starts(sizes)
    return np.arange(bounds[-1], dtype=np.int64) - np.repeat(bounds[:-1], sizes)


def numbered(keys: Longs) -> Longs:
    """For each key, its place among the distinct ones: by counting where they are dense, which no sort keeps up with."""
    top = int(keys.max(initial=-1)) + 1
    if top > 4 * len(keys) + 1024:
        return np.unique(keys, return_inverse=True)[1]
    there = np.zeros(top, dtype=np.int64)
    there[keys] = 1
    return (np.cumsum(there) - 1)[keys]


def distinct(keys: Longs, top: int) -> Longs:
    """The distinct keys below `top`, ascending: where they are dense, by a table, which no sort keeps up with."""
    if top > 32 * len(keys) + 1024:
        return np.unique(keys)
    there = np.zeros(top, dtype=np.bool_)
    there[keys] = True
    return np.flatnonzero(there)


def firsts(keys: Longs, top: int) -> Longs:
    """For each of the distinct keys below `top`, ascending, where it comes first."""
    if top > 32 * len(keys) + 1024:
        return np.unique(keys, return_index=True)[1]
    at = np.full(top, -1, dtype=np.int64)
    at[keys[::-1]] = np.arange(len(keys))[::-1]  # what is written last stays
    return at[at >= 0]


def radix(column: Ints | Longs, top: int) -> Longs:
    """The stable order of integers from -1 to below `top`; of 16 bits numpy sorts by radix, ten times as fast as of 32."""
    narrow = column.astype(np.int16) if top <= np.iinfo(np.int16).max else column
    return np.argsort(narrow, kind="stable")
