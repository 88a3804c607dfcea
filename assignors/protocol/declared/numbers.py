"""Numbers as they are written: an exponent as Python writes it, whole ones as it is declared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXACT_INTEGERS_BELOW = 2.0**53
"""Below it a float represents every integer exactly."""
LEAST_PLAIN, ABOVE_PLAIN = 1e-4, 1e16
"""Bounds of the numbers that are written without an exponent."""

_encode = msgspec.json.Encoder(enc_hook=float).encode


def exact(number: float) -> float | msgspec.Raw:
    """A number as it is written: an exponent as Python writes it.

    Raises:
        WireError: JSON has no such number.
    """
    if LEAST_PLAIN <= abs(number) < ABOVE_PLAIN or number == 0:
        return number
    if not math.isfinite(number):
        raise WireError(f"cannot be written: JSON has no {number}")
    return msgspec.Raw(repr(float(number)).encode())


def short(number: float) -> float | msgspec.Raw:
    """A number as it is written where whole ones have no fraction."""
    if -EXACT_INTEGERS_BELOW < number < EXACT_INTEGERS_BELOW and number == (whole := int(number)):
        return whole
    return exact(number)


def short_column(
    numbers: Sequence[float | None],
) -> msgspec.Raw | list[float | msgspec.Raw | None]:
    """Numbers as `short` writes them; where nearly all are from 0, in one go."""
    try:
        total: float = sum(numbers)  # type: ignore[arg-type]
    except TypeError:  # a partition has none
        total = sum(number for number in numbers if number)
    # What is not finite, or may be an integer that no float is exact for, shows in the sum.
    if 0 <= total < EXACT_INTEGERS_BELOW:
        column = _encode(numbers)
        # Neither a negative number, nor one with an exponent, which is negative where the number is
        # below `EXACT_INTEGERS_BELOW`, nor one below `LEAST_PLAIN`.
        if not (b"-" in column or b"0.0000" in column):
            column = column.replace(b".0,", b",")
            return msgspec.Raw(column[:-3] + b"]" if column.endswith(b".0]") else column)
    return [
        0
        if number == 0
        else number
        if number is None or (LEAST_PLAIN <= number < ABOVE_PLAIN and number % 1)
        else short(number)
        for number in numbers
    ]
