"""The pipeline's process: a Spark session, the query, and its health as log events.

The daemon starts this process as its child, passes the settings in a file, restarts it when it
dies or falls silent, and ends it with SIGTERM. The process handles no signal: its end is harmless
at any moment, since the checkpoint continues from the last batch, and the JVM ends with it. Without
the daemon `levelwind.daemon.pipeline.standalone` runs the same.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from levelwind.daemon.errors import ClusterUnavailableError, LevelwindError, NotFoundError
from levelwind.daemon.paths import own_temporary_directory
from levelwind.daemon.pipeline import stale_output
from levelwind.daemon.pipeline.liveness.heartbeat import Heartbeat
from levelwind.daemon.pipeline.liveness.signs_of_life import ExecutorWatch
from levelwind.daemon.pipeline.liveness.unread_input import UnreadInput
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.daemon.pipeline.progress_totals import REPORT_INTERVAL_SECONDS, ProgressTotals
from levelwind.daemon.pipeline.progress_writer import ProgressWriter
from levelwind.daemon.pipeline.query_probe import SparkProbe
from levelwind.daemon.pipeline.reporter import ProgressReporter, emit
from levelwind.daemon.telemetry import log_config
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.watch_mark import WatchMark
from levelwind.deploy import class_data
from levelwind.deploy.errors import SetupError
from levelwind.deploy.java import home as java_home
from levelwind.streaming.errors import (
    AccessDenied,
    ClusterUnreachable,
    PipelineError,
    TopicMissing,
)
from levelwind.streaming.spark import checkpoint
from levelwind.streaming.spark.batches.progress import Terminated
from levelwind.streaming.spark.failure_diagnosis import FailureCause, diagnose
from levelwind.streaming.spark.settings import SEVERAL_TASKS, is_local, is_submitted

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from levelwind.daemon.config.settings import Settings
    from levelwind.streaming.spark.store.checkpoint_files import CheckpointFiles

log = Logger()

RETRY_SECONDS = 30.0
"""Pause after stale output could not be verified, or that could not be noted: the cluster or the
checkpoint's files did not answer."""


def main(file: Path) -> int:
    """Run the query until it ends by itself, which it should not; return the exit code, 1.

    The process logs JSON; the daemon writes the events in the form of its own settings.
    """
    order = PipelineOrder.model_validate_json(file.read_text(encoding="utf-8"))
    log_config.configure(level=order.settings.log.level, form="json")
    with own_temporary_directory():
        return run(order)


def run(order: PipelineOrder, emit: Callable[[Mapping[str, Any]], None] = emit) -> int:
    """Run the query until it ends by itself, which it should not; log why, and return 1.

    Args:
        order: the parameters of the process.
        emit: takes the figures of each batch, and the heartbeats.
    """
    try:
        _run(order, emit)
    except ImportError as error:
        reason = f"a Python module is missing: install levelwind anew ({error})"
        _report_failure(reason, FailureCause.MACHINE)
    except OSError as error:
        _report_failure(f"a process or a file was refused: {error}", FailureCause.MACHINE)
    except SetupError as error:
        _report_failure(str(error), FailureCause.MACHINE)
    except (ClusterUnreachable, TopicMissing, AccessDenied, ClusterUnavailableError) as error:
        _report_failure(str(error), FailureCause.CLUSTER)
    except (PipelineError, LevelwindError) as error:
        _report_failure(str(error), diagnose(str(error)).cause)
    return 1


def _report_failure(reason: str, cause: FailureCause) -> None:
    log.error("pipeline.failed", error=reason, cause=cause.value, rebuild=False)


def _run(order: PipelineOrder, emit: Callable[[Mapping[str, Any]], None]) -> None:
    begun = time.monotonic()
    if not is_submitted():  # else spark-submit has started the JVM
        os.environ["JAVA_HOME"] = str(java_home())
    # Spark's libraries take a second to import; no other process of the daemon imports them.
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from levelwind.streaming.spark import session  # noqa: PLC0415
    from levelwind.streaming.spark.store.hadoop_files import open_files  # noqa: PLC0415

    imported = time.monotonic()
    importing = Thread(target=_import_query)
    importing.start()
    settings = order.settings.pipeline_settings(order.jars)
    local = is_local(settings.spark) and not is_submitted()
    totals = ProgressTotals(
        instance=f"{socket.gethostname()}/{uuid4().hex[:8]}",
        started_at=now_ms(),
        daemon=order.daemon,
    )
    directory = settings.checkpoint if isinstance(settings.checkpoint, Path) else None
    # Nothing that ends the session's start can be the fault of a checkpoint that is not open yet.
    reporter = ProgressReporter(None, begun=begun, emit=emit, totals=totals)
    heartbeat: Heartbeat | None = None
    writer = ProgressWriter(
        order.settings,
        totals,
        is_alive=lambda: heartbeat is None or heartbeat.answered_within(REPORT_INTERVAL_SECONDS),
        end=end_at_once,
    )
    writer.start()
    try:
        spark = session.create(
            settings.jars,
            parallelism=settings.parallelism or SEVERAL_TASKS,
            spark=session.checkpoint_options(settings.checkpoint) | dict(settings.spark),
            jvm_options=class_data_options(settings.jars, record_classes=order.record_classes)
            if local
            else (),
        )
        created = time.monotonic()
        if local:
            Thread(target=session.start_workers, args=(spark,), daemon=True).start()
        importing.join()
        from levelwind.streaming.spark import query as pipeline  # noqa: PLC0415

        if directory is not None and session.is_everywhere(spark):
            raise PipelineError(
                "on a Spark cluster pipeline.checkpoint must be a URI of a directory that every"
                " executor reaches, as in hdfs://host/levelwind or file:///shared/levelwind"
            )
        reporter.files = files = open_files(spark, settings.checkpoint)
        everywhere = session.is_everywhere(spark)
        patience = order.settings.pipeline.progress_timeout
        probe = SparkProbe(
            spark,
            reporter,
            UnreadInput(order.settings, writer.is_acknowledged),
            ExecutorWatch(patience) if everywhere else None,
        )
        if order.record_classes is None:
            heartbeat = Heartbeat(
                session.jvm(spark),
                probe,
                emit,
                end_at_once,
                everywhere=everywhere,
            )
            heartbeat.start()
        probe.follow(
            pipeline.start(
                spark,
                settings,
                probe.on_progress,
                reporter.on_set_aside,
                _published_ends(order.settings),
                files,
                WatchMark(order.settings.state_dir).is_valid,
            )
        )
    except (Py4JError, PySparkException) as error:  # Spark refuses its settings or the checkpoint
        reporter.on_progress(Terminated(error=text_of(error), at_start=True))
        writer.write_last()
        end_at_once()
    started = time.monotonic()
    log.info(
        "pipeline.started",
        seconds=round(started - begun, 1),
        imports=round(imported - begun, 1),
        spark=round(created - imported, 1),
        query=round(started - created, 1),
        parallelism=checkpoint.parallelism(files),
    )
    reporter.caught_up.wait()
    if order.record_classes is not None:
        session.end_jvm(spark)
        end_at_once()
    verify_stale_output(
        files,
        partial(stale_output.request_verification, order.settings),
        reporter.ended,
    )
    reporter.ended.wait()
    writer.write_last()
    end_at_once()


def _import_query() -> None:
    """Import the query and pandas, which pyspark asks for, while the JVM starts on another core."""
    with suppress(ImportError):  # whoever needs it says so
        for module in ("pandas", "levelwind.streaming.spark.query"):
            import_module(module)


def text_of(error: Exception) -> str:
    """The text of an error of Spark's, which the JVM is asked for; where it has ended, of that."""
    try:
        return str(error)
    except Exception as lost:  # noqa: BLE001 - an ended JVM shows itself in many ways
        return str(lost)


def class_data_options(
    jars: Sequence[Path], *, record_classes: Path | None = None
) -> tuple[str, ...]:
    """Options of Spark's JVM for its class-data archive.

    Args:
        jars: the jars of Spark's class path.
        record_classes: file to write the archive to; None: use it if there is one.
    """
    if record_classes is not None:
        return class_data.recording_options(record_classes)
    return class_data.options(spark_archive(jars))


def spark_archive(jars: Sequence[Path]) -> Path:
    """Path of the class-data archive of Spark's JVM, whether it exists or not."""
    from levelwind.streaming.spark import session  # noqa: PLC0415 - as in `_run`
    from levelwind.streaming.spark.jvm import driver_jvm  # noqa: PLC0415 - as above

    class_path = driver_jvm.class_path(session.options(jars, parallelism=1))
    files = driver_jvm.class_path_files(class_path)
    return class_data.archive("spark", java_home() / "bin" / "java", files)


def end_at_once() -> NoReturn:
    """End this process: a regular exit may hang while Spark closes the remains of a query."""
    sys.stdout.flush()
    os._exit(1)


def _published_ends(settings: Settings) -> Mapping[str, int]:
    try:
        return stale_output.published_ends(settings)
    except NotFoundError:  # nothing was published before; a missing topic fails the start
        return {}


def verify_stale_output(
    files: CheckpointFiles,
    ask: Callable[[Mapping[str, int]], int],
    ended: threading.Event,
) -> None:
    """Have the query verify the output of earlier checkpoints, unless it has done so.

    Args:
        files: the directory of the checkpoint.
        ask: requests the verification of the records published before these offsets; returns the
            number of keys.
        ended: set when the query has ended.
    """
    keys: int | None = None
    is_logged = False
    while not ended.is_set():
        try:
            if keys is None:
                if (ends := checkpoint.unverified(files)) is None:
                    return
                keys = ask(ends)
                if keys:
                    log.info("pipeline.stale_output_checked", keys=keys)
            # Asked for once in each start, whether or not that can be noted.
            checkpoint.mark_verified(files)
        except (LevelwindError, PipelineError, OSError) as error:
            if not is_logged:  # verification may happen at any time
                log.warning("pipeline.stale_output_unchecked", error=str(error))
                is_logged = True
            ended.wait(RETRY_SECONDS)
        else:
            return


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
