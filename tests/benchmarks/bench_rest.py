"""CPU and memory of an idle levelwind: the daemon and its pipeline, watching 10,000 partitions.

    python tests/benchmarks/bench_rest.py [--topics 200] [--partitions 50] [--groups 1]
                                          [--readers 2000] [--seconds 60] [--settle 60]
                                          [--set pipeline.spark.NAME=VALUE]

One real broker with that many partitions, a group that has committed in each, and as many groups as
`--readers` says that have committed in one topic each; nothing is produced or committed any more.
First the observer alone, in a process of its own; then the whole daemon as `levelwind run` starts
it: its own process, which is the observer, the control and their Kafka clients, and below it the
pipeline, a JVM and Python workers.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.config.settings import load
from levelwind.daemon.kafka import topic_setup
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.processes import processes
from levelwind_testing.processes.daemon_process import DaemonProcess

TOPICS_PER_REQUEST = 20
"""Topics to create, or to commit in, with one request."""
COMMITTING_THREADS = 8
BROKER = {
    "num.io.threads": "2",
    "offsets.topic.num.partitions": "4",
    "log.index.size.max.bytes": "4096",
}
HEAP = ("-Xms512m", "-Xmx2g", "-XX:+UseSerialGC")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument(
        "--groups", type=int, default=1, help="groups that have committed in every partition"
    )
    parser.add_argument(
        "--readers", type=int, default=0, help="groups that have committed in one topic each"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each measurement")
    parser.add_argument(
        "--settle",
        type=float,
        default=60.0,
        help="seconds at rest before the daemon is measured; half for the observer",
    )
    parser.add_argument(
        "--set", action="append", default=[], help="a setting of the daemon, as in levelwind run"
    )
    parser.add_argument("--observe", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.observe:
        observe(options.observe)
        return
    with (
        Cluster.start(1, settings=BROKER, jvm_options=HEAP) as cluster,
        tempfile.TemporaryDirectory() as directory,
    ):
        names = [f"topic-{number}" for number in range(options.topics)]
        create(cluster.bootstrap, names, options.partitions)
        for number in range(options.groups):
            commit(cluster.bootstrap, f"group-{number}", names, options.partitions)
        with ThreadPoolExecutor(COMMITTING_THREADS) as threads:
            readers = [(f"reader-{n}", [names[n % len(names)]]) for n in range(options.readers)]
            for done in [
                threads.submit(commit, cluster.bootstrap, *reader, options.partitions)
                for reader in readers
            ]:
                done.result()
        count, groups = options.topics * options.partitions, options.groups + options.readers
        print(
            f"{count:,} partitions, {groups:,} groups, {options.seconds:.0f} s at rest",
            flush=True,
        )
        measure_observer(cluster.bootstrap, options.settle / 2, options.seconds)
        measure_daemon(
            cluster.bootstrap, Path(directory), options.settle, options.seconds, options.set
        )


def create(bootstrap: str, names: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        new = [NewTopic(name, partitions, 1) for name in names[first : first + TOPICS_PER_REQUEST]]
        for future in admin.create_topics(new, operation_timeout=60, request_timeout=60).values():
            future.result()


def commit(bootstrap: str, group: str, names: list[str], partitions: int) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        offsets = [
            TopicPartition(name, number, 0)
            for name in names[first : first + TOPICS_PER_REQUEST]
            for number in range(partitions)
        ]
        commit_offsets(consumer, offsets)
    consumer.close()


def observe(bootstrap: str) -> None:
    """Run the observer's jobs under their scheduler, until this process is killed."""
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415 - only that process needs it

    settings = load(None, {"bootstrap": bootstrap})
    topic_setup.ensure_topics(settings.client(), settings.topics, settings.topic, Quiet())
    observer = Observer(settings.client(), Topics(), ObserverSettings(), Quiet())
    scheduler = BackgroundScheduler(timezone="UTC")
    observer.schedule(scheduler)
    scheduler.start()
    threading.Event().wait()


class Quiet:
    """A log that discards everything."""

    def __getattr__(self, _name: str) -> object:
        return lambda *_, **__: None


def measure_observer(bootstrap: str, settle: float, seconds: float) -> None:
    child = subprocess.Popen([sys.executable, __file__, "--observe", bootstrap])
    try:
        print("the observer alone\n" + usage_of(child.pid, settle, seconds), flush=True)
    finally:
        child.kill()
        child.wait()


def measure_daemon(
    bootstrap: str, state: Path, settle: float, seconds: float, settings: list[str]
) -> None:
    process = DaemonProcess(bootstrap, state, *settings)
    try:
        process.wait_for("the lead", lambda: process.logged("daemon.leading"), 180)
        process.wait_for("the first batches", lambda: process.logged("pipeline.caught_up"), 180)
        print("the daemon\n" + usage_of(process.child.process.pid, settle, seconds), flush=True)
        progress = process.logged("pipeline.progress")
        batches = [event["batch"] for event in progress[-2:]]
        print(f"    batches in the log's last two lines of progress: {batches}")
    finally:
        process.stop()


def usage_of(root: int, settle: float, seconds: float) -> str:
    """CPU and memory of a process and those below it for `seconds`, after `settle` seconds."""

    def name(pid: int, process: processes.Process) -> str:
        if "levelwind.daemon.pipeline.process" in process.command and process.name.startswith(
            "python"
        ):
            return "the pipeline's driver and workers"
        if process.name == "java":
            return "the pipeline's JVM"
        if "-m levelwind.streaming.spark.workers" in process.command:
            return "the pipeline's driver and workers"
        return (
            "the process itself"
            if process.name.startswith(("python", "levelwind"))
            else process.name
        )

    time.sleep(settle)
    before, begun = processes.usage(root, name, stop=""), time.monotonic()
    time.sleep(seconds)
    return processes.shown(before, processes.usage(root, name, stop=""), time.monotonic() - begun)


if __name__ == "__main__":
    main()
