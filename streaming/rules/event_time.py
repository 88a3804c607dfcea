"""What the rules of event time have in common, and the types of their columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN = -1
"""A time, an end or another offset that is not known."""
JUMP_MS = 60_000
"""Milliseconds."""
