"""Directories that somebody named: made where they are missing, refused by their name where nothing can be written there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def ensure_writable(directory: Path, setting: str) -> Path:
    """Make a directory, with those above it, if it is not there.

    Args:
        directory: which.
        setting: the setting or option that names it.

    Raises:
        ConfigurationError: it cannot be made, or nothing can be written in it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (
            "there is a file of that name" if isinstance(error, FileExistsError) else error.strerror
        )
        raise ConfigurationError(f"{setting}: {directory} cannot be made: {why}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"{setting}: nothing can be written in {directory}: permission denied"
        )
    return directory
