"""Prometheus' own checker: the machine's, or one unpacked from the distribution's package."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from levelwind.deploy.bootstrap import cache
from levelwind.deploy.java import own_package_lists

PACKAGE = "prometheus"


def promtool() -> Path | None:
    """Path of `promtool`; None where there is none and the distribution has no package of it."""
    if found := shutil.which("promtool"):
        return Path(found)
    unpacked = cache() / "promtool"
    if not unpacked.exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        _unpack(unpacked)
    return unpacked if unpacked.exists() else None


def _unpack(target: Path) -> None:
    """Take the program out of the package, without an installation."""
    with tempfile.TemporaryDirectory(prefix=".promtool-", dir=target.parent) as scratch:
        lists = own_package_lists(Path(scratch))
        if not _done(["apt-get", "-qq", "-oAPT::Sandbox::User=", "download", PACKAGE], scratch):
            _done(["apt-get", "-qq", *lists, "update"], scratch)
            _done(["apt-get", "-qq", *lists, "download", PACKAGE], scratch)
        for file in Path(scratch).glob(f"{PACKAGE}_*.deb"):
            _done(["dpkg-deb", "-x", str(file), "root"], scratch)
        program = Path(scratch) / "root" / "usr" / "bin" / "promtool"
        if program.exists():
            program.rename(target)


def _done(command: list[str], directory: str) -> bool:
    done = subprocess.run(command, cwd=directory, capture_output=True, check=False, timeout=240)
    return done.returncode == 0
