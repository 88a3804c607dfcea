"""Hadoop on loopback: HDFS with one data node, and YARN with one node manager.

Three JVMs of Hadoop's own mini cluster. Containers of YARN get the base Python of this one, as the
executors of `spark_cluster` do, and nothing of the parent's environment.
"""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from levelwind.deploy import guard
from levelwind.deploy.jars import classpath
from levelwind.deploy.java import java
from levelwind.deploy.ports import HOST, answers, free_ports
from levelwind_testing.processes.spark_cluster import SPARK_HOME, StandaloneSpark, last_lines
from levelwind_testing.waiting import wait_until

HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STARTED = {
    "hdfs": "org.apache.hadoop.mapreduce.MiniHadoopClusterManager",
    "resources": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "node": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
}


@dataclass(slots=True)
class HadoopCluster:
    """A running cluster; as a cluster of Spark's its master is `yarn`."""

    directory: Path
    file_system: str
    """The URI of HDFS."""
    url: str = "yarn"
    processes: dict[str, guard.Guarded] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The environment's variables by which Spark finds it."""
        return {"SPARK_LOCAL_IP": HOST, "HADOOP_CONF_DIR": str(self.directory / "conf")}

    def environment(self) -> dict[str, str]:
        """The environment of a machine that has Spark and Hadoop's configuration."""
        return StandaloneSpark.environment() | self.variables

    def output(self) -> str:
        """The last lines of every process, for the text of a failed test."""
        return last_lines(self.directory, "*.log", "logs/*/*/std*")

    def start(self, name: str, *arguments: str) -> None:
        jars = ":".join([str(self.directory / "conf"), *map(str, classpath("hadoop"))])
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = guard.start(
                [
                    str(java()),
                    *HEAP,
                    f"-Dtest.build.data={self.directory / 'hdfs'}",
                    *("-cp", f"{jars}:{SPARK_HOME}/jars/*", STARTED[name], *arguments),
                ],
                output=log,
                environment=StandaloneSpark.environment(),
                directory=self.directory,
            )

    def wait_for(self, what: str, question: Callable[[], bool]) -> None:
        """Wait for a true answer while all processes run."""

        def asked() -> bool:
            assert all(process.poll() is None for process in self.processes.values()), self.output()
            return question()

        wait_until(what, asked, within=180.0, shown=self.output)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.kill()


@contextmanager
def hadoop_cluster(directory: Path) -> Iterator[HadoopCluster]:
    """Run a cluster for the time of a test."""
    ports = free_ports()
    cluster = HadoopCluster(directory, f"hdfs://{HOST}:{next(ports)}")
    configuration = directory / "conf"
    configuration.mkdir()
    _write(configuration / "core-site.xml", {"fs.defaultFS": cluster.file_system})
    settings = _yarn_settings(directory, ports)
    _write(configuration / "yarn-site.xml", settings)
    try:
        cluster.start(
            "hdfs",
            *("-nomr", "-format", "-nnport", cluster.file_system.rpartition(":")[2]),
            *("-writeConfig", str(directory / "hdfs.xml")),
        )
        cluster.start("resources")
        cluster.start("node")
        cluster.wait_for("HDFS", (directory / "hdfs.xml").exists)
        for name in ("yarn.resourcemanager.address", "yarn.nodemanager.address"):
            port = int(settings[name].rpartition(":")[2])
            cluster.wait_for(name, partial(answers, port))
        yield cluster
    finally:
        cluster.stop()


def _yarn_settings(directory: Path, ports: Iterator[int]) -> Mapping[str, str]:
    addresses = (
        *("resourcemanager.address", "resourcemanager.scheduler.address"),
        *("resourcemanager.resource-tracker.address", "resourcemanager.admin.address"),
        *("resourcemanager.webapp.address", "nodemanager.address"),
        *("nodemanager.localizer.address", "nodemanager.webapp.address"),
    )
    scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
    settings = {
        **{name: f"{HOST}:{next(ports)}" for name in addresses},
        "resourcemanager.hostname": HOST,
        "resourcemanager.scheduler.class": scheduler,
        "scheduler.minimum-allocation-mb": "128",
        "nodemanager.hostname": HOST,
        "nodemanager.bind-host": HOST,
        "nodemanager.resource.memory-mb": "6144",
        "nodemanager.resource.cpu-vcores": "4",
        "nodemanager.vmem-check-enabled": "false",
        "nodemanager.disk-health-checker.enable": "false",
        "nodemanager.local-dirs": str(directory / "local"),
        "nodemanager.log-dirs": str(directory / "logs"),
        "nodemanager.env-whitelist": ",".join(StandaloneSpark.environment()),
    }
    return {f"yarn.{name}": value for name, value in settings.items()}


def _write(file: Path, settings: Mapping[str, str]) -> None:
    root = ET.Element("configuration")
    for name, value in settings.items():
        entry = ET.SubElement(root, "property")
        ET.SubElement(entry, "name").text = name
        ET.SubElement(entry, "value").text = value
    ET.ElementTree(root).write(file)
