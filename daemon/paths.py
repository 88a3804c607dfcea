"""Directories from settings and options: created where missing, refused where not writable."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


PRIVATE_MODE = 0o700
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def ensure_writable(directory: Path, setting: str, *, private: bool = False) -> Path:
    """Create a directory and its parents where they are missing, and return it.

    Args:
        directory: the directory.
        setting: the setting or option that names the directory, for the text of an error.
        private: whether nobody but this user may read it; where the directory belongs to another
            user, its rights are left to that one.

    Raises:
        ConfigurationError: the directory cannot be created, or is not writable.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=PRIVATE_MODE if private else 0o777)
        found = directory.stat()
        if private and found.st_uid == os.geteuid() and found.st_mode & OTHERS:
            directory.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
    except OSError as error:
        reason = (
            "there is a file of that name" if isinstance(error, FileExistsError) else error.strerror
        )
        raise ConfigurationError(f"{setting}: cannot create {directory}: {reason}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{setting}: cannot write to {directory}: permission denied")
    return directory
