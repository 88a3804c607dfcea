"""The pipeline's process: a Spark session, the query, and its health as log events.

It is a child of the daemon, which passes the settings in a file, starts it again when it dies, and ends it with SIGTERM.
Nothing is done on that signal: ending it at any moment is harmless, since its checkpoint goes on from the last batch, and
the JVM goes with it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from pydantic import BaseModel, ConfigDict

from daemon import logs
from daemon.settings import Settings  # noqa: TC001 - the order is validated by its annotations
from deploy.errors import SetupError
from deploy.java import home as java_home
from streaming.errors import PipelineError
from streaming.progress import Progress, Terminated

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

SAY_EVERY = 10.0
"""Seconds between two lines of progress; a batch with rejections is always said."""


class PipelineOrder(BaseModel):
    """What the daemon tells the pipeline's process."""

    model_config = ConfigDict(frozen=True)

    settings: Settings
    jars: tuple[Path, ...]


def main(file: Path) -> int:
    """Run the query until it ends by itself, which it should not; the exit code is then 1."""
    order = PipelineOrder.model_validate_json(file.read_text())
    logs.configure(
        level=order.settings.log.level, form="json"
    )  # the daemon says it as its own settings want it
    try:
        _run(order)
    except (PipelineError, SetupError) as error:
        log.error("pipeline.failed", error=str(error))  # noqa: TRY400 - its text says it all
    return 1


def _run(order: PipelineOrder) -> None:
    begun = time.monotonic()
    os.environ["JAVA_HOME"] = str(java_home())
    # Spark's libraries take a second to import: only this process does.
    from streaming import pipeline, session  # noqa: PLC0415

    settings = order.settings.pipeline_settings(order.jars)
    spark = session.create(settings.jars, parallelism=settings.parallelism, spark=settings.spark)
    teller = Teller()
    pipeline.start(
        spark,
        settings,
        teller.tell,
        lambda place: log.warning("pipeline.checkpoint_set_aside", moved_to=place),
    )
    log.info("pipeline.started", seconds=round(time.monotonic() - begun, 1))
    teller.ended.wait()
    # Whatever Spark still wants to close may hang on what ended the query.
    os._exit(1)


class Teller:
    """Says how the query does; called in a thread of Spark's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._say_at = float("-inf")
        self.ended = threading.Event()

    def tell(self, news: Progress | Terminated) -> None:
        """Take in a batch, or the end."""
        match news:
            case Progress():
                self._progress(news)
            case Terminated(error=error):
                log.error("pipeline.failed", error=error or "the query was stopped")
                self.ended.set()

    def _progress(self, batch: Progress) -> None:
        if batch.rejected:
            log.warning("pipeline.rejected", batch=batch.batch, rejected=dict(batch.rejected))
        now = self._clock()
        if now < self._say_at:
            return
        self._say_at = now + SAY_EVERY
        log.info(
            "pipeline.progress",
            batch=batch.batch,
            rows=batch.rows,
            rows_per_second=round(batch.rows_per_second),
            batch_ms=batch.batch_ms,
            behind=batch.behind,
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            skipped=dict(batch.skipped),
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
