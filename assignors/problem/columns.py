"""Columns: array types of groups and assignments, and the order in which names become integers."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
LEAST_FIGURE, MOST_FIGURE = 1e-30, 1e30
"""Bounds of a capacity and of a speed; a rate, in records a second, is at most the larger one.

Nothing real is near them. Within them no load, nor a load times the work behind it, leaves the
range of a float: a plan for figures beyond them would rest on infinities.
"""
Columnar = TypeVar("Columnar", bound=Any)
"""A slotted dataclass whose fields are columns."""


def in_java_order(names: Iterable[str]) -> list[str]:
    """Sort as Java's String.compareTo does: by UTF-16 code units.

    The order differs from Python's order by code point only where a name has characters beyond
    U+FFFF, which client ids may have.
    """
    listed = list(names)
    if all(map(str.isascii, listed)):
        return sorted(listed)
    return sorted(listed, key=utf16)


def frozen(value: Columnar) -> Columnar:
    """Make the columns of a value read-only and return the value."""
    for name in value.__slots__:
        column = getattr(value, name)
        if isinstance(column, np.ndarray):
            column.flags.writeable = False
    return value


def utf16(name: str) -> bytes:
    """The sort key of a name in Java's order."""
    return name.encode("utf-16-be", "surrogatepass")


def starts(sizes: Sequence[int] | Longs) -> Longs:
    """Start index of each of consecutive runs of these sizes, and the end of the last run."""
    bounds = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def within(sizes: Longs) -> Longs:
    """Index within its run of each element of consecutive runs of these sizes."""
    bounds = starts(sizes)
    return np.arange(bounds[-1], dtype=np.int64) - np.repeat(bounds[:-1], sizes)


def numbered(keys: Longs) -> Longs:
    """Rank of each key among the distinct keys.

    Dense keys are ranked by counting, which is faster than any sort.
    """
    top = int(keys.max(initial=-1)) + 1
    if top > 4 * len(keys) + 1024:
        return np.unique(keys, return_inverse=True)[1]
    present = np.zeros(top, dtype=np.int64)
    present[keys] = 1
    return (np.cumsum(present) - 1)[keys]


def distinct(keys: Longs, top: int) -> Longs:
    """Distinct keys below `top`, ascending.

    Dense keys are found with a table, which is faster than any sort.
    """
    if top > 32 * len(keys) + 1024:
        return np.unique(keys)
    present = np.zeros(top, dtype=np.bool_)
    present[keys] = True
    return np.flatnonzero(present)


def firsts(keys: Longs, top: int) -> Longs:
    """Index of the first occurrence of each distinct key below `top`, by ascending key."""
    if top > 32 * len(keys) + 1024:
        return np.unique(keys, return_index=True)[1]
    first = np.full(top, -1, dtype=np.int64)
    first[keys[::-1]] = np.arange(len(keys))[::-1]  # of several writes to one index the last stays
    return first[first >= 0]


def radix(column: Ints | Longs, top: int) -> Longs:
    """Stable sort order of integers from -1 to below `top`.

    NumPy sorts 16-bit integers by radix, ten times as fast as 32-bit ones.
    """
    narrow = column.astype(np.int16) if top <= np.iinfo(np.int16).max else column
    return np.argsort(narrow, kind="stable")
