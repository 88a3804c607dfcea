"""Pause between attempts that fail one after the other: it doubles up to a limit."""

from __future__ import annotations

from typing import NamedTuple

MOST_DOUBLINGS = 60
"""More than any pause takes to its limit; a float can hold what they make of it."""


class DoublingPause(NamedTuple):
    """Lengths of the pauses, in seconds."""

    first: float
    """After the first failure."""
    longest: float
    """The most, however many follow."""

    def after(self, last: float | None) -> float:
        """Return the pause after one of a length; None: there was none yet."""
        return self.first if last is None else min(2 * last, self.longest)

    def of(self, failures: int) -> float:
        """Return the pause after a number of failures in a row; 0 without any."""
        doublings = min(failures - 1, MOST_DOUBLINGS)
        return min(self.first * 2.0**doublings, self.longest) if failures > 0 else 0.0
