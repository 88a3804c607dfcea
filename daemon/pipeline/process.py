"""The pipeline's process: a Spark session, the query, and its health as log events.

It is a child of the daemon, which passes the settings in a file, starts it again when it dies, and ends it with SIGTERM.
Nothing is done on that signal: ending it at any moment is harmless, since its checkpoint goes on from the last batch, and
the JVM goes with it.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.errors import LevelwindError, NotFoundError
from daemon.pipeline import stale_output
from daemon.pipeline.order import PipelineOrder
from daemon.pipeline.reporter import ProgressReporter
from daemon.telemetry import log_config as logs
from daemon.telemetry.logger import Logger
from deploy.errors import SetupError
from deploy.java import home as java_home
from streaming.errors import PipelineError
from streaming.spark import checkpoint
from streaming.spark.progress import Terminated

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from daemon.config.settings import Settings

log = Logger()

RETRY_SECONDS = 30.0
"""Seconds, where the cluster did not take what the query was to be asked."""


def main(file: Path) -> int:
    """Run the query until it ends by itself, which it should not; the exit code is then 1."""
    order = PipelineOrder.model_validate_json(file.read_text())
    logs.configure(
        level=order.settings.log.level, form="json"
    )  # the daemon says it as its own settings want it
    try:
        _run(order)
    except (PipelineError, SetupError, LevelwindError) as error:
        log.error("pipeline.failed", error=str(error))  # noqa: TRY400 - its text says it all
    return 1


def _run(order: PipelineOrder) -> None:
    begun = time.monotonic()
    os.environ["JAVA_HOME"] = str(java_home())
    # Spark's libraries take a second to import: only this process does.
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from streaming.spark import query as pipeline  # noqa: PLC0415
    from streaming.spark import session  # noqa: PLC0415

    settings = order.settings.pipeline_settings(order.jars)
    spark = session.create(settings.jars, parallelism=settings.parallelism, spark=settings.spark)
    reporter = ProgressReporter(settings.checkpoint, begun=begun)
    try:
        pipeline.start(
            spark, settings, reporter.on_progress, reporter.on_set_aside, _written(order.settings)
        )
    except (Py4JError, PySparkException) as error:  # Spark refuses what it finds in the checkpoint
        reporter.on_progress(Terminated(error=str(error)))
        return
    log.info("pipeline.started", seconds=round(time.monotonic() - begun, 1))
    reporter.caught_up.wait()
    verify_stale_output(
        settings.checkpoint,
        partial(stale_output.request_verification, order.settings),
        reporter.ended,
    )
    reporter.ended.wait()
    # Whatever Spark still wants to close may hang on what ended the query.
    os._exit(1)


def _written(settings: Settings) -> Mapping[str, int]:
    try:
        return stale_output.written(settings)
    except NotFoundError:  # nothing was ever published; or the start says what is missing
        return {}


def verify_stale_output(
    checkpoint_in: Path, ask: Callable[[Mapping[str, int]], int], ended: threading.Event
) -> None:
    """Have the query asked about what former states have published, if it was not yet."""
    while not ended.is_set() and (former := checkpoint.unverified(checkpoint_in)) is not None:
        try:
            asked = ask(former)
        except LevelwindError:  # nothing depends on when it is asked
            ended.wait(RETRY_SECONDS)
        else:
            checkpoint.mark_verified(checkpoint_in)
            if asked:
                log.info("pipeline.stale_output_checked", keys=asked)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
