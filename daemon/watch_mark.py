"""The mark in `state_dir` by which whoever shows lag lets the pipeline know that somebody watches.

The page and `--watch` renew it, and the pipeline's process looks for it after each batch. A reader
on another machine, or of a pipeline elsewhere, leaves none: what it sees is as old as the longest
time between two batches.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = "watched"
RENEW_SECONDS = 2.0
"""Time after which a watcher renews the mark."""
VALID_SECONDS = 10.0
"""Time for which the mark counts."""


class WatchMark:
    """The mark of one installation; every method may be called from any thread."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._renewed_at = float("-inf")

    def renew(self) -> None:
        """Note that somebody watches; without a `state_dir`, or a right to it, nothing happens."""
        now = self._clock()
        if 0 <= now - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = now
        with suppress(OSError):
            (self._state_dir / FILE).write_bytes(b"")  # a command that runs elsewhere makes nothing

    def is_valid(self) -> bool:
        """Whether somebody watches."""
        try:
            renewed_at = (self._state_dir / FILE).stat().st_mtime
        except OSError:
            return False
        # A time that lies ahead is that of a clock which was set back since.
        return abs(self._clock() - renewed_at) <= VALID_SECONDS
