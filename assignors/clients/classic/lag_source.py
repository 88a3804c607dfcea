"""Lag of a group, as its leader asks for it before it plans by lag."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

LagSource: TypeAlias = Callable[[Collection[str]], Mapping[str, Sequence[int]]]
"""Records behind of each partition of the given topics, by topic and partition number.

The leader asks while its group waits for the assignment, so an answer must come within seconds. A
topic may be left out: it counts as having no lag.
"""


class LagUnavailableError(RuntimeError):
    """The lag of a group cannot be had; the group is then planned as if it had none."""
