"""The pipeline without a daemon: on this machine, or as an application of a Spark cluster.

`levelwind pipeline` starts Spark itself; under `spark-submit` Spark has started this process. The
executors need none of levelwind's files on their disks: the jars come from the driver or from a
registry, the packages as a zip file or within the archive of `make dist`. Nobody watches over this
process but itself: when Spark falls silent or the query stands still it ends, with exit code 1, so
that whatever runs it starts it again.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelwind.daemon.errors import PipelineFailedError
from levelwind.daemon.paths import ensure_writable, own_temporary_directory
from levelwind.daemon.pipeline import process
from levelwind.daemon.pipeline.liveness.signs_of_life import CountedSigns, SignCounts, SignsOfLife
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.daemon.telemetry.logger import Logger
from levelwind.deploy import distribution
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import classpath, locked
from levelwind.streaming.spark.settings import WORKER_DAEMON, is_local, is_submitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.daemon.config.settings import Settings

log = Logger()

LOOK_SECONDS = 1.0
ENVIRONMENT = "environment"
"""Directory of the archive in the working directory of each executor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipping:
    """What the executors are sent, besides settings of Spark's own."""

    master: str | None = None
    """Spark's master; None: that of the settings, of `spark-submit`, or this machine."""
    packages: bool = False
    """Whether Spark fetches the jars from a registry by their coordinates."""
    archive: Path | None = None
    """The environment archive of `make dist`; None: the executors' interpreter has the libraries,
    and gets levelwind's own packages as a zip file."""


@own_temporary_directory()
def run(settings: Settings, shipping: Shipping) -> int:
    """Run the pipeline until it ends; the end has been logged. Returns the exit code.

    Raises:
        PipelineFailedError: the jars or the archive are missing.
    """
    submitted = is_submitted()
    spark = dict(settings.pipeline.spark)
    if shipping.master is not None:
        spark["spark.master"] = shipping.master
    on_cluster = not submitted and not is_local(spark)
    jars: tuple[Path, ...] = ()
    try:
        if shipping.packages:
            spark["spark.jars.packages"] = ",".join(jar.coordinates for jar in locked("spark"))
        elif not submitted and "spark.jars.packages" not in spark:
            jars = classpath("spark")
    except SetupError as error:
        raise PipelineFailedError(str(error)) from error
    if on_cluster:
        _prepare_driver()
        if shipping.archive is not None:
            spark = ship_archive(shipping.archive) | spark
        else:
            spark.setdefault("spark.submit.pyFiles", str(_zip_of_packages()))
    if not settings.pipeline.checkpoint:
        ensure_writable(settings.state_dir, "state_dir", private=True)
    section = replace(settings.pipeline, spark=spark)
    order = PipelineOrder(settings=settings.model_copy(update={"pipeline": section}), jars=jars)
    watch = SelfWatch(settings.pipeline.answer_timeout, settings.pipeline.progress_timeout)
    watch.start()
    return process.run(order, watch.emit)


def _prepare_driver() -> None:
    """Let Spark's driver find this interpreter where it runs Python on its own machine.

    Spark asks the stateful operators about their state on the driver, with the interpreter that the
    executors have.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def _zip_of_packages() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="levelwind-application-"))
    return distribution.write_packages(directory / "levelwind.zip")


def ship_archive(archive: Path) -> dict[str, str]:
    """Return the settings with which executors unpack an archive and run its interpreter.

    The driver runs the same relative path on its own machine: the process goes on in a directory
    where that is this interpreter.

    Raises:
        PipelineFailedError: there is no such archive.
    """
    if not archive.is_file():
        raise PipelineFailedError(f"there is no archive {archive}: `make dist` builds it")
    located = archive.resolve()
    directory = Path(tempfile.mkdtemp(prefix="levelwind-application-"))
    python = directory / ENVIRONMENT / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    os.chdir(directory)
    return {
        "spark.archives": f"{located}#{ENVIRONMENT}",
        "spark.pyspark.python": f"./{ENVIRONMENT}/bin/python",
        "spark.python.daemon.module": WORKER_DAEMON,
    }


@dataclass(slots=True)
class SelfWatch:
    """Watch of the process over itself, by the signs that the daemon watches a child by."""

    answer_timeout: float
    """Seconds without an answer of the JVM after which the process ends."""
    progress_timeout: float
    """Seconds without progress of the query after which it ends."""
    end: Callable[[], object] = process.end_at_once
    """Ends the process."""
    counts: SignCounts = field(default_factory=SignCounts)

    def emit(self, event: Mapping[str, Any]) -> None:
        """Take a heartbeat or a batch."""
        self.counts.add_event(event)

    def start(self) -> None:
        """Watch in the background."""
        threading.Thread(target=self._run, name="self-watch", daemon=True).start()

    def _run(self) -> None:
        signs = SignsOfLife.of_start(
            time.monotonic(),
            answer_timeout=self.answer_timeout,
            progress_timeout=self.progress_timeout,
        )
        counted = CountedSigns(signs, self.counts)
        while (silence := counted.look(time.monotonic())) is None:
            if (missing := counted.falls_quiet()) is not None:
                log.warning("pipeline.quiet", reason=missing, restart_after=self.answer_timeout)
            time.sleep(LOOK_SECONDS)
        log.error("pipeline.silent", reason=silence)
        self.end()
