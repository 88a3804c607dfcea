"""Download cache: one directory for all checkouts of a user, safe to delete at any time."""

import os
from pathlib import Path


def cache() -> Path:
    """Path of the cache directory, which is made when it is missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "levelwind"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
