"""Java runtime: the machine's, or one unpacked into the user's cache without installation rights.

The runtime is searched in LEVELWIND_JAVA_HOME, in JAVA_HOME, on PATH, then in the cache. On
Debian's family the distribution's own headless package is unpacked into the cache after apt has
checked its signature. The unpacked runtime lacks the store of trusted certificates, which only an
installation makes: to use TLS, set `ssl.truststore.location` (Kafka reads PEM, too) or install the
package.
"""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from levelwind.deploy.bootstrap import cache
from levelwind.deploy.errors import SetupError

OLDEST = 17
"""Oldest usable major version."""
JAVA_HOME_OVERRIDE = "LEVELWIND_JAVA_HOME"

_PACKAGE = re.compile(r"^openjdk-(\d+)-jre-headless\b", re.MULTILINE)


def java(progress: Callable[[str], None] = lambda _: None) -> Path:
    """Path of the `java` to run; a download is reported to `progress`.

    Raises:
        SetupError: no runtime is found and none can be fetched; the text names the command to run.
    """
    for candidate in _candidates():
        if (version(candidate) or 0) >= OLDEST:
            return candidate
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SetupError(_advice())
    _unpack(cache() / "java", progress)
    for candidate in _unpacked(cache() / "java"):
        if version(candidate):
            return candidate
    raise SetupError(
        f"the Java unpacked into {cache() / 'java'} does not run on this machine. {_advice()}"
    )


def home() -> Path:
    """`JAVA_HOME` of the same runtime, for Spark."""
    return java().resolve().parent.parent


def version(java: Path) -> int | None:
    """Major version of a `java`; None if it does not run."""
    command = [str(java), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - a java
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else None


def _candidates() -> Iterator[Path]:
    if configured := os.environ.get(JAVA_HOME_OVERRIDE):
        chosen = Path(configured) / "bin" / "java"
        if (found := version(chosen)) is None or found < OLDEST:
            what = "no Java that runs" if found is None else f"Java {found}"
            raise SetupError(
                f"{JAVA_HOME_OVERRIDE}={configured} holds {what};"
                f" it must be {OLDEST} or newer, or not be set"
            )
        yield chosen
    if usual := os.environ.get("JAVA_HOME"):
        yield Path(usual) / "bin" / "java"
    if found_on_path := shutil.which("java"):
        yield Path(found_on_path)
    yield from _unpacked(cache() / "java")


def _unpacked(root: Path) -> list[Path]:
    return [
        path for path in root.glob("usr/lib/jvm/*/bin/java") if not path.parent.parent.is_symlink()
    ]


def _advice() -> str:
    """Advice on how to install a runtime on this system."""
    commands = {
        "debian": "sudo apt-get install default-jre-headless",
        "ubuntu": "sudo apt-get install default-jre-headless",
        "fedora": "sudo dnf install java-latest-openjdk-headless",
        "rhel": "sudo dnf install java-21-openjdk-headless",
        "suse": "sudo zypper install java-21-openjdk-headless",
        "arch": "sudo pacman -S jre-openjdk-headless",
        "alpine": "sudo apk add openjdk21-jre-headless",
    }
    words = f"There is no Java runtime of version {OLDEST} or newer: install one"
    if platform.system() == "Darwin":
        return f"{words} (brew install openjdk@21), or set JAVA_HOME."
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    family = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    command = next((commands[name] for name in family if name in commands), None)
    return f"{words}{f' ({command})' if command else ''}, or set JAVA_HOME."


def own_package_lists(directory: Path) -> list[str]:
    """Make a directory for apt's package lists; return apt's options to keep them there.

    So no right on the machine is needed to update them and to download a package.
    """
    own = directory / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (own / part).mkdir(parents=True)
    return [
        f"-oDir::State={own}/state",
        f"-oDir::State::lists={own}/state/lists",
        f"-oDir::Cache={own}/cache",
        "-oDir::State::status=/var/lib/dpkg/status",
        "-oAPT::Sandbox::User=",
        "-oAcquire::Languages=none",
    ]


def _unpack(root: Path, progress: Callable[[str], None]) -> None:
    """Unpack the distribution's package to `root`, whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=".java-", dir=root.parent) as scratch:
        package = _downloaded(Path(scratch), progress)
        made = Path(scratch) / "root"
        _run(["dpkg-deb", "-x", str(package), str(made)], scratch)
        _mend_links(made)
        # The package's own script would do the same: it halves the time of a start.
        for unpacked in _unpacked(made):
            subprocess.run([str(unpacked), "-Xshare:dump"], capture_output=True, check=False)  # noqa: S603 - as above
        try:
            made.rename(root)
        except OSError:
            if not _unpacked(root):  # else another process was faster
                shutil.rmtree(root, ignore_errors=True)
                made.rename(root)


def _downloaded(directory: Path, progress: Callable[[str], None]) -> Path:
    """Download the package, by the system's package lists if they suffice, else by fresh lists."""
    own_lists = own_package_lists(directory)
    if package := _package([], directory):
        progress(f"fetching {package}")
        if (file := _fetched(package, [], directory)) is not None:
            return file
    progress("reading the distribution's package lists")
    _run(["apt-get", "-qq", *own_lists, "update"], directory)
    package = _package(own_lists, directory)
    if package is None:
        raise SetupError(f"this distribution has no Java of version {OLDEST} or newer. {_advice()}")
    progress(f"fetching {package}")
    if (file := _fetched(package, own_lists, directory)) is None:
        raise SetupError(f"{package} cannot be downloaded: check the network. {_advice()}")
    return file


def _package(options: Sequence[str], directory: Path) -> str | None:
    """Name of the oldest usable runtime, which is the one most used with Kafka and Spark."""
    search = ["apt-cache", *options, "search", "--names-only", "^openjdk-[0-9]+-jre-headless$"]
    versions = [int(number) for number in _PACKAGE.findall(_run(search, directory))]
    usable = [number for number in versions if number >= OLDEST]
    return f"openjdk-{min(usable)}-jre-headless" if usable else None


def _fetched(package: str, options: Sequence[str], directory: Path) -> Path | None:
    command = ["apt-get", "-qq", "-oAPT::Sandbox::User=", *options, "download", package]
    subprocess.run(command, cwd=directory, capture_output=True, check=False)  # noqa: S603 - apt's fixed command
    return next(iter(directory.glob("*.deb")), None)


def _mend_links(root: Path) -> None:
    """Point links to /etc, where the package keeps its configuration, to the unpacked files."""
    for link in root.rglob("*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute():
            unpacked = root / target.relative_to("/")
            if unpacked.exists():
                link.unlink()
                link.symlink_to(os.path.relpath(unpacked, link.parent))


def _run(command: Sequence[str], directory: Path | str) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)  # noqa: S603 - apt, dpkg
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SetupError(
            f"`{Path(command[0]).name}` failed while fetching Java: {reason}. {_advice()}"
        )
    return done.stdout
