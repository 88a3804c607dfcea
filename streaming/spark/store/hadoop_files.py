"""Files in any of Hadoop's file systems, through the driver's JVM.

So Spark's own settings and credentials serve.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from levelwind.streaming.spark.store.checkpoint_files import CheckpointFiles

MISSING = "java.io.FileNotFoundException"


class HadoopFiles:
    """The files of a directory by its URI; each operation raises `PipelineError` if it fails.

    A file that replaces another is created over it. An object store shows it when it is whole; in
    another file system a driver that dies meanwhile leaves it cut, which its reader notices.
    """

    is_local = False

    def __init__(self, session: SparkSession, uri: str) -> None:
        """Open the file system of a URI.

        Raises:
            PipelineError: Spark knows no such file system, or cannot open it.
        """
        jvm: Any = session._jvm  # noqa: SLF001 - pyspark has no other access to its JVM
        self._jvm = jvm
        self._uri = uri.rstrip("/")
        self.requests = 0
        """Number of operations so far."""
        try:
            hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
            self._system = self._path("").getFileSystem(hadoop)
        except Py4JJavaError as error:
            raise self._failed("opened", error) from error

    def location(self, name: str = "") -> str:
        """The URI of a file or directory."""
        return f"{self._uri}/{name}" if name else self._uri

    def read(self, name: str) -> bytes | None:
        """The content of a file; None: there is no such file."""
        self.requests += 1
        try:
            stream = self._system.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise self._failed("read", error) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file, in the place of one of its name."""
        self.requests += 1
        try:
            stream = self._system.create(self._path(name), True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise self._failed("written", error) from error

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        self.requests += 1
        try:
            self._system.delete(self._path(name), False)
        except Py4JJavaError as error:
            if not _is_missing(error):
                raise self._failed("written", error) from error

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory; none if it does not exist."""
        self.requests += 1
        try:
            found = self._system.listStatus(self._path(directory))
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise self._failed("read", error) from error
        return [str(status.getPath().getName()) for status in found]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.location(name))

    def _failed(self, verb: str, error: Py4JJavaError) -> PipelineError:
        return PipelineError(
            f"the checkpoint in {self._uri} cannot be {verb}: {error.java_exception.toString()}"
        )


def _is_missing(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == MISSING


def open_files(session: SparkSession, directory: Path | str) -> CheckpointFiles:
    """Open the files of a directory: a path, or a URI of any file system that Spark knows.

    Raises:
        PipelineError: Spark knows no such file system, or cannot open it.
    """
    if isinstance(directory, Path):
        return LocalFiles(directory)
    path = local_path(directory)
    return HadoopFiles(session, directory) if path is None else LocalFiles(path, as_uri=True)
