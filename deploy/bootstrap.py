"""From a bare Python to `.venv`: the locked packages and this project, and nothing but what the locks name.

Run by `make setup` with the machine's own Python, hence the standard library alone. The installer, uv, is itself pinned by
`requirements-bootstrap.lock` and kept in the user's cache. Each step is tried without the network first: once caches are
warm, a fresh checkout needs none.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PACKAGES = ROOT / "requirements.lock"
INSTALLER = ROOT / "requirements-bootstrap.lock"


def main() -> None:
    """Make or mend `.venv`."""
    with _alone():
        uv = installer()
        if not _is_sound(VENV):
            _said(f"making {VENV.name} with Python {sys.version.split()[0]}")
            _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV)])
        _said("installing the locked packages")
        into = ["--python", str(VENV), "--build-constraints", str(PACKAGES)]
        _offline_first(uv, "pip", "sync", "--quiet", "--require-hashes", *into, str(PACKAGES))
        _offline_first(uv, "pip", "install", "--quiet", "--no-deps", *into, "--editable", str(ROOT))


def installer() -> str:
    """The pinned uv, from the cache or put there."""
    home = _cache() / f"uv-{sha256(INSTALLER.read_bytes()).hexdigest()[:12]}"
    if not (home / "bin" / "uv").exists():
        _said("fetching the installer")
        if find_spec("ensurepip") is None or find_spec("venv") is None:
            _fail(
                "this Python can make no virtual environment: its package leaves `venv` or `ensurepip` out.\n"
                f"On Debian and Ubuntu: sudo apt-get install python3.{sys.version_info.minor}-venv"
            )
        with tempfile.TemporaryDirectory(prefix=".uv-", dir=_cache()) as scratch:
            _run([sys.executable, "-m", "venv", f"{scratch}/venv"])
            pip = [
                f"{scratch}/venv/bin/python",
                "-m",
                "pip",
                "--quiet",
                "--disable-pip-version-check",
                "install",
            ]
            made = Path(scratch) / "uv"
            # A plain directory holds no absolute paths: it can be moved into its place as a whole.
            _run(
                [
                    *pip,
                    "--require-hashes",
                    "--only-binary",
                    ":all:",
                    "--target",
                    str(made),
                    "-r",
                    str(INSTALLER),
                ]
            )
            try:
                made.rename(home)
            except OSError:
                if not (home / "bin" / "uv").exists():  # else somebody else was faster
                    raise
    return str(home / "bin" / "uv")


def _is_sound(venv: Path) -> bool:
    """Whether the environment's Python still runs, and is the one that we were called with in its version."""
    probe = [str(venv / "bin" / "python"), "-c", "import sys; print(sys.version_info[:2])"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=True)  # noqa: S603 - our own environment
    except (OSError, subprocess.CalledProcessError):
        return False
    return done.stdout.strip() == str(sys.version_info[:2])


def _offline_first(uv: str, *arguments: str) -> None:
    offline = [uv, *arguments, "--offline"]
    if subprocess.run(offline, capture_output=True, check=False).returncode:  # noqa: S603 - the pinned installer
        _said("  not all of it is in the cache: downloading")
        _run([uv, *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)  # noqa: S603 - commands of this file
    if done.returncode:
        _fail(
            f"`{Path(command[0]).name} {' '.join(command[1:])}` failed (above). "
            "The first set-up needs the package registry: check the network, and the proxy where there is one."
        )


@contextmanager
def _alone() -> Iterator[None]:
    """Two set-ups of one checkout follow each other."""
    handle = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _cache() -> Path:
    # As deploy.cache has it: nothing of the package can be imported yet.
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "levelwind"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _said(words: str) -> None:
    print(f"setup: {words}", flush=True)  # noqa: T201 - it speaks to the terminal


def _fail(words: str) -> NoReturn:
    sys.exit(f"setup: {words}")


if __name__ == "__main__":
    main()
