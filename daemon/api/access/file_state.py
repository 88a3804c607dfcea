"""Whether a file of the settings has changed since it was read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FileState = tuple[int, int, int]
"""Inode, size and time of change of a file."""


def file_state(path: Path) -> FileState:
    """Return the state of a file, of a link's target; raises OSError."""
    found = os.stat(path)  # noqa: PTH116 - one call for all three
    return found.st_ino, found.st_size, found.st_mtime_ns
