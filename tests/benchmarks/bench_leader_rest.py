"""Requests and CPU of a daemon at rest that leads and plans for managed groups.

    python tests/benchmarks/bench_leader_rest.py [--groups 10] [--members 3] [--seconds 60]

Three real brokers and, in a process of their own, consumers that own everything and have nothing to
do. The daemon runs without a pipeline, with timers as in production. Its Kafka clients count
their requests by kind; the canaries' producer is the one that produces without transactions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.clients.confluent import ManagedConsumer
from levelwind.daemon.config.settings import load
from levelwind.daemon.kafka import clients
from levelwind.daemon.service.startup import run
from levelwind.daemon.telemetry.log_config import configure
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes import processes

PARTITIONS = 6
STATISTICS_MS = 2000
SETTLE_SECONDS = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--members", type=int, default=3, help="of each group")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--daemon", nargs=2, metavar=("BOOTSTRAP", "STATE"), help=argparse.SUPPRESS)
    parser.add_argument("--consumers", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.daemon:
        run_daemon(*options.daemon)
    elif options.consumers:
        run_consumers(options.consumers, options.groups, options.members)
    else:
        measure(options.groups, options.members, options.seconds)


def measure(groups: int, members: int, seconds: float) -> None:
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as directory:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        new = [NewTopic(f"topic-{number}", PARTITIONS, 3) for number in range(groups)]
        for future in admin.create_topics(new).values():
            future.result(30)
        sizes = ["--groups", str(groups), "--members", str(members)]
        daemon = start("--daemon", cluster.bootstrap, directory)
        consumers = start("--consumers", cluster.bootstrap, *sizes)
        try:
            assert consumers.stdout is not None
            print(consumers.stdout.readline().strip(), flush=True)
            time.sleep(SETTLE_SECONDS)
            before, used, begun = counts(daemon), cpu_of(daemon.pid), time.monotonic()
            time.sleep(seconds)
            after, lasted = counts(daemon), time.monotonic() - begun
            cpu = (cpu_of(daemon.pid) - used) / lasted
        finally:
            for process in (consumers, daemon):
                process.terminate()
                process.wait(30)
    print(f"the daemon: {100 * cpu:.1f} % of a core, and requests a second:")
    for name in sorted(after):
        rate = (after[name] - before.get(name, 0)) / lasted
        if rate >= 0.01:
            print(f"    {name:40} {rate:7.2f}")


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def cpu_of(pid: int) -> float:
    return sum(used.cpu for used in processes.usage(pid, stop="").values())


def counts(daemon: "subprocess.Popen[str]") -> dict[str, int]:
    """Ask the daemon's process for the requests of its clients so far."""
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    daemon.stdin.write("\n")
    daemon.stdin.flush()
    return json.loads(daemon.stdout.readline())


class RequestCount:
    """Counts the requests of all Kafka clients that the daemon makes in this process."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._clients: list[tuple[str, Any]] = []
        self._statistics: dict[int, dict[str, Any]] = {}

    def make(self, kind: Any, config: Any, required: Any) -> Any:
        """Make a client that reports its statistics."""
        number = len(self._clients)
        counted = {
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": lambda text: self._statistics.update({number: json.loads(text)}),
        }
        client = self._make(kind, config, {**required, **counted})
        name = "planner's Producer" if "transactional.id" in required else kind.__name__
        self._clients.append((name, client))
        return client

    def totals(self) -> Counter[str]:
        """Requests so far, by client and kind."""
        for name, client in self._clients:
            if "Consumer" not in name:  # the thread that reads polls it itself
                for _ in range(100):
                    client.poll(0)
        total: Counter[str] = Counter()
        for number, entry in self._statistics.items():
            for broker in entry["brokers"].values():
                for request, count in broker["req"].items():
                    total[f"{self._clients[number][0]} {request}"] += count
        return total

    def answer(self) -> None:
        """Print the totals for each line of the input."""
        for _ in sys.stdin:
            sys.stdout.write(json.dumps(self.totals()) + "\n")
            sys.stdout.flush()


def run_daemon(bootstrap: str, state: str) -> None:
    """Run the daemon in this process; print its requests for each line of the input."""
    count = RequestCount(clients._make)
    clients._make = count.make
    configure(level="error", form="json")
    threading.Thread(target=count.answer, daemon=True).start()
    settings = {"bootstrap": bootstrap, "state_dir": state, "pipeline": {"run": "elsewhere"}}
    run(load(None, settings))


def run_consumers(bootstrap: str, groups: int, members: int) -> None:
    """Consume with members of groups, each in a thread, until the process is killed."""
    owned = threading.Semaphore(0)

    def consume(group: int, member: int) -> None:
        config = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "log_level": 0}
        with ManagedConsumer(
            config,
            group=f"group-{group}",
            topics=[f"topic-{group}"],
            instance=f"member-{member}",
            on_assign=lambda _, partitions: [owned.release() for _ in partitions],
        ) as consumer:
            while True:
                consumer.consume(100, 0.5)

    for group in range(groups):
        for member in range(members):
            threading.Thread(target=consume, args=(group, member), daemon=True).start()
    for _ in range(groups * PARTITIONS):
        owned.acquire()
    sys.stdout.write(f"{groups} groups of {members} members own all partitions\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
