"""`levelwind demo`: the whole loop on one machine, told as it happens.

Brokers, the daemon with its pipeline, and the workload are the real ones, each as anybody would run it: the daemon is a
child process whose log is narrated here, and what is shown of lag and skew is read from its topics.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console

from daemon import workload
from daemon.clients import admin
from daemon.errors import ClusterUnavailableError, LevelwindError
from daemon.log_reader import LogReader
from daemon.narration import Narrator
from daemon.runtime import signals
from daemon.standing import start_cluster
from daemon.view import Views
from daemon.workload import RACKS, Orders, Traffic
from deploy import guard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.settings import Settings

TUNING = (
    "pipeline.skew_for=10",
    "pipeline.skew_floor=3000",
    "control.restraint.cool_down=20",
)
"""A demo is watched for minutes: what waits for half a minute or more in production waits less here."""

SHOW_EVERY = 2.0
LEAVE_WITHIN = 3.0
DAEMON_GRACE = 8.0


class DaemonEndedError(LevelwindError):
    """The daemon ended by itself; its log says why."""


def run_demo(
    settings: Settings,
    arguments: Sequence[str],
    *,
    directory: Path,
    embedded: bool,
    seconds: float | None,
    as_json: bool,
    traffic: Traffic | None = None,
) -> None:
    """Run until Ctrl-C, or for so many seconds.

    Args:
        settings: of the daemon, and where its cluster is.
        arguments: of `levelwind run`, for the same settings.
        directory: for the files of all parts.
        embedded: whether to start a cluster; otherwise the one of the settings is used.
        seconds: how long; None: until SIGINT or SIGTERM.
        as_json: narrate in JSON lines.
        traffic: how much is produced and consumed.

    Raises:
        LevelwindError: a part could not be started, or ended by itself.
    """
    stop = threading.Event()
    directory.mkdir(parents=True, exist_ok=True)
    narrator = Narrator(Console(highlight=False), as_json=as_json)
    with signals(stop), ExitStack() as stack:
        stack.callback(narrator.say, "stopped", "everything has ended")
        if embedded:
            cluster = stack.enter_context(
                start_cluster(Console(stderr=True), 3, RACKS, directory / "cluster")
            )
            settings = settings.model_copy(update={"bootstrap": cluster.bootstrap})
            racks = ", ".join(f"{node.id} in rack {node.rack}" for node in cluster.nodes)
            narrator.say("cluster", f"brokers {racks}, at {cluster.bootstrap}")
        narrator.clock_starts()
        _play(settings, arguments, directory, narrator, stop, seconds, traffic or Traffic(), stack)


def _play(
    settings: Settings,
    arguments: Sequence[str],
    directory: Path,
    narrator: Narrator,
    stop: threading.Event,
    seconds: float | None,
    traffic: Traffic,
    stack: ExitStack,
) -> None:
    client = settings.client()
    brokers = len(admin(client).list_topics(timeout=30).brokers)
    workload.create_topics(client, brokers)
    daemon = DaemonChild(
        [*arguments, "--bootstrap", settings.bootstrap], directory / "levelwind.log", narrator
    )
    stack.callback(daemon.stop)

    workers = workload.workers(client, traffic, settings.prefix, narrator.handed_over)
    orders = Orders(
        client, traffic, lambda: {w.name: w.owned for w in workers}, lambda t: narrator.say("workload", t)
    )
    started = False
    views = Views()
    until = time.monotonic() + seconds if seconds else float("inf")
    while not stop.wait(0.2) and time.monotonic() < until:
        if (code := daemon.poll()) is not None:
            raise DaemonEndedError(
                f"the daemon ended by itself with exit code {code}; see {directory / 'levelwind.log'}"
            )
        if daemon.leading.is_set() and not started:
            started = True
            _watch(settings, views, stack)
            for worker in workers:
                worker.start()
            stack.callback(_leave, workers, orders)
        if started and not orders.running and all(worker.owned for worker in workers):
            orders.start()
        if started:
            narrator.show(views.groups.get(workload.GROUP))


def _watch(settings: Settings, views: Views, stack: ExitStack) -> None:
    reader = LogReader(
        client_config=settings.client(),
        topics=settings.topics,
        kinds=("lag", "assignments"),
        on_entry=lambda entry: views.apply(entry.kind, entry.record),
    )
    reader.start()
    stack.callback(reader.stop)


def _leave(workers: Sequence[workload.Worker], orders: Orders) -> None:
    """End the traffic and the group in good order, while the daemon is there to see it."""
    for worker in workers:
        worker.stop()
    orders.stop()
    until = time.monotonic() + LEAVE_WITHIN
    for worker in workers:
        worker.join(max(until - time.monotonic(), 0))


class DaemonChild:
    """`levelwind run` as a child: its log is kept in a file and narrated."""

    def __init__(self, arguments: Sequence[str], log: Path, narrator: Narrator) -> None:
        command = [sys.executable, "-m", "daemon.cli", "run", "--log-format", "json", *arguments]
        self._child = guard.start(command, grace=DAEMON_GRACE, output=subprocess.PIPE)
        self._log = log
        self._narrator = narrator
        self.leading = threading.Event()
        self._thread = threading.Thread(target=self._read, name="daemon-log", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        output = self._child.process.stdout
        if output is None:
            raise ClusterUnavailableError("the daemon has no output")
        with self._log.open("ab") as file:
            for line in output:
                file.write(line)
                file.flush()
                event = _event(line)
                if event.get("event") == "daemon.leading":
                    self.leading.set()
                self._narrator.hear(event)

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self._child.poll()

    def stop(self) -> None:
        """End it and read its log to the end."""
        self._child.stop()
        self._thread.join(1)


def _event(line: bytes) -> dict[str, Any]:
    """Read a log line; what is none (a crash of a runtime, say) is passed on as it is."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    return (
        event
        if isinstance(event, dict)
        else {"event": "library.said", "text": line.decode(errors="replace").rstrip()}
    )
