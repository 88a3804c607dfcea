"""`levelwind demo`: the whole loop on one machine, narrated as it happens.

Brokers, the daemon with its pipeline, and the workload are the real ones, run as anybody would run
them: the daemon is a child process whose log is narrated, and lag is read from its topics. Two
groups read the same topics side by side: one follows levelwind, and Kafka's own assignor divides
the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from rich.console import Console

from levelwind.daemon.demo import workload
from levelwind.daemon.demo.demo_workers import (
    GROUP,
    KAFKA_ASSIGNOR,
    KAFKA_GROUP,
    kafka_workers,
    managed_workers,
)
from levelwind.daemon.demo.local_cluster import start_cluster
from levelwind.daemon.demo.narrator import Narrator
from levelwind.daemon.demo.panes import Pane, member_lags, p99_delay
from levelwind.daemon.demo.workload import RACKS, OrderProducer, Traffic
from levelwind.daemon.errors import LevelwindError
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.paths import ensure_writable
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind.daemon.shutdown import stop_on_signals
from levelwind.deploy import guard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.demo.demo_workers import GroupWorker
    from levelwind.daemon.kafka.topic_reader import ConsumedRecord

DEMO_SETTINGS = ("control.cooldown.duration=20",)
"""Shorter waits than in production, because people watch a demo for minutes only."""

LEAVE_SECONDS = 2.5
"""Time for the consumers to leave their groups."""
DAEMON_GRACE_SECONDS = 3.5
"""Time for the daemon to stop. Together with `LEAVE_SECONDS` and the brokers' grace it keeps the
end of a demo below ten seconds."""


class DemoEndedError(LevelwindError):
    """A part of the demo ended unexpectedly; `exit_code`: that of the part, where it has one."""

    def __init__(self, reason: str, exit_code: int = 1) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


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
    """Run the demo until Ctrl-C, or for a number of seconds.

    Args:
        settings: the settings of the daemon, which name the cluster.
        arguments: the arguments of `levelwind run` for the same settings.
        directory: the directory for the files of all parts.
        embedded: whether to start a cluster; otherwise the cluster of the settings is used.
        seconds: how long to run; None: until SIGINT or SIGTERM.
        as_json: whether to narrate in JSON lines.
        traffic: the rates of the workload.

    Raises:
        LevelwindError: a part could not be started, or ended unexpectedly.
    """
    ensure_writable(directory, "--directory")
    narrator = Narrator(Console(highlight=False), as_json=as_json)
    with stop_on_signals() as stop, ExitStack() as stack:
        stack.callback(narrator.narrate, "stopped", "all processes have ended")
        stack.callback(narrator.close)
        if embedded:
            cluster = stack.enter_context(start_cluster(3, RACKS, directory / "cluster"))
            settings = settings.model_copy(update={"bootstrap": cluster.bootstrap})
            racks = ", ".join(f"{node.id} in rack {node.rack}" for node in cluster.nodes)
            narrator.narrate("cluster", f"brokers {racks}, at {cluster.bootstrap}")
        narrator.start_clock()
        workload.create_topics(settings.client(), settings.topic.timeout)
        log = directory / "levelwind.log"
        daemon = DaemonChild(daemon_command(settings, arguments), log, narrator)
        stack.callback(daemon.stop)
        scene = Scene(settings, traffic or Traffic(), narrator)
        stack.callback(scene.end)
        stop.polled = True
        until = time.monotonic() + seconds if seconds else float("inf")
        while not stop.wait(0.2) and time.monotonic() < until:
            if (code := daemon.poll()) is not None:
                raise DemoEndedError(
                    f"the daemon ended unexpectedly with exit code {code}; see {log}",
                    code if code > 0 else 1,
                )
            if daemon.leading.is_set():
                scene.advance()


class Scene:
    """The running workload and the view of its groups; used by one thread."""

    def __init__(self, settings: Settings, traffic: Traffic, narrator: Narrator) -> None:
        self._narrator = narrator
        self._views = GroupViews()
        self._records: SimpleQueue[ConsumedRecord] = SimpleQueue()
        self._reader = TopicFollower(
            client_config=settings.client(),
            topics=settings.topics,
            kinds=("metadata", "lag", "assignments"),
            on_record=self._records.put,
        )
        client = settings.client()
        self._managed = managed_workers(client, traffic, settings.prefix, narrator.narrate_handover)
        self._kafka = kafka_workers(client, traffic, narrator.narrate_rebalance)
        self._workers: tuple[GroupWorker, ...] = (*self._managed, *self._kafka)
        self._orders = OrderProducer(
            client,
            traffic,
            lambda: [_owned(self._managed), _owned(self._kafka)],
            lambda text: narrator.narrate("workload", text),
        )
        self._threads: tuple[workload.WorkloadThread, ...] = (*self._workers, self._orders)
        self._started = False
        self._producing = False

    def advance(self) -> None:
        """Start the parts that are due, and show both groups.

        Raises:
            DemoEndedError: a part of the workload ended unexpectedly.
        """
        if not self._started:
            self._started = True
            self._reader.start()
            for worker in self._workers:
                worker.start()
        if not self._producing and all(worker.owned for worker in self._workers):
            self._producing = True
            self._orders.start()
        for thread in self._threads:
            if thread.failure is not None:
                raise DemoEndedError(
                    f"{thread.name} ended unexpectedly: {thread.failure}"
                ) from thread.failure
        while not self._records.empty():
            entry = self._records.get()
            self._views.apply(entry.kind, entry.record)
        if self._views.groups.get(GROUP):
            self._narrator.show_panes(self._panes)

    def _panes(self) -> list[Pane]:
        """Both groups: their lag as levelwind's records have it, and their records' delays."""
        return [
            self._pane(KAFKA_ASSIGNOR, "yellow", KAFKA_GROUP, self._kafka),
            self._pane("levelwind", "green", GROUP, self._managed),
        ]

    def _pane(self, title: str, style: str, group: str, workers: Sequence[GroupWorker]) -> Pane:
        view = self._views.groups.get(group)
        lags = {
            (topic, number): lag
            for topic, record in (ShownGroup(view).measured.lags if view else {}).items()
            for number, lag in enumerate(record.known_lag)
            if lag is not None
        }
        delays = [delay for worker in workers for delay in worker.recent_delays()]
        return Pane(
            title=title,
            style=style,
            group=group,
            lags=member_lags(lags, _owned(workers)),
            p99=p99_delay(delays),
        )

    def end(self) -> None:
        """Stop the workload in good order, while the daemon still runs and sees its end."""
        until = time.monotonic() + LEAVE_SECONDS
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))
        self._reader.stop()


def _owned(workers: Sequence[GroupWorker]) -> dict[str, frozenset[tuple[str, int]]]:
    """What each consumer owns."""
    return {worker.name: worker.owned for worker in workers}


def daemon_command(settings: Settings, arguments: Sequence[str]) -> list[str]:
    """`levelwind run` with some settings, and a log that can be narrated whatever they name."""
    level = "debug" if settings.log.level == "debug" else "info"
    log = ("--log-format", "json", "--log-level", level)
    run = (sys.executable, "-m", "levelwind.daemon.cli", "run", *log)
    return [*run, *arguments, "--bootstrap", settings.bootstrap]


class DaemonChild:
    """`levelwind run` as a child process; its log is written to a file and narrated."""

    def __init__(self, command: Sequence[str], log: Path, narrator: Narrator) -> None:
        self._child = guard.start(command, grace=DAEMON_GRACE_SECONDS, output=subprocess.PIPE)
        self._log = log
        self._narrator = narrator
        self.leading = threading.Event()
        self._thread = threading.Thread(target=self._read, name="daemon-log", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._log.open("ab", buffering=0) as file:
            for line in self._child.process.stdout or ():
                file.write(line)
                event = _event(line)
                if event.get("event") == "daemon.leading":
                    self.leading.set()
                try:
                    self._narrator.narrate_event(event)
                except (KeyError, TypeError, ValueError) as error:
                    # Go on reading: a daemon blocks once nobody reads its log.
                    self._narrator.narrate(
                        "error", f"cannot narrate {event.get('event')}: {error!r}"
                    )

    def poll(self) -> int | None:
        """The exit code; None while the daemon runs."""
        return self._child.poll()

    def stop(self) -> None:
        """Stop the daemon and read its log to the end."""
        self._child.stop()
        self._thread.join(1)


def _event(line: bytes) -> dict[str, Any]:
    """Parse a log line; a line without an event, as after a crash, becomes `library.log`."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    return (
        event
        if isinstance(event, dict)
        else {"event": "library.log", "text": line.decode(errors="replace").rstrip()}
    )
