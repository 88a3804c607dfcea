"""Host of the pipeline: the child of this daemon, or the watch over one elsewhere.

The child belongs to the daemon and not to its term: a daemon that leads no more keeps it, and the
next leader starts none while another's reports. So a change of leader does not restart it. The
leader alone starts one, when nothing shows that there is one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from levelwind.daemon.errors import PipelineFailedError
from levelwind.daemon.pipeline.remote_pipeline import RemotePipeline
from levelwind.daemon.pipeline.supervisor import Attempts, PipelineChild
from levelwind.daemon.service.availability.daemon_identity import same_daemon
from levelwind.daemon.telemetry.logger import Logger
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import classpath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from levelwind.assignors.protocol.records import PipelineRecord
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.telemetry.pipeline_metrics import PipelineMetrics

log = Logger()

CHILD_SILENT_INTERVALS = 1.5
"""Intervals without a record after which the child of another daemon counts as ended with it."""
APPLICATION_SILENT_INTERVALS = 7.5
"""Intervals without a record after which an application counts as ended: something may be about to
start it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSight:
    """The newest record of any pipeline, and when it came. Pure."""

    record: PipelineRecord | None = None
    since: float | None = None
    """Monotonic seconds at which the record came, or of the first look."""

    def seen(self, record: PipelineRecord | None, now: float) -> PipelineSight:
        """Return the sight after a look; `now` is in monotonic seconds."""
        if self.since is not None and record == self.record:
            return self
        return replace(self, record=record, since=now)

    def is_over(self, now: float, *, daemon: str, stopped: str | None) -> bool:
        """Whether nothing shows that a pipeline runs.

        Args:
            now: monotonic seconds.
            daemon: the name of this daemon, which has no child.
            stopped: the name of the leader before, if it stopped in good order.
        """
        record = self.record
        if record is None or record.state == "ended":
            return True
        if record.daemon is not None and (
            same_daemon(record.daemon, daemon) or record.daemon == stopped
        ):
            return True  # a child never outlives its daemon
        intervals = (
            APPLICATION_SILENT_INTERVALS if record.daemon is None else CHILD_SILENT_INTERVALS
        )
        since = now if self.since is None else self.since
        return now - since >= intervals * record.interval_ms / 1000


class PipelineHost:
    """The pipeline as this daemon sees to it; the main thread calls all methods."""

    def __init__(
        self,
        settings: Settings,
        metrics: PipelineMetrics,
        newest: Callable[[], PipelineRecord | None],
        daemon: str,
    ) -> None:
        """Make a host; `look` starts the pipeline where that is due.

        Args:
            settings: the settings of the daemon.
            metrics: the metrics of the pipeline.
            newest: returns the newest record of any pipeline.
            daemon: the name of this daemon.
        """
        self._settings = settings
        self._newest = newest
        self._metrics = metrics
        self._daemon = daemon
        self._sight = PipelineSight()
        self._child: PipelineChild | None = None
        self._superseded = threading.Event()
        self._remote: RemotePipeline | None = None

    def look(self, now: float, *, leading: bool, stopped: str | None = None) -> None:
        """Watch over the child, or over what another pipeline reports.

        Args:
            now: monotonic seconds.
            leading: whether this daemon leads, or takes over.
            stopped: the name of the leader before, if it stopped in good order.

        Raises:
            PipelineFailedError: the child ended more often than the settings allow, or its jars
                are missing.
        """
        record = self._newest()
        self._sight = self._sight.seen(record, now)
        if self._child is not None and self._superseded.is_set():
            log.info("pipeline.elsewhere", instance=record.instance if record else None)
            self._drop_child()
        if self._child is not None:
            self._child.watch(now)
            return
        if not leading:
            self._drop_remote()
            return
        child = self._settings.pipeline.run == "child"
        if child and self._sight.is_over(now, daemon=self._daemon, stopped=stopped):
            self._start_child(now)
            return
        if self._remote is None:
            self._remote = RemotePipeline(self._metrics)
            if child and record is not None:
                log.info("pipeline.elsewhere", instance=record.instance)
        self._remote.look(record, now)

    def ask_to_stop(self) -> None:
        """Ask the child to end; returns at once."""
        if self._child is not None:
            self._child.ask_to_stop()

    def stop(self) -> None:
        """End the child, and wait until it is gone."""
        self._drop_child()
        self._metrics.on_end()

    def _start_child(self, now: float) -> None:
        settings = self._settings.pipeline
        self._drop_remote()
        self._superseded.clear()
        attempts = Attempts(allowed=settings.restarts, window=settings.restart_window)
        self._child = PipelineChild(
            self._settings, _jars_of_spark, attempts, self._on_event, daemon=self._daemon
        )
        self._child.watch(now)

    def _drop_remote(self) -> None:
        remote, self._remote = self._remote, None
        if remote is not None:
            self._metrics.on_end()

    def _drop_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()
            self._metrics.on_end()

    def _on_event(self, event: Mapping[str, Any]) -> None:
        """Take an event of the child, in the thread that reads its output."""
        if event["event"] == "pipeline.superseded":
            self._superseded.set()
        self._metrics.on_event(event)


def _jars_of_spark() -> tuple[Path, ...]:
    """Return the jars of Spark's class path; an error of the installation ends the daemon."""
    try:
        return classpath("spark")
    except SetupError as error:
        raise PipelineFailedError(str(error)) from error
