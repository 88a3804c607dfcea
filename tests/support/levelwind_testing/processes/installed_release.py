"""A release as its users have it: its wheel, unpacked beside the packages of this checkout."""

import io
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from levelwind_testing.source_tree import PACKAGES, ROOT

BUILD = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
METADATA = ("pyproject.toml", "README.md", "LICENSE")


@dataclass(frozen=True, slots=True)
class InstalledRelease:
    """A directory with what is in the wheel of a source, and that source's support of the tests.

    Needs no network: the wheel is built by this environment's setuptools, and the packages that it
    depends on are this environment's.
    """

    home: Path
    support: Path

    @classmethod
    def of_commit(cls, commit: str, directory: Path) -> "InstalledRelease":
        """Build and unpack the wheel of a commit in the history of this checkout."""
        archive = subprocess.run(
            ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=True
        ).stdout
        source = directory / "source"
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(source, filter="data")
        return cls(_unpacked(source, directory), source / "tests" / "support")

    @classmethod
    def of_this_checkout(cls, directory: Path) -> "InstalledRelease":
        """Build and unpack the wheel of this checkout as it is."""
        source = directory / "source"
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        for name in METADATA:
            shutil.copy(ROOT / name, source / name)
        return cls(_unpacked(source, directory), ROOT / "tests" / "support")

    @property
    def python(self) -> tuple[str, ...]:
        """Command of the interpreter; the directory that it runs in keeps this checkout out."""
        found = f"PYTHONPATH={self.home}:{self.support}"
        return ("env", "--chdir", str(self.home), found, sys.executable)


def _unpacked(source: Path, directory: Path) -> Path:
    subprocess.run([sys.executable, "-c", BUILD], cwd=source, check=True, capture_output=True)
    (wheel,) = (source / "dist").iterdir()
    home = directory / "home"
    shutil.unpack_archive(wheel, home, "zip")
    return home


def is_in_history(commit: str) -> bool:
    """Whether this checkout has a commit in its history; not so without a history."""
    if shutil.which("git") is None:
        return False
    command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
