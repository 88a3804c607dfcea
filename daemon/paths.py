"""Directories from settings and options: created where missing, refused where not writable."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def ensure_writable(directory: Path, setting: str) -> Path:
    """Create a directory and its parents where they are missing, and return it.

    Args:
        directory: the directory.
        setting: the setting or option that names the directory, for the text of an error.

    Raises:
        ConfigurationError: the directory cannot be created, or is not writable.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (
            "there is a file of that name" if isinstance(error, FileExistsError) else error.strerror
        )
        raise ConfigurationError(f"{setting}: cannot create {directory}: {reason}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{setting}: cannot write to {directory}: permission denied")
    return directory
