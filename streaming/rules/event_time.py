"""Constants that the rules of event time share, and the types of their columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN = -1
"""A time or offset that is unknown, or that does not exist, as of a group without a commit."""
JUMP_MS = 60_000
"""A sample older than the newest by less is late; by as much or more, a clock was set back."""
