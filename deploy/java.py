"""A Java runtime that is new enough."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.errors import SetupError

OLDEST = 17


def java(say: Callable[[str], None] = lambda _: None) -> Path:
    """The `java` to run: LEVELWIND_JAVA_HOME, JAVA_HOME or the one on PATH."""
    for candidate in _candidates():
        if (version(candidate) or 0) >= OLDEST:
            return candidate
    raise SetupError(f"no Java runtime of version {OLDEST} or newer: install one, or set JAVA_HOME")


def _candidates() -> Iterator[Path]:
    for name in ("LEVELWIND_JAVA_HOME", "JAVA_HOME"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)


def version(java: Path) -> int | None:
    """The major version of a `java`, None where it does not run."""
    try:
        command = [str(java), "-version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - a java
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else None
