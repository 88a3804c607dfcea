"""Rehearsal of a start for class-data archives: `python -m levelwind.daemon.pipeline.rehearsal`.

`make setup` runs it: a broker and the pipeline's own process on it, with one group's lag, each of
which writes its archive when it ends. Both compile fast rather than well meanwhile. Nothing depends
on the archives, so a failure is reported and does no harm.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.errors import LevelwindError, PipelineFailedError
from levelwind.daemon.kafka import clients, topic_setup
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.paths import remove_abandoned
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.daemon.pipeline.process import spark_archive
from levelwind.daemon.pipeline.supervisor import COMMAND
from levelwind.daemon.telemetry import log_config
from levelwind.daemon.telemetry.logger import Logger
from levelwind.deploy import class_data, guard
from levelwind.deploy.cluster import Cluster, broker_archive
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import classpath
from levelwind.deploy.java import java
from levelwind.streaming.spark.settings import SEVERAL_TASKS

if TYPE_CHECKING:
    from collections.abc import Callable

log = Logger()

GROUP = TOPIC = "rehearsal"
PARTITIONS = 3
WITHIN_SECONDS = 900.0
"""Time after which a rehearsal is given up; on a quiet machine it takes half a minute."""
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


def rehearse(progress: Callable[[str], None]) -> None:
    """Write the archives that are missing.

    Args:
        progress: called with a few words where there is anything to do.

    Raises:
        SetupError: no broker could be started.
        LevelwindError: the broker does not answer, or no archive was written.
    """
    runtime, broker_jars, spark_jars = java(), classpath("brokers"), classpath("spark")
    of_broker, of_spark = broker_archive(runtime, broker_jars), spark_archive(spark_jars)
    if of_broker.exists() and of_spark.exists():
        return
    progress("rehearsing a start, so that later ones take less time")
    broker_draft = None if of_broker.exists() else class_data.draft_of(of_broker)
    with (
        Cluster.start(1, record_classes=broker_draft) as cluster,
        tempfile.TemporaryDirectory(prefix="levelwind-rehearsal-") as directory,
    ):
        settings = Settings(
            bootstrap=cluster.bootstrap,
            state_dir=Path(directory),
            # With several tasks Spark uses the classes of a shuffle as well.
            pipeline=PipelineSection(parallelism=SEVERAL_TASKS, spark=QUICK),
        )
        _write_input(settings)
        # Both JVMs write their archives at the same time.
        stopping = threading.Thread(target=cluster.stop_broker, args=(1,))
        _run_pipeline(settings, spark_jars, class_data.draft_of(of_spark), stopping.start)
        if stopping.ident is not None:
            stopping.join()
    if not class_data.adopt(class_data.draft_of(of_spark), of_spark):
        raise PipelineFailedError("the pipeline's process wrote no archive")
    if broker_draft is not None and not class_data.adopt(broker_draft, of_broker):
        raise PipelineFailedError("the broker wrote no archive")


def _run_pipeline(
    settings: Settings, jars: tuple[Path, ...], draft: Path, on_caught_up: Callable[[], None]
) -> None:
    """Run the pipeline's process until it has written its archive and ended.

    Args:
        settings: the settings of the process.
        jars: the jars of Spark's class path.
        draft: the file to write.
        on_caught_up: called when the query has done its work and needs no broker any more.
    """
    file = settings.state_dir / "order.json"
    order = PipelineOrder(settings=settings, jars=jars, record_classes=draft)
    file.write_text(order.model_dump_json(), encoding="utf-8")
    child = guard.start([*COMMAND, str(file)], output=subprocess.PIPE)
    overdue = threading.Timer(WITHIN_SECONDS, child.ask_to_kill)
    overdue.start()
    try:
        for line in child.process.stdout or ():
            if b'"pipeline.caught_up"' in line:
                on_caught_up()
    finally:
        overdue.cancel()
        child.kill()
        remove_abandoned()


def _write_input(settings: Settings) -> None:
    """Commit as a group, and have the observer sample its topic."""
    client = settings.client()
    admin = clients.admin(client)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    topic_setup.ensure_offsets_topic(client, settings.topic, GROUP)
    _commit(settings)
    topic_setup.ensure_topics(client, settings.topics, settings.topic, log)
    observer = Observer(client, settings.topics, settings.observer, log)
    observer.tick_metadata()
    observer.tick_offsets()
    observer.close()


def _commit(settings: Settings) -> None:
    consumer = clients.consumer(settings.client(), {"group.id": GROUP})
    offsets = [TopicPartition(TOPIC, number, 1) for number in range(PARTITIONS)]
    until = time.monotonic() + WITHIN_SECONDS
    while True:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:  # its coordinator is not there yet
            if time.monotonic() > until:
                raise
        else:
            break
    consumer.close()


def main() -> None:
    """Run the rehearsal for `make setup`."""
    log_config.configure(level="error")
    try:
        rehearse(lambda step: print(f"setup: {step}", flush=True))  # noqa: T201 - for the terminal
    except (LevelwindError, SetupError, KafkaException, OSError) as error:
        sys.stderr.write(f"setup: the rehearsal failed, and starts will take longer: {error}\n")


if __name__ == "__main__":
    main()
