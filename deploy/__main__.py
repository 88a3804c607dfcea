"""`python -m deploy setup | lock`: the commands of the Makefile."""

import sys

from deploy import jars
from deploy.errors import SetupError
from deploy.java import java


def setup() -> None:
    """Fetch the jars, and a Java runtime where it is missing."""
    for name in jars.SETS:
        jars.classpath(name, _print_step)
    java(_print_step)


def lock() -> None:
    """Resolve the pom again and write the lock."""
    jars.LOCK.write_text(jars.written({name: jars.resolve(name) for name in jars.SETS}))


def _print_step(step: str) -> None:
    print(f"setup: {step}", flush=True)  # noqa: T201 - output for the terminal


COMMANDS = {"setup": setup, "lock": lock}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m deploy {' | '.join(COMMANDS)}")
    try:
        COMMANDS[sys.argv[1]]()
    except SetupError as error:
        sys.exit(f"setup: {error}")
