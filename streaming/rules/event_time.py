"""Constants and rules of event time, and the types of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable

Int64: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN = -1
"""A time or offset that is unknown, or that does not exist, as of a group without a commit."""
JUMP_MS = 60_000
"""A sample older than the newest by less is late; by as much or more, a clock was set back."""


def agreed_time(times: Iterable[int]) -> int:
    """The second newest of some times, up to which two records say that time has come.

    One record with a wrong clock, whatever it brings at its one time, never moves it beyond the
    others. Two records of one such clock do: a time does not say whose it is. `UNKNOWN`: there are
    not two times.
    """
    *_, second, _ = UNKNOWN, UNKNOWN, *sorted(set(times))
    return second
