"""`python -m deploy setup | lock`: what the Makefile asks of this package."""

import sys

from deploy import jars
from deploy.errors import SetupError
from deploy.java import java


def setup() -> None:
    """Fetch what runs on Java, and Java itself where it is missing."""
    for name in jars.SETS:
        jars.classpath(name, _say)
    java(_say)


def lock() -> None:
    """Resolve the pom anew into the lock."""
    jars.LOCK.write_text(jars.written({name: jars.resolve(name) for name in jars.SETS}))


def _say(words: str) -> None:
    print(f"setup: {words}", flush=True)  # noqa: T201 - it speaks to the terminal


COMMANDS = {"setup": setup, "lock": lock}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m deploy {' | '.join(COMMANDS)}")
    try:
        COMMANDS[sys.argv[1]]()
    except SetupError as error:
        sys.exit(f"setup: {error}")
