"""What a Spark cluster is sent, and what is published: `levelwind.deploy dist` and `release`.

What a cluster is sent is made from the installation at hand.
The zip file has levelwind's own packages. The archive has, besides them, the libraries of the
pipeline as they are installed here, from the lock, and `bin/python`: a script that runs the
machine's own interpreter of the same minor version with them. So the archive works wherever it is
unpacked. An environment as `venv` makes it does not: its `python` is a link to one absolute path.
"""

import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from levelwind.deploy.bootstrap import installer
from levelwind.deploy.coordinator import assignor_jar
from levelwind.deploy.errors import SetupError

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
PACKAGES = ("assignors", "streaming", "daemon", "deploy")
"""Folders of the packages: below a checkout, or below `levelwind` where that is installed."""
REQUIRED = (
    "numpy",
    "pandas",
    "pyarrow",
    "protobuf",
    "googleapis-common-protos",
    # The driver, where the cluster runs it as well.
    "click",
    "confluent-kafka",
    "msgspec",
    "pydantic",
    "pydantic-settings",
    "structlog",
    "tenacity",
)
"""Distributions that the pipeline's processes import; pyspark is the cluster's own."""
LEFT_OUT = frozenset({"__pycache__", "tests"})
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
"""Time of every file: the same sources give the same bytes."""
LAUNCHER = """#!/bin/sh
# The machine's own Python with the libraries of this archive, wherever it was unpacked.
home=$(cd "$(dirname "$0")/.." && pwd) || exit
PYTHONPATH="$home/lib${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "${{LEVELWIND_PYTHON:-python{version}}}" "$@"
"""
APPLICATION = "levelwind_pipeline.py"


def build(directory: Path, compresslevel: int = 6) -> tuple[Path, ...]:
    """Write the zip file, the archive and the application's file into a directory.

    Args:
        directory: where they are written.
        compresslevel: gzip's level for the archive.

    Raises:
        SetupError: a library of the pipeline is not installed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    application = directory / APPLICATION
    application.write_bytes((ROOT / "daemon" / APPLICATION).read_bytes())
    return (
        write_packages(directory / "levelwind.zip"),
        write_environment(directory / "levelwind-environment.tar.gz", compresslevel=compresslevel),
        application,
    )


def write_packages(file: Path) -> Path:
    """Write levelwind's own packages as a zip file for `--py-files`; return its path."""
    with zipfile.ZipFile(file, "w") as archive:
        # Python finds a package without `__init__` in a zip file by the entry of its directory.
        archive.writestr(zipfile.ZipInfo("levelwind/", WRITTEN_AT), b"")
        for name, path in _own_files():
            entry = zipfile.ZipInfo(name, WRITTEN_AT)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return file


def write_environment(
    file: Path, libraries: tuple[str, ...] = REQUIRED, *, compresslevel: int = 6
) -> Path:
    """Write the archive for `spark.archives`; return its path.

    Args:
        file: the archive's path.
        libraries: distributions that it has, with all that they require.
        compresslevel: gzip's level.

    Raises:
        SetupError: a library of the pipeline is not installed.
    """
    launcher = LAUNCHER.format(version=f"{sys.version_info[0]}.{sys.version_info[1]}").encode()
    with tarfile.open(file, "w:gz", compresslevel=compresslevel) as archive:
        entry = tarfile.TarInfo("bin/python")
        entry.size, entry.mode = len(launcher), 0o755
        archive.addfile(entry, BytesIO(launcher))
        for name, path in (*_own_files(), *_library_files(libraries)):
            entry = tarfile.TarInfo(f"lib/{name}")
            status = path.stat()
            entry.size = status.st_size
            entry.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)
    return file


def _own_files() -> Iterator[tuple[str, Path]]:
    """The files of levelwind's packages, each with its name in an archive."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            inside = path.relative_to(ROOT)
            if path.is_file() and "__pycache__" not in inside.parts:
                yield f"levelwind/{inside}", path


def _library_files(libraries: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The files of the libraries without their byte code, tests and commands."""
    for name in sorted(closure(libraries)):
        for file in metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and not LEFT_OUT & set(file.parts) and path.is_file():
                yield str(file), path


def closure(names: tuple[str, ...]) -> set[str]:
    """Distributions and all that they require, without their extras.

    Raises:
        SetupError: one of them is not installed.
    """
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            raise SetupError(f"{name} is not installed: run `make setup`") from None
        found.add(name)
        waiting += [
            match[0]
            for line in required
            if (match := re.match(r"[A-Za-z0-9._-]+", line)) and _is_needed(line)
        ]
    return found


def _is_needed(requirement: str) -> bool:
    """Whether a requirement holds here: whether its marker does not speak of another machine."""
    _, _, marker = requirement.partition(";")
    if "extra" in marker or "win32" in marker or "Windows" in marker or "emscripten" in marker:
        return False
    old = re.search(r"python_(?:full_)?version *< *['\"]3\.(\d+)", marker)
    return old is None or sys.version_info[1] < int(old[1])


class Release(NamedTuple):
    """The files of a release."""

    wheel: Path
    sdist: Path
    jar: Path
    """The jar for brokers."""


def build_release(directory: Path) -> Release:
    """Build the sdist, the wheel from it, and the jar, into a directory in place of older ones.

    The first two are built by the locked setuptools. The wheel is not built from the checkout, so
    that an sdist that lacks a file cannot pass.

    Raises:
        SetupError: this is no checkout, or the build failed; its output is on standard error.
    """
    if not LOCK.exists():
        raise SetupError("a release is built in a checkout")
    patterns = ("levelwind-*.whl", "levelwind-*.tar.gz", "levelwind-*.jar")
    for older in (file for pattern in patterns for file in directory.glob(pattern)):
        if not older.name.startswith("levelwind-environment"):  # that is of `make dist`
            older.unlink()
    command = [installer(), "build", "--quiet", "--out-dir", str(directory)]
    command += ["--build-constraints", str(LOCK), "--require-hashes", str(ROOT)]
    # As everywhere: offline first, since a warm cache needs no network.
    offline = subprocess.run([*command, "--offline"], capture_output=True, check=False)  # noqa: S603 - the pinned installer
    if offline.returncode and subprocess.run(command, check=False).returncode:  # noqa: S603 - as above
        raise SetupError("the release cannot be built (see above)")
    (wheel,) = directory.glob("levelwind-*.whl")
    (sdist,) = (
        file for file in directory.glob("levelwind-*.tar.gz") if "environment" not in file.name
    )
    return Release(wheel, sdist, assignor_jar.build(directory, assignor_jar.own_version()))
