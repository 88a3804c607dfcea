"""Commands of Makefile and image: `levelwind.deploy setup | lock | dist | release | keep`."""

import sys
from pathlib import Path

from levelwind.deploy import class_data, distribution, jars
from levelwind.deploy.errors import SetupError
from levelwind.deploy.java import java


def setup() -> None:
    """Fetch the jars, and a Java runtime where it is missing."""
    for name in jars.AT_SETUP:
        jars.classpath(name, _print_step)
    java(_print_step)


def lock() -> None:
    """Resolve the pom again and write the locks."""
    jars.LOCK.write_text(
        jars.written({name: jars.resolve(name) for name in jars.SETS}), encoding="utf-8"
    )
    others: dict[str, tuple[jars.Jar, ...]] = {
        version: jars.resolve("brokers", version) for version in jars.OTHER_BROKERS
    }
    jars.OTHER_LOCK.write_text(jars.written(others), encoding="utf-8")


def dist() -> None:
    """Build what a Spark cluster is sent, in `dist`."""
    for file in distribution.build(Path("dist")):
        print(f"dist: {file}, {file.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - as below
    coordinates = ",".join(jar.coordinates for jar in jars.locked("spark"))
    print(f"dist: --packages {coordinates}")  # noqa: T201 - as below


def release() -> None:
    """Build the wheel, the sdist and the jar for brokers, in `dist`."""
    for file in distribution.build_release(Path("dist")):
        print(f"release: {file}, {file.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - as below


def keep() -> None:
    """Remove from the cache what the pipeline does not run: an image has no brokers."""
    jars.keep_only(["spark"])
    class_data.keep_only(["spark"])


def _print_step(step: str) -> None:
    print(f"setup: {step}", flush=True)  # noqa: T201 - output for the terminal


COMMANDS = {"setup": setup, "lock": lock, "dist": dist, "release": release, "keep": keep}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m levelwind.deploy {' | '.join(COMMANDS)}")
    try:
        COMMANDS[sys.argv[1]]()
    except SetupError as error:
        sys.exit(f"setup: {error}")
