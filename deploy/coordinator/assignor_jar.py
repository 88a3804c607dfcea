"""Build of the jar for brokers: by Eclipse's compiler, which runs on the Java that is there.

A runtime suffices, so that a machine without a JDK builds it too, from the same locked compiler.
The same sources give the same bytes.
"""

import subprocess
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from levelwind.deploy.bootstrap import cache
from levelwind.deploy.broker_config import QUICK_COMPILER
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import classpath
from levelwind.deploy.java import java

SOURCES = Path(__file__).with_name("java")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
RELEASE = "17"
"""Oldest Java that runs brokers of Kafka 4."""
API = ("kafka-group-coordinator-api-", "kafka-clients-")
"""Beginnings of the names of the brokers' jars that the classes may use: Kafka's API."""
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
"""Time of every file: the same sources give the same bytes."""


def build(directory: Path, version: str) -> Path:
    """Write `levelwind-coordinator-<version>.jar` into a directory; return its path.

    Raises:
        SetupError: Java or a jar is missing, or the sources do not compile; the text says which.
    """
    directory.mkdir(parents=True, exist_ok=True)
    manifest = f"Manifest-Version: 1.0\r\nImplementation-Version: {version}\r\n\r\n"
    file = directory / f"levelwind-coordinator-{version}.jar"
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=cache()) as scratch:
        classes = Path(scratch)
        compile_java(sorted(SOURCES.rglob("*.java")), classes, api())
        with zipfile.ZipFile(file, "w") as archive:
            entries = [("META-INF/MANIFEST.MF", manifest.encode())]
            entries += [
                (str(path.relative_to(classes)), path.read_bytes())
                for path in sorted(classes.rglob("*.class"))
            ]
            for name, content in entries:
                archive.writestr(zipfile.ZipInfo(name, WRITTEN_AT), content, zipfile.ZIP_DEFLATED)
    return file


def own_version() -> str:
    """Version of this checkout.

    Raises:
        SetupError: this is no checkout.
    """
    if not PROJECT.exists():
        raise SetupError("the jar for brokers is built in a checkout")
    return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])


def api() -> list[Path]:
    """Kafka's jars that the classes are compiled with."""
    return [path for path in classpath("brokers") if path.name.startswith(API)]


def compile_java(sources: Iterable[Path], classes: Path, libraries: Sequence[Path]) -> None:
    """Compile files into a directory; a warning fails as an error does.

    Raises:
        SetupError: the compiler's words.
    """
    (compiler,) = classpath("compiler")
    options = ["-source", RELEASE, "-target", RELEASE, "-proc:none", "-g", "-failOnWarning"]
    where = ["-cp", ":".join(map(str, libraries)), "-d", str(classes)]
    command = [str(java()), QUICK_COMPILER, "-XX:+UseSerialGC", "-jar", str(compiler)]
    command += [*options, *where, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the locked compiler
    if done.returncode:
        raise SetupError(f"the classes for brokers do not compile:\n{done.stdout}{done.stderr}")
