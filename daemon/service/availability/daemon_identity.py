"""Identity of a daemon: a name that is kept in `state_dir`, and the name of each start."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING
from uuid import uuid4

from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

FILE = "daemon-id"


def kept_id(state_dir: Path) -> str:
    """Return the name of the daemon with this `state_dir`, which the first start makes.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    file = state_dir / FILE
    try:
        known = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        if not re.fullmatch(r"[0-9a-f]{8}", known):
            known = uuid4().hex[:8]
            fresh = file.with_suffix(f".{os.getpid()}")
            fresh.write_text(known + "\n", encoding="utf-8")
            fresh.chmod(0o600)
            fresh.replace(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"state_dir: cannot keep {file}: {error}") from error
    return known


def instance_of(kept: str) -> str:
    """Return the name of this start of a daemon, which no other shares."""
    return f"{socket.gethostname()}/{kept}-{uuid4().hex[:4]}"


def same_daemon(one: str, other: str) -> bool:
    """Whether two names are of starts with the same `state_dir`."""
    return one.rpartition("/")[2].partition("-")[0] == other.rpartition("/")[2].partition("-")[0]
