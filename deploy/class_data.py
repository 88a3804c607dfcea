"""Class-data archives: a JVM that maps one spares itself loading and verifying its classes.

An archive (AppCDS) belongs to one Java and to the very files of one class path, so its name is a
digest of both: other jars, or another Java, have another archive. A JVM checks again what it maps,
and starts without an archive that is missing or does not match. A JVM writes its archive when it
ends, from the classes that it has used.
"""

import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from levelwind.deploy.bootstrap import cache

QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""A mismatch costs time and nothing else, so the JVM does not print it."""
AT_ITS_ADDRESS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""The archive is mapped where its pointers hold. At an address that is drawn, as by default, each
pointer is changed: the pages are this process's own then, and read at its start."""
UNUSED_SECONDS = 30 * 86_400.0
"""Time after which an archive that nobody used is removed."""


def archive(name: str, java: Path, class_path: Iterable[Path]) -> Path:
    """Path of the archive of a program, whether it exists or not.

    Args:
        name: name of the program.
        java: the `java` that runs it.
        class_path: the files of its class path, in their order.
    """
    digest = sha256()
    for file in (java.resolve(), *class_path):
        with suppress(FileNotFoundError):  # the JVM, too, leaves out what does not exist
            stat = file.stat()
            # Whole seconds, as the JVM compares them: the layers of an image keep no others.
            digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns // 10**9}\0".encode())
    return cache() / "class-data" / f"{name}-{digest.hexdigest()[:16]}.jsa"


def options(file: Path) -> tuple[str, ...]:
    """Options of a JVM that uses an archive; none where it does not exist."""
    try:
        os.utime(file)  # in use, for `remove_unused`
    except FileNotFoundError:
        return ()
    except OSError:  # another user's cache; the archive can be read all the same
        pass
    return (f"-XX:SharedArchiveFile={file}", *QUIET, *AT_ITS_ADDRESS)


def recording_options(draft: Path) -> tuple[str, ...]:
    """Options of a JVM that writes an archive when it ends; `adopt` puts it into its place."""
    draft.parent.mkdir(parents=True, exist_ok=True)
    return (f"-XX:ArchiveClassesAtExit={draft}", "-Xshare:auto", "-Xlog:cds*=off")


def draft_of(file: Path) -> Path:
    """A file beside an archive for this process to write it in."""
    return file.with_name(f".{file.stem}-{os.getpid()}.jsa")


def adopt(draft: Path, file: Path) -> bool:
    """Put a draft that is whole into the place of an archive; return whether there was one."""
    try:
        draft.replace(file)
    except FileNotFoundError:
        return False
    remove_unused(file.parent, time.time())
    return True


def keep_only(programs: Collection[str]) -> None:
    """Remove the archives of all programs but some, given by their names."""
    for file in (cache() / "class-data").glob("*.jsa"):
        if file.name.rpartition("-")[0] not in programs:
            file.unlink()


def remove_unused(directory: Path, now: float) -> None:
    """Remove the archives, and drafts left behind, that nobody has used for a month.

    Args:
        directory: the directory of the archives.
        now: seconds since the epoch.
    """
    for file in (*directory.glob("*.jsa"), *directory.glob(".*.jsa")):
        with suppress(OSError):  # another process was faster, or the file is another user's
            if now - file.stat().st_mtime > UNUSED_SECONDS:
                file.unlink()
