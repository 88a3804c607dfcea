"""Time until lag is live again after a death or a standstill, and what takes it.

    python tests/benchmarks/bench_recovery.py [--rounds 1] [--only VICTIM]

One real broker, a daemon, a standby, and a group that commits four times a second. Each victim gets
its signal once a round: the pipeline's JVM and its Python SIGKILL, the JVM and the Python workers
SIGSTOP, and the leading daemon, with all its processes, SIGKILL; another daemon then becomes the
standby. Lag is live again with the first lag record that shows a commit made after the signal.
Seconds depend on what else the machine does; the CPU seconds of all processes hardly do.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bench_start import BROKER, HEAP, PARTITIONS, SMALL, commit, create
from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.protocol.records import LagRecord, decode
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes import processes
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.tree_watch import role_of
from levelwind_testing.waiting import wait_until

WITHIN = 300.0
"""Seconds after which lag that has not come back is lost."""
COMMIT_SECONDS = 0.25
PHASES = (
    "pipeline.quiet",
    "pipeline.silent",
    "pipeline.died",
    "daemon.leading",
    "pipeline.starting",
    "pipeline.started",
    "pipeline.caught_up",
)
VICTIMS = {
    "JVM killed": ("JVM", signal.SIGKILL),
    "Python killed": ("pipeline", signal.SIGKILL),
    "JVM stopped": ("JVM", signal.SIGSTOP),
    "workers stopped": ("workers", signal.SIGSTOP),
    "leader killed": (None, signal.SIGKILL),
}
"""Role of the processes that get a signal, and the signal; no role: the daemon and all it has."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=VICTIMS)
    options = parser.parse_args()
    victims = [options.only] if options.only else list(VICTIMS)
    with (
        Cluster.start(1, settings=BROKER, jvm_options=HEAP) as cluster,
        tempfile.TemporaryDirectory() as directory,
    ):
        create(cluster.bootstrap, {SMALL: PARTITIONS})
        commit(cluster.bootstrap, 1)
        run = Run(cluster.bootstrap, Path(directory))
        try:
            run.shown("start", time.time(), {})
            for _ in range(options.rounds):
                for name in victims:
                    run.hit(name, *VICTIMS[name])
        finally:
            run.stop()


class Run:
    """The daemons, and a group whose commits are followed as lag."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap, self._directory = bootstrap, directory
        self._started = 0
        self._over = threading.Event()
        self._commits: list[float] = []
        """Time of each commit; the offset of a commit is its index."""
        self._lag_of = 0
        """The newest commit that lag was published of."""
        self.leader = self._daemon()
        self.leader.wait_for("lead", lambda: self.leader.logged("daemon.leading"), WITHIN)
        self.standby = self._daemon()
        for target in (self._commit, self._follow):
            threading.Thread(target=target, daemon=True).start()

    def _daemon(self) -> DaemonProcess:
        self._started += 1
        state = self._directory / f"daemon-{self._started}"
        return DaemonProcess(self._bootstrap, state, "log.level=debug")

    def _commit(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": SMALL, "enable.auto.commit": False}
        )
        while not self._over.wait(COMMIT_SECONDS):
            self._commits.append(time.time())
            offset = len(self._commits) + 1
            consumer.commit(offsets=[TopicPartition(SMALL, 0, offset)], asynchronous=False)

    def _follow(self) -> None:
        reader = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "bench", "fetch.wait.max.ms": 50}
        )
        topic = "levelwind.lag"
        found = wait_until("lag", lambda: reader.list_topics(timeout=10).topics.get(topic), WITHIN)
        reader.assign([TopicPartition(topic, number, 0) for number in found.partitions])
        while not self._over.is_set():
            message = reader.poll(0.1)
            if message is None or message.error() is not None or message.value() is None:
                continue
            record = decode("lag", message.key(), message.value())
            if isinstance(record, LagRecord) and record.group == SMALL:
                self._lag_of = max(self._lag_of, record.committed[0])

    def hit(self, name: str, role: str | None, number: int) -> None:
        """Send a signal, and show what followed until lag was live again."""
        before, leader = processes.usage(stop=""), self.leader
        begun = time.time()
        if role is None:
            leader.kill()
            self.leader, self.standby = self.standby, leader
        else:
            for pid in self._of(role):
                os.kill(pid, number)
        self.shown(name, begun, before)
        if role is None:
            self.standby = self._daemon()
            self.standby.wait_for(
                "standby", lambda: self.standby.logged("daemon.standing_by"), WITHIN
            )

    def _of(self, role: str) -> list[int]:
        tree = processes.usage(
            self.leader.child.process.pid, lambda _, one: role_of(one.command), stop=""
        )
        return [pid for pid, used in tree.items() if used.name == role]

    def shown(self, name: str, begun: float, before: dict[int, processes.Used]) -> None:
        """Wait until a commit that was made since `begun` has lag, and print what took the time."""
        wait_until("live lag", lambda: self._is_live(begun), WITHIN, pause=0.02)
        seconds, cpu = time.time() - begun, processes.spent(before, processes.usage(stop=""))
        said = [(event["event"], _age(event, begun)) for event in self._events(begun)]
        phases = ", ".join(f"{event} {age:.1f}" for event, age in said)
        load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        print(f"{name}: lag live after {seconds:.1f} s, {cpu:.1f} s of CPU, {load}", flush=True)
        print(f"    {phases}", flush=True)

    def _is_live(self, begun: float) -> bool:
        newest = self._lag_of - 2
        return 0 <= newest < len(self._commits) and self._commits[newest] >= begun

    def _events(self, begun: float) -> Sequence[dict]:
        found = [
            event
            for event in list(self.leader.events)
            if event["event"] in PHASES and _age(event, begun) >= 0
        ]
        return sorted(found, key=lambda event: _age(event, begun))

    def stop(self) -> None:
        self._over.set()
        for daemon in (self.leader, self.standby):
            daemon.stop()


def _age(event: dict, begun: float) -> float:
    """Seconds from a moment to an event."""
    return datetime.fromisoformat(event["time"]).timestamp() - begun


if __name__ == "__main__":
    main()
