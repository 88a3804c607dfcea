"""Where what is fetched once is kept: one directory for all checkouts of a user, safe to delete at any time."""

import os
from pathlib import Path


def cache() -> Path:
    """The project's cache directory, made when missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "levelwind"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
