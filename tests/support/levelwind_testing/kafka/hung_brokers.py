"""What brokers that hang are doing, for the report of a failed test.

A hung broker fails each test that needs it in another way, and nothing but its threads says why.
"""

import re
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.deploy.broker_config import Node
from levelwind_testing.kafka.each_broker import TopicsRequest, answers
from levelwind_testing.waiting import wait_until

ANSWER_SECONDS = 10.0
"""Time of a broker for an answer, and then to learn of the topics that another one has."""
BEGIN = b"Full thread dump"
END = b"Heap\n"
"""First and last part of a thread dump of the JVM."""
DEADLOCK = "deadlock"
SERVING = ("request-handler", "network-thread", "metadata-loader", "event-handler", "raft-io")
TELLING = re.compile(rf'"[^"]*({"|".join(SERVING)})')
"""First line of a thread that serves requests, or applies the metadata."""
FRAMES = 20
"""Lines of a thread that are shown."""


def hung_brokers(nodes: Collection[Node], directory: Path) -> str:
    """Say which brokers hang, and what their threads do; empty if none does.

    Args:
        nodes: the brokers, which have an open listener.
        directory: the directory of their cluster.
    """
    hung = silent(nodes)
    return "\n\n".join(f"broker {n} hangs\n{threads(directory, n)}" for n in sorted(hung))


def silent(nodes: Collection[Node]) -> set[int]:
    """Ids of the brokers that do not answer, or do not learn what the others know."""
    first = [topics(node) for node in nodes]
    hung = set[int]()

    def is_none_hung() -> bool:
        now = {node.id: topics(node) for node in nodes}
        lasting = union(first) & union(now.values())
        hung.clear()
        hung.update(node for node, listed in now.items() if listed is None or lasting - listed)
        return not hung

    with suppress(AssertionError):
        wait_until("answer of each broker", is_none_hung, within=ANSWER_SECONDS)
    return hung


def union(lists: Iterable[set[str] | None]) -> set[str]:
    """All topics of several lists."""
    return set().union(*(listed or () for listed in lists))


def topics(node: Node) -> set[str] | None:
    """The topics that a broker lists; None without an answer."""
    try:
        [listed] = answers({"bootstrap.servers": node.address}, TopicsRequest(), ANSWER_SECONDS)
    except (ConnectionFailedError, TimeoutError):
        return None
    return set(listed)


def broker_process(home: Path) -> psutil.Process | None:
    """The process of the broker with this directory; None: it has ended."""
    return next(
        (
            process
            for process in psutil.process_iter(["name", "cmdline"])
            if process.info["name"] == "java"
            and str(home) in " ".join(process.info["cmdline"] or ())
        ),
        None,
    )


def threads(directory: Path, broker: int) -> str:
    """The threads of a broker that tell why it hangs, and its deadlocks."""
    home = directory / f"broker-{broker}"
    process = broker_process(home)
    if process is None:
        return "its process has ended"
    log = home / "broker.log"
    length = log.stat().st_size
    # A JVM that is stopped, or has just ended, gives none; the run goes on without it.
    with suppress(AssertionError, psutil.NoSuchProcess):
        process.send_signal(signal.SIGQUIT)
        wait_until("thread dump", lambda: END in log.read_bytes()[length:], within=ANSWER_SECONDS)
    dump = log.read_bytes()[length:].partition(BEGIN)[2].decode(errors="replace")
    telling = [part for part in dump.split("\n\n") if TELLING.match(part) or DEADLOCK in part]
    return "\n\n".join("\n".join(part.splitlines()[:FRAMES]) for part in telling)
