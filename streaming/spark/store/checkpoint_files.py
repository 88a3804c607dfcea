"""Files of the pipeline's own directory, wherever it is: the interface, and its local form.

`HadoopFiles` (`levelwind.streaming.spark.store.hadoop_files`) is the form for every other file
system. What the interface asks for, object stores have: to read, write and delete a file, and to
list the names below a directory. None of it renames: in an object store that is a copy of every
file, and no commit. Loads no Spark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

LOCAL_SCHEMES = ("", "file")


class CheckpointFiles(Protocol):
    """The files of one directory, by their names relative to it."""

    @property
    def is_local(self) -> bool:
        """Whether the files have paths on this machine."""

    def location(self, name: str = "") -> str:
        """The address of a file or directory, as Spark takes it."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None: there is no such file."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, in the place of one of its name."""

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory; none if it does not exist."""


class LocalFiles:
    """Files with paths; each operation raises `OSError` where the file system refuses it."""

    is_local = True

    def __init__(self, directory: Path, *, as_uri: bool = False) -> None:
        """Take a directory, which need not exist.

        Args:
            directory: the directory.
            as_uri: whether Spark gets its addresses as `file:` URIs, since the file system that it
                takes for paths may be another.
        """
        self.directory = directory
        self._as_uri = as_uri

    def location(self, name: str = "") -> str:
        """The path of a file or directory, or its URI."""
        path = self.directory / name
        return path.absolute().as_uri() if self._as_uri else str(path)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None: there is no such file."""
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file at once: after a power loss it holds either the old content or the new."""
        file = self.directory / name
        draft = file.with_name(file.name + ".new")
        with draft.open("wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
        draft.rename(file)

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        (self.directory / name).unlink(missing_ok=True)

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory; none if it does not exist."""
        path = self.directory / directory
        return [file.name for file in path.iterdir()] if path.is_dir() else []


def local_path(address: str) -> Path | None:
    """The path of a directory on this machine; None if the address is of another file system."""
    parts = urlsplit(address)
    if parts.scheme not in LOCAL_SCHEMES:
        return None
    return Path(unquote(parts.path) if parts.scheme else address)
