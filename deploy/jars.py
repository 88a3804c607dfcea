"""Locked jars: a file that differs from its lock in one byte never reaches a classpath.

`pom.xml` names the versions, and `jars.lock` the resolved artifacts with a sha256 each. Brokers of
other releases have a lock of their own, `other-brokers.lock`, from the same profile of the pom.
Both fetching and locking use a Maven resolver in Python, which knows the registry: Maven is not
needed, nor is a network once the cache is warm.
"""

import hashlib
import logging
import os
import re
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelwind.deploy.bootstrap import cache
from levelwind.deploy.errors import SetupError

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
LOCK = HERE / "jars.lock"
OTHER_LOCK = HERE / "other-brokers.lock"

JarSet = Literal["brokers", "spark", "tools", "compiler", "hadoop", "s3"]
SETS: tuple[JarSet, ...] = ("brokers", "spark", "tools", "compiler", "hadoop", "s3")
AT_SETUP: tuple[JarSet, ...] = ("brokers", "spark", "tools", "compiler")
"""The sets that are fetched at once; another one when something asks for it."""

OtherBrokers = Literal["3.6.2", "3.9.1", "4.0.0", "4.4.0"]
OTHER_BROKERS: tuple[OtherBrokers, ...] = ("3.6.2", "3.9.1", "4.0.0", "4.4.0")
"""Other releases of the brokers, which only tests run; each is fetched when one asks for it."""

_ATTEMPTS = 3
_BROKERS_VERSION = re.compile(r"(?<=<brokers\.version>)[^<]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """A Maven artifact and the required digest of its file."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Maven coordinates, `group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def path(self) -> Path:
        """Path of the file in a Maven repository."""
        return Path(
            *self.group.split("."),
            self.artifact,
            self.version,
            f"{self.artifact}-{self.version}.jar",
        )


def classpath(jars: JarSet, progress: Callable[[str], None] = lambda _: None) -> tuple[Path, ...]:
    """Verified files of a set; `progress` is called before missing files are fetched."""
    return _verified(locked(jars), jars, progress)


def broker_classpath(
    version: OtherBrokers | None = None, progress: Callable[[str], None] = lambda _: None
) -> tuple[Path, ...]:
    """Verified files of the brokers, of another release if one is given."""
    if version is None:
        return classpath("brokers", progress)
    return _verified(locked(version, OTHER_LOCK), f"brokers {version}", progress)


def _verified(
    wanted: tuple[Jar, ...], name: str, progress: Callable[[str], None]
) -> tuple[Path, ...]:
    repository = cache() / "maven"
    missing = [jar for jar in wanted if not _is_verified(repository / jar.path, jar)]
    if missing:
        progress(f"fetching {len(missing)} jars of {len(wanted)} for {name}")
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda jar: _fetch(jar, repository), missing))
    return tuple(repository / jar.path for jar in wanted)


def locked(jars: JarSet | OtherBrokers, lock: Path = LOCK) -> tuple[Jar, ...]:
    """Jars that a lock names for a set or another release of the brokers, in its order."""
    return tuple(
        _parsed(name, digest)
        for name, digest in tomllib.loads(lock.read_text(encoding="utf-8"))[jars].items()
    )


def _parsed(coordinates: str, sha256: str) -> Jar:
    group, artifact, version = coordinates.split(":")
    return Jar(group=group, artifact=artifact, version=version, sha256=sha256)


def _fetch(jar: Jar, repository: Path) -> None:
    """Put one verified file into the repository, whole or not at all.

    Concurrent calls, of other processes too, are safe.
    """
    target = repository / jar.path
    if target.exists() and _digest(target) == jar.sha256:
        _remember(target, jar)
        return
    repository.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".incoming-", dir=repository) as incoming:
        file = _downloaded(jar, Path(incoming))
        digest = _digest(file)
        if digest != jar.sha256:
            raise SetupError(
                f"{jar.coordinates}: the download differs from jars.lock (sha256 {digest}, not"
                f" {jar.sha256}). Either a proxy alters files on their way from the registry, or"
                " the lock is out of date (`make lock`)."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
    _remember(target, jar)


def _downloaded(jar: Jar, directory: Path) -> Path:
    from jgo.maven import MavenContext  # noqa: PLC0415 - slow to import; a warm start skips it

    logging.getLogger("jgo").setLevel(logging.ERROR)
    for attempt in range(1, _ATTEMPTS + 1):
        # A broken download leaves half a file, which jgo would take for the whole.
        attempt_directory = directory / str(attempt)
        context = MavenContext(repo_cache=attempt_directory, timeout=30)
        artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact()
        try:
            return Path(artifact.resolve())
        except OSError as error:  # the HTTP client's errors are subclasses
            if attempt == _ATTEMPTS:
                raise SetupError(
                    f"{jar.coordinates} cannot be downloaded: {_reason(error)}. "
                    "The first set-up needs the network (and proxy settings, if there is a proxy);"
                    " later ones do not."
                ) from error
            time.sleep(attempt)
        except RuntimeError as error:
            raise SetupError(
                f"{jar.coordinates} is not in the Maven registry: {_reason(error)}"
            ) from error
    raise AssertionError("unreachable")


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def _mark(path: Path, jar: Jar) -> str:
    stat = path.stat()
    return f"{jar.sha256} {stat.st_size} {stat.st_mtime_ns}"


def _is_verified(path: Path, jar: Jar) -> bool:
    """Whether this file was hashed before, by its size and time: a start does not hash 50 MB."""
    try:
        return _stamp(path).read_text(encoding="utf-8") == _mark(path, jar)
    except (FileNotFoundError, PermissionError):  # stamps of old caches are their user's alone
        return False


def _remember(path: Path, jar: Jar) -> None:
    try:
        handle, name = tempfile.mkstemp(dir=path.parent)
    except OSError:  # a cache that this user only reads: the next start hashes the file again
        return
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_mark(path, jar))
    Path(name).chmod(0o644)  # like the jar: the daemon may run as another user than the set-up
    Path(name).replace(_stamp(path))


def keep_only(wanted: Iterable[JarSet]) -> None:
    """Remove from the cache all jars but those of some sets."""
    repository = cache() / "maven"
    kept = {repository / jar.path for name in wanted for jar in locked(name)}
    for jar in (jar for name in SETS for jar in locked(name)):
        if (file := repository / jar.path) not in kept:
            file.unlink(missing_ok=True)
            _stamp(file).unlink(missing_ok=True)


def resolve(jars: JarSet, release: OtherBrokers | None = None) -> tuple[Jar, ...]:
    """Resolve a set of the pom, for a lock; `release` replaces the pom's release of the brokers."""
    from jgo import maven  # noqa: PLC0415 - slow to import

    resolver = maven.PythonResolver(maven.ProfileConstraints(properties={"jars": jars}))
    pom = POM.read_text(encoding="utf-8")
    if release is not None:
        pom = _BROKERS_VERSION.sub(release, pom)
    with tempfile.TemporaryDirectory(prefix=".locking-", dir=cache()) as scratch:
        context = maven.MavenContext(resolver=resolver, repo_cache=Path(scratch), timeout=30)
        _, nodes = context.pom_dependency_list(maven.POM(pom))
        return tuple(
            Jar(
                group=node.dep.groupId,
                artifact=node.dep.artifactId,
                version=node.dep.version,
                sha256=_digest(Path(node.dep.artifact.resolve())),
            )
            for node in nodes
        )


def written(sets: Mapping[str, Iterable[Jar]]) -> str:
    """Text of a lock file."""
    lines = [
        "# Written by `make lock` from pom.xml. Coordinates and sha256 of every jar that is run.\n"
    ]
    for name, jars in sets.items():
        # A release has dots, which would begin a table in a table.
        lines.append(f"\n[{name}]\n" if name.isalnum() else f'\n["{name}"]\n')
        lines += [f'"{jar.coordinates}" = "{jar.sha256}"\n' for jar in jars]
    return "".join(lines)
