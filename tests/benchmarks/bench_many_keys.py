"""Two million live keys on this machine: rebuilt, updated, and restored after a restart.

    python tests/benchmarks/bench_many_keys.py [--groups 200] [--topics 100] [--partitions 100]
                                               [--rate 2000] [--every 10] [--seconds 60]

One real broker, and the pipeline's process as the daemon runs it. Every key (group, topic,
partition) is committed once, and the state built from that; then commits come at a rate over all
keys, beside a sample of each topic every so many seconds; then the process is killed and started
again, and a sample of each topic has it load and update every key. Memory is that of the pipeline's
processes together, at its peak.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.deploy import guard
from levelwind.deploy.cluster import Cluster
from levelwind.deploy.jars import classpath

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes import processes
from levelwind_testing.processes.commit_load import CommitLoad
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.offsets_writer import (
    OFFSETS_PARTITIONS,
    Load,
    OffsetsWriter,
)
from levelwind_testing.quantiles import quantiles
from levelwind_testing.waiting import wait_until

BROKER = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": str(2**30),
}
WITHIN = 900.0
LOOK_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--owners", type=int, default=5, help="members of each group")
    parser.add_argument("--rate", type=int, default=2_000, help="commits a second")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two samples")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the updates")
    options = parser.parse_args()
    keys = options.groups * options.topics * options.partitions
    load = Load(keys, options.groups, options.topics, options.partitions, options.owners)
    with (
        Cluster.start(1, settings=BROKER) as cluster,
        tempfile.TemporaryDirectory(prefix="levelwind-keys-") as directory,
    ):
        writer = OffsetsWriter(cluster.bootstrap, Topics())
        writer.create("real", 1)
        writer.assign_owners(load)
        commits = CommitLoad(writer, load, options.rate, options.every)
        begun = time.perf_counter()
        commits.prepare()
        print(f"{keys:,} keys written in {time.perf_counter() - begun:.0f} s", flush=True)
        pipeline = Pipeline(cluster.bootstrap, Path(directory))
        with pipeline.running("rebuilt"):
            wait_until("rebuilt state", lambda: pipeline.logged("pipeline.caught_up"), WITHIN)
            (caught_up,) = pipeline.logged("pipeline.caught_up")
            print(f"rebuilt from {caught_up['rows']:,} records in {caught_up['seconds']:.1f} s")
            print(f"    batches: {pipeline.batches()}", flush=True)
        with pipeline.running("updated"):
            commits.start()
            wait_until("batch", lambda: pipeline.logged("pipeline.batch"), WITHIN)
            wait_until("end of input", lambda: pipeline.logged("pipeline.caught_up"), WITHIN)
            time.sleep(options.every)
            known, before = len(pipeline.events), pipeline.usage()
            time.sleep(options.seconds)
            after = pipeline.usage()
            commits.stop()
            took = [
                event["batch_ms"] / 1000
                for event in pipeline.events[known:]
                if event["event"] == "pipeline.batch"
            ]
            print(
                f"updated by {options.rate:,} commits/s and a sample of each topic every"
                f" {options.every:g} s: {len(took)} batches, {quantiles(took)}"
            )
            print(processes.shown(before, after, options.seconds), flush=True)
            wait_until("idle pipeline", pipeline.is_idle, WITHIN)
        commits.sample()
        begun = time.perf_counter()
        with pipeline.running("restored"):
            (first, *_) = wait_until("batch", lambda: pipeline.logged("pipeline.batch"), WITHIN)
            whole = time.perf_counter() - begun
            (started,) = pipeline.logged("pipeline.started")
            seconds = first["batch_ms"] / 1000
            print(
                f"restored and updated by a sample of each topic: first batch {seconds:.1f} s,"
                f" {seconds / keys * 1e6:.1f} s a million keys; {whole:.1f} s from the start of the"
                f" process, {started['seconds']:.1f} s of it until the query"
            )


class Pipeline:
    """The pipeline's process, which its daemon would start."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._order = directory / "order.json"
        settings = Settings(
            bootstrap=bootstrap,
            state_dir=directory,
            pipeline=PipelineSection(),
        )
        order = PipelineOrder(settings=settings, jars=classpath("spark"))
        self._order.write_text(order.model_dump_json())
        self._checkpoint = directory / "checkpoint"
        self._root = 0
        self._peak: dict[str, int] = {}
        self.events: list[dict[str, Any]] = []

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        """Run it until the block ends, and print its memory."""
        self.events, self._peak, noise = [], {}, []
        command = [sys.executable, "-m", "levelwind.daemon.pipeline.process", str(self._order)]
        child = guard.start(command, output=subprocess.PIPE)
        self._root = child.process.pid
        over = threading.Event()
        follow_json_lines(child.process, self.events.append, noise)
        threading.Thread(target=self._watch_memory, args=(over,), daemon=True).start()
        try:
            yield
        except BaseException:
            print(*map(json.dumps, self.events[-10:]), *noise[-20:], sep="\n", file=sys.stderr)
            raise
        finally:
            over.set()
            child.kill()
        parts = ", ".join(f"{name} {size / 2**20:,.0f}" for name, size in self._peak.items())
        size = sum(f.stat().st_size for f in self._checkpoint.rglob("*") if f.is_file())
        print(
            f"    {what}: at the peak MiB: {parts}; checkpoint {size / 2**20:,.0f} MiB", flush=True
        )

    def _watch_memory(self, over: threading.Event) -> None:
        while not over.wait(LOOK_SECONDS):
            now: dict[str, int] = {"together": 0}
            for used in self.usage().values():
                now[used.name] = now.get(used.name, 0) + used.memory
                now["together"] += used.memory
            if now["together"] > self._peak.get("together", 0):
                self._peak = now

    def usage(self) -> dict[int, processes.Used]:
        """CPU and memory of its processes."""
        return processes.usage(self._root, lambda _, process: process.name, stop="")

    def logged(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == name]

    def batches(self) -> str:
        return ", ".join(
            f"{event['rows']:,} in {event['batch_ms'] / 1000:.1f} s"
            for event in self.logged("pipeline.batch")
        )

    def is_idle(self) -> bool:
        """Whether the last batch has read all there was."""
        return self.logged("pipeline.batch")[-1]["behind"] == 0


if __name__ == "__main__":
    main()
