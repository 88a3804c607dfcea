"""A standalone Spark cluster of the pyspark distribution, on loopback: a master and its workers.

The executors' interpreter is the base Python of this one: it has no package of levelwind's and none
of its libraries. Nothing of the parent's environment reaches them.
"""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from levelwind.deploy import guard
from levelwind.deploy.java import java
from levelwind.deploy.ports import HOST
from levelwind_testing.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).resolve().parent
HEAP = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
EXECUTOR_MEMORY = "640m"


@dataclass(slots=True)
class StandaloneSpark:
    directory: Path
    url: str = ""
    processes: dict[str, guard.Guarded] = field(default_factory=dict)
    _started: int = 0

    def start_worker(self) -> str:
        """Start one more worker with one core; return its name."""
        self._started += 1
        name = f"worker-{self._started}"
        self._start(
            name,
            "org.apache.spark.deploy.worker.Worker",
            *("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0"),
            *("--work-dir", str(self.directory / name), self.url),
        )
        return name

    def kill(self, name: str) -> None:
        """Kill a worker with all its executors, and their Python processes, as a lost machine."""
        process = self.processes.pop(name)
        for executor in executors_below(process.process.pid):
            kill_tree(executor)
        process.kill()

    @property
    def variables(self) -> dict[str, str]:
        """What a driver's environment needs besides."""
        return {"SPARK_LOCAL_IP": HOST}

    @property
    def workers(self) -> list[str]:
        return [name for name in self.processes if name.startswith("worker")]

    def output(self) -> str:
        """The last lines of every process, for the text of a failed test."""
        return last_lines(self.directory, "*.log", "worker-*/app-*/*/std*")

    def _start(self, name: str, main: str, *arguments: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = guard.start(
                [str(java()), *HEAP, "-cp", f"{SPARK_HOME}/jars/*", main, *arguments],
                output=log,
                environment=self.environment(),
                directory=self.directory,
            )

    @staticmethod
    def environment() -> dict[str, str]:
        base = Path(sys.base_prefix) / "bin"
        return {
            "PATH": os.pathsep.join([str(base), "/usr/bin", "/bin"]),
            "HOME": os.environ.get("HOME", "/"),
            "JAVA_HOME": str(java().parents[1]),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",  # otherwise looked for in a checkout of Spark
            "SPARK_LOCAL_IP": HOST,
            "MALLOC_ARENA_MAX": "2",
        }

    def wait_for(self, name: str, text: str) -> str:
        """Wait until a process has logged a text, and return its log so far."""

        def logged() -> str:
            assert self.processes[name].poll() is None, self.output()
            log = (self.directory / f"{name}.log").read_text(errors="replace")
            return log if text in log else ""

        return wait_until(f"'{text}' of {name}", logged, shown=self.output)


@contextmanager
def standalone_spark(directory: Path, workers: int = 2) -> Iterator[StandaloneSpark]:
    """Run a cluster for the time of a test."""
    cluster = StandaloneSpark(directory)
    try:
        cluster._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", HOST, "--port", "0", "--webui-port", "0"),
        )
        log = cluster.wait_for("master", "I have been elected leader")
        cluster.url = re.findall(r"Starting Spark master at (\S+)", log)[0]
        for name in [cluster.start_worker() for _ in range(workers)]:
            cluster.wait_for(name, "Successfully registered with master")
        yield cluster
    finally:
        for name in list(cluster.processes):
            cluster.kill(name)


def last_lines(directory: Path, *patterns: str) -> str:
    """The last lines of each file of a directory that a pattern matches."""
    return "\n".join(
        f"== {file.relative_to(directory)}\n" + "\n".join(lines[-15:])
        for pattern in patterns
        for file in directory.glob(pattern)
        if (lines := file.read_text(errors="replace").splitlines())
    )


def executors_below(root: int) -> list[int]:
    """The process ids of the executors that a worker has started."""
    return [pid for pid in descendants(root) if b"CoarseGrainedExecutorBackend" in command_of(pid)]


def descendants(root: int) -> list[int]:
    """The processes below a process; those without a parent any more are not among them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def kill_tree(root: int, *, deep: bool = True) -> None:
    """Kill a process, and those below it."""
    for pid in [root, *(descendants(root) if deep else ())]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> bytes:
    """The command line of a process; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
