"""Directories of settings and options, and the temporary directory of a process.

Those of settings are created where missing, and refused where not writable.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY_PREFIX = "levelwind-pipeline-"
"""Beginning of the names of temporary directories, one for each process of a pipeline."""

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


@contextmanager
def own_temporary_directory() -> Iterator[Path]:
    """Have this process and its children put their temporary files into a directory of its own.

    The lock on the directory ends with the process, however that ends: the next process that has
    such a directory removes those without a lock.
    """
    remove_abandoned()
    former = tempfile.gettempdir()
    directory, lock = _locked_directory()
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    try:
        yield directory
    finally:
        os.environ["TMPDIR"] = tempfile.tempdir = former
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the temporary directories of this user whose processes have ended."""
    for directory in Path(tempfile.gettempdir()).glob(f"{TEMPORARY_PREFIX}*"):
        try:
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, a link, or removed meanwhile
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:  # its process lives
            pass
        finally:
            os.close(lock)


def _locked_directory() -> tuple[Path, int]:
    """Create a temporary directory and lock it; return the lock's descriptor, too."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
        try:
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # it counted as abandoned before it was locked
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.exists():
            return directory, lock
        os.close(lock)
