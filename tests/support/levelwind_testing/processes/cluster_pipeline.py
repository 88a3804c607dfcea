"""The pipeline on a Spark cluster or on YARN, started by its command or by spark-submit."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from levelwind.deploy import distribution, guard
from levelwind.deploy.jars import classpath
from levelwind.streaming.spark.settings import WORKER_DAEMON
from levelwind_testing.processes.daemon_process import set_options
from levelwind_testing.processes.hadoop_cluster import HadoopCluster
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.spark_cluster import (
    EXECUTOR_MEMORY,
    SPARK_HOME,
    StandaloneSpark,
    command_of,
    descendants,
    kill_tree,
)
from levelwind_testing.waiting import wait_until

DRIVER_JVM = b"org.apache.spark.deploy.SparkSubmit"
MOST_STARTS = 4
"""Further starts within which a pipeline gets over a fault."""
SPARK = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def own_installation(bootstrap: str, prefix: str, directory: Path) -> list[str]:
    """Settings of a pipeline of an installation of its own, with its checkpoint in a directory."""
    return [
        f"bootstrap={bootstrap}",
        f"prefix={prefix}",
        f"pipeline.checkpoint={(directory / 'checkpoint').as_uri()}",
    ]


class ClusterPipeline:
    """A pipeline that nobody restarts; `events` grows with its log."""

    def __init__(
        self,
        spark: StandaloneSpark | HadoopCluster,
        archive: Path,
        directory: Path,
        settings: Sequence[str],
    ) -> None:
        self._spark = spark
        self._archive = archive
        self._directory = directory
        self._local = directory / "local"
        """The driver's own files: a copy of 280 MB of jars, which it leaves when it is killed."""
        self._spark_settings = {**SPARK, "spark.local.dir": str(self._local)}
        self._options = set_options("log.format=json", f"state_dir={directory}", *settings)
        directory.mkdir(exist_ok=True)
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self.child: guard.Guarded | None = None

    def start(self) -> None:
        """Start it by its command."""
        self.start_with("--archive", str(self._archive))

    def start_with(self, *options: str) -> None:
        """Start it by its command with other options than the archive; they win."""
        spark = set_options(*(_spark_setting(*pair) for pair in self._spark_settings.items()))
        command = [
            sys.executable,
            "-m",
            "levelwind.daemon.cli",
            "pipeline",
            "--master",
            self._spark.url,
        ]
        environment = os.environ | self._spark.variables
        self._start([*command, *self._options, *spark, *options], environment)

    def submit(self) -> None:
        """Start it by spark-submit, on a machine that has the archive unpacked and nothing else."""
        with tarfile.open(self._archive) as archive:
            archive.extractall(self._directory / "environment", filter="data")
        confs = {
            **self._spark_settings,
            "spark.archives": f"{self._archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.python.daemon.module": WORKER_DAEMON,
            "spark.jars": ",".join(map(str, classpath("spark"))),
        }
        options = [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
        application = self._archive.parent / distribution.APPLICATION
        submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self._spark.url]
        self._start(
            [*submit, *options, str(application), *self._options], self._spark.environment()
        )

    def _start(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self.events.clear()
        self.noise.clear()
        self.child = guard.start(
            command, output=subprocess.PIPE, environment=environment, directory=self._directory
        )
        follow_json_lines(self.child.process, self.events.append, self.noise)

    def logged(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == name]

    @property
    def caught_up(self) -> bool:
        """Whether it has read all its input since its start."""
        return bool(self.logged("pipeline.caught_up"))

    def to_the_end(self, starts: int = MOST_STARTS) -> None:
        """Wait until all input is read; start a process that ended again, as a supervisor does."""
        while True:
            try:
                self.wait_for("the end of the input", lambda: self.caught_up)
            except AssertionError:
                if not starts or self.child is None or self.child.poll() is None:
                    raise
                starts -= 1
                self.start()
            else:
                return

    def wait_for(self, what: str, question: Callable[[], Any], within: float = 300.0) -> Any:
        """Wait for a true answer while the process runs, and return it."""

        def asked() -> Any:
            answer = question()
            assert self.child is not None
            assert answer or self.child.poll() is None, f"ended before {what}: {self.tail()}"
            return answer

        return wait_until(what, asked, within, shown=self.tail)

    def wait_for_end(self, within: float = 120.0) -> int:
        assert self.child is not None
        return self.child.process.wait(within)

    def tail(self) -> str:
        return "\n".join([*map(str, self.events[-12:]), *self.noise[-30:], self._spark.output()])

    def kill(self, victim: str = "both") -> None:
        """Kill the driver's JVM, its Python or both; the other then ends by itself."""
        assert self.child is not None
        below = descendants(self.child.process.pid)
        jvms = [pid for pid in below if DRIVER_JVM in command_of(pid)]
        if victim == "jvm":
            for pid in jvms:
                kill_tree(pid, deep=False)
            self.wait_for_end()
        elif victim == "python":
            for pid in set(below) - set(jvms):
                if b"levelwind.daemon.cli" in command_of(pid):
                    kill_tree(pid, deep=False)
            self.wait_for_end()
        self.child.kill()
        shutil.rmtree(self._local, ignore_errors=True)


def _spark_setting(name: str, value: str) -> str:
    return f"pipeline.spark.{name}={value}"


def batches_done(query: Path) -> int:
    """The number of the last batch that a checkpoint holds as done; -1 before the first."""
    done = (int(file.name) for file in (query / "commits").glob("[0-9]*") if file.name.isdigit())
    return max(done, default=-1)


def batches_planned(query: Path) -> int:
    """The number of the last batch that a checkpoint holds as planned; -1 before the first."""
    planned = (int(f.name) for f in (query / "offsets").glob("[0-9]*") if f.name.isdigit())
    return max(planned, default=-1)
