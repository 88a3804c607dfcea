"""Bootstrap: from a bare Python to `.venv` with the locked packages and this project, nothing else.

`make setup` runs this file with the machine's own Python, so it uses the standard library alone.
The installer, uv, is pinned by `requirements-bootstrap.lock` and kept in the user's cache. Each
step is tried offline first: once the caches are warm, a fresh checkout needs no network.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
NAMES = VENV / "names"
PACKAGES = ROOT / "requirements.lock"
INSTALLER = ROOT / "requirements-bootstrap.lock"


def main() -> None:
    """Make or repair `.venv`."""
    with _alone():
        uv = installer()
        if not _is_sound(VENV):
            _print_step(f"making {VENV.name} with Python {sys.version.split()[0]}")
            _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV)])
        _print_step("installing the locked packages")
        into = ["--python", str(VENV), "--build-constraints", str(PACKAGES)]
        # uv compiles nothing by itself, and each process would wherever it may write no byte code.
        locked = ["--require-hashes", "--compile-bytecode", *into, str(PACKAGES)]
        _offline_first(uv, "pip", "sync", "--quiet", *locked)
        _offline_first(uv, "pip", "install", "--quiet", "--no-deps", *into, "--editable", str(ROOT))
        _link_names()


def _link_names() -> None:
    """Give type checkers the folders under the name that they are imported by.

    They read no import hook, which is what an editable installation brings for that name.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shutil.rmtree(NAMES, ignore_errors=True)
    for name, folder in project["tool"]["setuptools"]["package-dir"].items():
        link = NAMES.joinpath(*name.split("."))
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(ROOT / folder, link.parent))


def installer() -> str:
    """Path of the pinned uv, which is fetched into the cache if it is missing."""
    home = cache() / f"uv-{sha256(INSTALLER.read_bytes()).hexdigest()[:12]}"
    if not (home / "bin" / "uv").exists():
        _print_step("fetching the installer")
        if find_spec("ensurepip") is None or find_spec("venv") is None:
            _fail(
                "this Python cannot make a virtual environment: its package lacks `venv` or"
                " `ensurepip`.\n"
                f"On Debian and Ubuntu: sudo apt-get install python3.{sys.version_info.minor}-venv"
            )
        with tempfile.TemporaryDirectory(prefix=".uv-", dir=cache()) as scratch:
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
            # A plain directory holds no absolute paths, so it can be renamed as a whole.
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
                if not (home / "bin" / "uv").exists():  # else another process was faster
                    raise
    return str(home / "bin" / "uv")


def _is_sound(venv: Path) -> bool:
    """Whether the environment's Python still runs and has the version of the running one."""
    probe = [str(venv / "bin" / "python"), "-c", "import sys; print(sys.version_info[:2])"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=True)  # noqa: S603 - the project's environment
    except (OSError, subprocess.CalledProcessError):
        return False
    return done.stdout.strip() == str(sys.version_info[:2])


def _offline_first(uv: str, *arguments: str) -> None:
    offline = [uv, *arguments, "--offline"]
    if subprocess.run(offline, capture_output=True, check=False).returncode:  # noqa: S603 - the pinned installer
        _print_step("  not all of it is in the cache: downloading")
        _run([uv, *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)  # noqa: S603 - commands of this file
    if done.returncode:
        _fail(
            f"`{Path(command[0]).name} {' '.join(command[1:])}` failed (above). "
            "The first set-up needs the package registry: check the network, and the proxy if any."
        )


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of this checkout, so that two set-ups run one after the other."""
    handle = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def cache() -> Path:
    """Path of a user's download cache, for all checkouts and safe to delete at any time.

    It is made when it is missing.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "levelwind"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _print_step(step: str) -> None:
    print(f"setup: {step}", flush=True)  # noqa: T201 - output for the terminal


def _fail(reason: str) -> NoReturn:
    sys.exit(f"setup: {reason}")


if __name__ == "__main__":
    main()
