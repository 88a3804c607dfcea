"""The pipeline's process: a Spark session, the query, and its health as log events.

It is a child of the daemon, which passes the settings in a file, starts it again when it dies, and ends it with SIGTERM.
Nothing is done on that signal: ending it at any moment is harmless, since its checkpoint goes on from the last batch, and
the JVM goes with it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import BaseModel, ConfigDict

from daemon import former_output, logs
from daemon.errors import LevelwindError, NotFoundError
from daemon.settings import Settings  # noqa: TC001 - the order is validated by its annotations
from deploy.errors import SetupError
from deploy.java import home as java_home
from streaming import checkpoint
from streaming.backlog import Backlog, Behind, CaughtUp
from streaming.errors import PipelineError
from streaming.failures import Blame, explain
from streaming.progress import Progress, Terminated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streaming.checkpoint import SetAside

log = structlog.get_logger()

SAY_EVERY = 10.0
"""Seconds between two lines of progress; a batch with rejections is always said."""
SAY_BEHIND_EVERY = 2.0
"""Seconds between two lines of how far it has caught up."""
ASK_AGAIN_AFTER = 30.0
"""Seconds, where the cluster did not take what the query was to be asked."""


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
    except (PipelineError, SetupError, LevelwindError) as error:
        log.error("pipeline.failed", error=str(error))  # noqa: TRY400 - its text says it all
    return 1


def _run(order: PipelineOrder) -> None:
    begun = time.monotonic()
    os.environ["JAVA_HOME"] = str(java_home())
    # Spark's libraries take a second to import: only this process does.
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from streaming import pipeline, session  # noqa: PLC0415

    settings = order.settings.pipeline_settings(order.jars)
    spark = session.create(settings.jars, parallelism=settings.parallelism, spark=settings.spark)
    teller = Teller(settings.checkpoint, begun=begun)
    try:
        pipeline.start(spark, settings, teller.tell, teller.set_aside, _written(order.settings))
    except (Py4JError, PySparkException) as error:  # Spark refuses what it finds in the checkpoint
        teller.tell(Terminated(error=str(error)))
        return
    log.info("pipeline.started", seconds=round(time.monotonic() - begun, 1))
    teller.caught_up.wait()
    look_through(settings.checkpoint, partial(former_output.ask, order.settings), teller.ended)
    teller.ended.wait()
    # Whatever Spark still wants to close may hang on what ended the query.
    os._exit(1)


def _written(settings: Settings) -> Mapping[str, int]:
    try:
        return former_output.written(settings)
    except NotFoundError:  # nothing was ever published; or the start says what is missing
        return {}


def look_through(
    checkpoint_in: Path, ask: Callable[[Mapping[str, int]], int], ended: threading.Event
) -> None:
    """Have the query asked about what former states have published, if it was not yet."""
    while not ended.is_set() and (former := checkpoint.unvouched(checkpoint_in)) is not None:
        try:
            asked = ask(former)
        except LevelwindError:  # nothing depends on when it is asked
            ended.wait(ASK_AGAIN_AFTER)
        else:
            checkpoint.vouch(checkpoint_in)
            if asked:
                log.info("pipeline.former_doubted", keys=asked)


def emit(event: Mapping[str, Any]) -> None:
    """Write one event for the parent, whatever level is logged: its metrics count every batch."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Teller:
    """Says how the query does, and judges its checkpoint when it dies; called in a thread of Spark's."""

    def __init__(
        self,
        checkpoint: Path,
        *,
        begun: float,
        clock: Callable[[], float] = time.monotonic,
        emit: Callable[[Mapping[str, Any]], None] = emit,
    ) -> None:
        self._checkpoint = checkpoint
        self._clock = clock
        self._emit = emit
        self._backlog = Backlog(begun=begun)
        self._say_at = float("-inf")
        self._say_behind_at = float("-inf")
        self._rebuilt = False
        self._batches = 0
        self.caught_up = threading.Event()
        self.ended = threading.Event()
        """Which ends all waiting, for `caught_up` too."""

    def set_aside(self, former: SetAside) -> None:
        """Say that the state is built anew, and why."""
        self._rebuilt = True
        log.warning("pipeline.checkpoint_set_aside", moved_to=str(former.place), reason=former.reason)

    def tell(self, news: Progress | Terminated) -> None:
        """Take in a batch, or the end."""
        match news:
            case Progress():
                self._progress(news)
            case Terminated(error=error):
                self._died(error or "the query was stopped")
                self.ended.set()
                self.caught_up.set()

    def _died(self, error: str) -> None:
        failure = explain(error)
        condemned = False
        if failure.blame is Blame.CHECKPOINT:
            checkpoint.condemn(self._checkpoint, failure.summary)
            condemned = True
        elif failure.blame is Blame.UNKNOWN and not self._batches:
            condemned = checkpoint.strike(self._checkpoint, failure.summary)
        log.debug("pipeline.trace", error=error)
        log.error("pipeline.failed", error=failure.summary, blame=failure.blame.value, rebuild=condemned)

    def _progress(self, batch: Progress) -> None:
        if not self._batches:
            checkpoint.acquit(self._checkpoint)
        self._batches += 1
        now = self._clock()
        if batch.rejected:
            log.warning("pipeline.rejected", batch=batch.batch, rejected=dict(batch.rejected))
        self._emit(batch_event(batch, at=int(time.time() * 1000)))
        self._catch_up(batch, now)
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
            newest=batch.newest,
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            skipped=dict(batch.skipped),
        )

    def _catch_up(self, batch: Progress, now: float) -> None:
        self._backlog, news = self._backlog.batch(
            rows=batch.rows, behind=batch.behind, seconds=batch.batch_ms / 1000, now=now
        )
        match news:
            case Behind() if now >= self._say_behind_at:
                self._say_behind_at = now + SAY_BEHIND_EVERY
                log.info(
                    "pipeline.catching_up",
                    percent=math.floor(100 * news.share),
                    seconds_left=None if news.left is None else math.ceil(news.left),
                    behind=news.behind,
                    rows_per_second=round(news.rows_per_second),
                )
            case CaughtUp(seconds=seconds, rows=rows):
                log.info(
                    "pipeline.caught_up",
                    seconds=round(seconds, 1),
                    rows=rows,
                    rows_per_second=round(rows / seconds) if seconds > 0 else 0,
                    rebuilt=self._rebuilt,
                )
                self._rebuilt = False
                self.caught_up.set()


def batch_event(batch: Progress, *, at: int) -> dict[str, Any]:
    """A batch as an event for the parent's metrics."""
    return {
        "event": "pipeline.batch",
        "level": "debug",
        "batch": batch.batch,
        "rows": batch.rows,
        "rows_per_second": batch.rows_per_second,
        "batch_ms": batch.batch_ms,
        "durations": dict(batch.durations),
        "behind": batch.behind,
        "newest": batch.newest,
        "delay_ms": None if batch.newest is None else max(at - batch.newest, 0),
        "state_rows": batch.state_rows,
        "state_bytes": batch.state_bytes,
        "rejected": dict(batch.rejected),
        "skipped": dict(batch.skipped),
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
