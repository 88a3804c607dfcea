"""CPU time of each command from start to end, beside its goal and beside a bare interpreter.

    python tests/benchmarks/bench_startup.py [--runs 7] [--no-cluster]

User and system time of the child process, median of several runs. `installed` is how an installer
leaves the packages: with byte code, which is written to a temporary directory before anything is
measured. `here` is this checkout as it is: where PYTHONDONTWRITEBYTECODE is set and nothing was
compiled, each run compiles every module that it imports. Commands that ask the cluster ask one real
broker, whose topics hold one small group, its plan and one dead letter.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from confluent_kafka import Producer

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import (
    DeadLetter,
    LagRecord,
    MemberAssignment,
    MemberRecord,
    encode,
)
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.deploy.cluster import Cluster
from levelwind_testing.source_tree import NAMES

GROUP = "orders"
PARTITIONS = 12
PROBLEM = {
    "topics": {"orders.placed": {"partitions": PARTITIONS}},
    "members": {f"worker-{number}": {"topics": ["orders.placed"]} for number in range(3)},
    "lags": {"orders.placed": [1000 * number for number in range(PARTITIONS)]},
}


class Measured(NamedTuple):
    """A command line of Python, its name in the output and its goal."""

    name: str
    arguments: tuple[str, ...]
    goal: float | None = None
    """Seconds of CPU."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="runs of each command")
    parser.add_argument(
        "--no-cluster", action="store_true", help="leave out the commands that need a broker"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        problem = Path(directory) / "problem.jsonl"
        problem.write_text(json.dumps(PROBLEM) + "\n")
        lines = [
            Measured("python -c pass", ("-c", "pass")),
            Measured("python -c 'import numpy'", ("-c", "import numpy")),
            levelwind(0.25, "--help"),
            levelwind(0.25, "groups", "--help"),
            levelwind(0.25, "assign", str(problem)),
            levelwind(0.25, "explain", str(problem), "--partition", "orders.placed/11"),
        ]
        print(f"{'seconds of CPU':34}{'installed':>10}{'goal':>7}{'here':>8}")
        measure(lines, options.runs, Path(directory))
        if options.no_cluster:
            return
        with small_cluster() as connection:
            measure(
                [
                    levelwind(0.6, "groups", *connection),
                    levelwind(0.6, "describe", GROUP, *connection),
                    levelwind(0.6, "rebalance", GROUP, *connection),
                    levelwind(0.6, "dead-letters", *connection),
                ],
                options.runs,
                Path(directory),
            )


def levelwind(goal: float, *arguments: str) -> Measured:
    """A command of levelwind, named by the words before its file and options."""
    words = [word for word in arguments[:2] if not word.startswith(("/", "--b"))]
    return Measured(
        f"levelwind {' '.join(words)}", ("-m", "levelwind.daemon.cli", *arguments), goal
    )


def measure(lines: list[Measured], runs: int, directory: Path) -> None:
    """Print a line for each command."""
    here = os.environ | {"PYTHONPATH": str(NAMES)}
    installed = here | {"PYTHONPYCACHEPREFIX": str(directory), "PYTHONDONTWRITEBYTECODE": ""}
    for line in lines:
        cpu_seconds(line, installed)  # writes the byte code
        compiled = statistics.median(cpu_seconds(line, installed) for _ in range(runs))
        unchanged = statistics.median(cpu_seconds(line, here) for _ in range(runs))
        goal = f"{line.goal:7.2f}" if line.goal else " " * 7
        missed = "  missed" if line.goal and compiled > line.goal else ""
        print(f"{line.name:34}{compiled:10.2f}{goal}{unchanged:8.2f}{missed}", flush=True)


def cpu_seconds(line: Measured, environment: Mapping[str, str]) -> float:
    """Run a command once; user and system time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *line.arguments], env=environment, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def small_cluster() -> Iterator[tuple[str, ...]]:
    """Start one broker with records of a pipeline and a planner; yields the commands' options."""
    quiet = SimpleNamespace(**dict.fromkeys(("info", "warning", "error"), lambda *_, **__: None))
    with Cluster.start(1) as cluster:
        client, topics = {"bootstrap.servers": cluster.bootstrap}, Topics("levelwind.")
        ensure_topics(client, topics, TopicSettings(), quiet)
        producer = Producer(client)
        for kind, record in records():
            key, value = encode(record)
            producer.produce(topics.name(kind), value, key, partition=0)
        if producer.flush(20):
            sys.exit("the broker did not take the records")
        yield ("--bootstrap", cluster.bootstrap)


def records():
    """Records of levelwind's topics about one group with three members."""
    numbers = range(PARTITIONS)
    yield (
        "lag",
        LagRecord(
            group=GROUP,
            topic="orders.placed",
            at=1_000,
            id="AAAAAAAAAAAAAAAAAAAAAA",
            end_kind="stable",
            committed=(100,) * PARTITIONS,
            committed_at=(1_000,) * PARTITIONS,
            begin=(0,) * PARTITIONS,
            end=tuple(100 + number for number in numbers),
            lag=tuple(numbers),
            lost=(0,) * PARTITIONS,
            stale=(),
            racks=(("a", "b"),) * PARTITIONS,
            source={},
        ),
    )
    for member in range(3):
        yield (
            "members",
            MemberRecord(
                group=GROUP,
                instance=f"worker-{member}",
                incarnation="1",
                client="bench",
                client_version="1",
                topics=("orders.placed",),
                rack="a",
                priority=3,
                capacity=1.0,
                state="active",
                planner_epoch=1,
                acked_epoch=1,
                owned={},
                starting={},
                nack=None,
                features=(),
                heartbeat=1,
                hold_ms=20_000,
                commit_ms=12_000,
                max_poll_interval_ms=300_000,
            ),
        )
        yield (
            "assignments",
            MemberAssignment(
                group=GROUP,
                instance=f"worker-{member}",
                incarnation="1",
                planner_epoch=1,
                group_epoch=1,
                member_epoch=1,
                state="active",
                assigned=ranges.by_topic(
                    [("orders.placed", n) for n in numbers if n % 3 == member]
                ),
                pending={},
                revoking={},
                reason="membership",
                rack="a",
                capacity=1.0,
            ),
        )
    yield (
        "dead_letters",
        DeadLetter(
            topic="__consumer_offsets",
            partition=0,
            offset=0,
            at=1_000,
            reason="too new",
            raw_key=b"k",
            raw_value=b"v",
        ),
    )


if __name__ == "__main__":
    main()
