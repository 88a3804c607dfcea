"""A Java runtime that is new enough: the machine's, or one unpacked into the user's cache without any right to install.

Looked for in LEVELWIND_JAVA_HOME, JAVA_HOME, on PATH, then in the cache. On Debian's family the distribution's own headless
package is unpacked there, with the signatures that apt checks. It lacks what only installing makes: the store of trusted
certificates. Who talks TLS to a cluster names a `ssl.truststore.location` (Kafka reads PEM, too) or installs the package.
"""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy.cache import cache
from deploy.errors import SetupError

OLDEST = 17
OURS = "LEVELWIND_JAVA_HOME"

_PACKAGE = re.compile(r"^openjdk-(\d+)-jre-headless\b", re.MULTILINE)


def java(say: Callable[[str], None] = lambda _: None) -> Path:
    """The `java` to run; `say` hears when one is fetched first.

    Raises:
        SetupError: where there is none and none can be had, with the command to run.
    """
    for candidate in _candidates():
        if (version(candidate) or 0) >= OLDEST:
            return candidate
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SetupError(_advice())
    _unpack(cache() / "java", say)
    for candidate in _unpacked(cache() / "java"):
        if version(candidate):
            return candidate
    raise SetupError(
        f"the Java that was unpacked into {cache() / 'java'} does not run on this machine. {_advice()}"
    )


def home(say: Callable[[str], None] = lambda _: None) -> Path:
    """The `JAVA_HOME` of that `java`, which is how Spark is told of it."""
    return java(say).resolve().parent.parent


def version(java: Path) -> int | None:
    """The major version of a `java`, None where it does not run."""
    command = [str(java), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - a java
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else None


def _candidates() -> Iterator[Path]:
    if ours := os.environ.get(OURS):
        chosen = Path(ours) / "bin" / "java"
        if (found := version(chosen)) is None or found < OLDEST:
            what = "no Java that runs" if found is None else f"Java {found}"
            raise SetupError(
                f"{OURS}={ours} holds {what}; it must be {OLDEST} or newer, or not be set"
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
    """What to run, on this system."""
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


def _unpack(root: Path, say: Callable[[str], None]) -> None:
    """Unpack the distribution's package to `root`, as a whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=".java-", dir=root.parent) as scratch:
        package = _downloaded(Path(scratch), say)
        made = Path(scratch) / "root"
        _run(["dpkg-deb", "-x", str(package), str(made)], scratch)
        _mend_links(made)
        for unpacked in _unpacked(
            made
        ):  # what the package's own script would do: starts are faster by half
            subprocess.run([str(unpacked), "-Xshare:dump"], capture_output=True, check=False)  # noqa: S603 - as above
        try:
            made.rename(root)
        except OSError:
            if not _unpacked(root):  # else somebody else was faster
                shutil.rmtree(root, ignore_errors=True)
                made.rename(root)


def _downloaded(directory: Path, say: Callable[[str], None]) -> Path:
    """The package's file, by apt: with the system's lists where these will do, else with lists of our own."""
    own = directory / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (own / part).mkdir(parents=True)
    ours = [
        f"-oDir::State={own}/state", f"-oDir::State::lists={own}/state/lists", f"-oDir::Cache={own}/cache", "-oDir::State::status=/var/lib/dpkg/status",
        "-oAPT::Sandbox::User=", "-oAcquire::Languages=none",
    ]  # fmt: skip
    if package := _package([], directory):
        say(f"fetching {package}")
        if (file := _fetched(package, [], directory)) is not None:
            return file
    say("reading the distribution's package lists")
    _run(["apt-get", "-qq", *ours, "update"], directory)
    package = _package(ours, directory)
    if package is None:
        raise SetupError(f"this distribution has no Java of version {OLDEST} or newer. {_advice()}")
    say(f"fetching {package}")
    if (file := _fetched(package, ours, directory)) is None:
        raise SetupError(f"{package} cannot be downloaded: check the network. {_advice()}")
    return file


def _package(options: Sequence[str], directory: Path) -> str | None:
    """The oldest runtime that is new enough: the one most used with what we run."""
    search = ["apt-cache", *options, "search", "--names-only", "^openjdk-[0-9]+-jre-headless$"]
    versions = [int(number) for number in _PACKAGE.findall(_run(search, directory))]
    usable = [number for number in versions if number >= OLDEST]
    return f"openjdk-{min(usable)}-jre-headless" if usable else None


def _fetched(package: str, options: Sequence[str], directory: Path) -> Path | None:
    command = ["apt-get", "-qq", "-oAPT::Sandbox::User=", *options, "download", package]
    subprocess.run(command, cwd=directory, capture_output=True, check=False)  # noqa: S603 - apt's fixed command
    return next(iter(directory.glob("*.deb")), None)


def _mend_links(root: Path) -> None:
    """Let the links to /etc, where the package keeps its configuration, point to what was unpacked."""
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
