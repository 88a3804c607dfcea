"""Keeps the pipeline's process running: starts it again with back-off, and gives up loudly.

The process is a child under a guard, so that it never outlives the daemon. Time is monotonic seconds and comes in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from daemon.errors import PipelineFailedError
from daemon.pipeline.order import PipelineOrder
from daemon.telemetry.logger import Logger
from deploy import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from daemon.config.settings import Settings

log = Logger()

SPARK_NOISE = (
    "Streaming TransformWithState",
    "WARNING: Using incubator modules",
    "Using Spark's default log4j",
    "Setting default log level",
    "To adjust logging level",
)
"""What Spark and its workers print at each start, whatever the log level."""

STOP_SECONDS = 5.0
"""Seconds that the pipeline gets to end its batch; its checkpoint makes ending earlier harmless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """When to start a child that keeps dying: at once, then after 1, 2, 4 … seconds, then no more."""

    allowed: int
    window: float
    longest_pause: float = 60.0
    died: tuple[float, ...] = ()

    def after_death(self, now: float) -> Attempts:
        """Count a death; those older than the window are forgotten."""
        return replace(self, died=(*(at for at in self.died if at > now - self.window), now))

    @property
    def exhausted(self) -> bool:
        """Whether it died more often than allowed."""
        return len(self.died) > self.allowed

    @property
    def pause(self) -> float:
        """Seconds until the next start."""
        return min(2.0 ** (len(self.died) - 1), self.longest_pause) if self.died else 0.0


class PipelineChild:
    """The pipeline's process; `watch` is called from the daemon's loop."""

    def __init__(
        self,
        settings: Settings,
        jars: tuple[Path, ...],
        attempts: Attempts,
        on_event: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        """`hear` is given each event of the child, in a thread of its own."""
        self._on_event = on_event
        self._file = settings.state_dir / "pipeline-settings.json"
        self._attempts = attempts
        self._child: guard.Guarded | None = None
        self._start_at = float("-inf")
        # Client settings may hold secrets.
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.fchmod(descriptor, 0o600)  # also of a file that was there
        with os.fdopen(descriptor, "w") as file:
            file.write(PipelineOrder(settings=settings, jars=jars).model_dump_json())

    def watch(self, now: float) -> None:
        """Start the child when it is due; take note of its death.

        Raises:
            PipelineFailedError: it died more often than the settings allow.
        """
        if self._child is None:
            if now >= self._start_at:
                self._start()
            return
        code = self._child.poll()
        if code is None:
            return
        self._child = None
        self._attempts = self._attempts.after_death(now)
        attempt = len(self._attempts.died)
        if self._attempts.exhausted:
            log.error("pipeline.gave_up", attempts=attempt, window=self._attempts.window)
            raise PipelineFailedError(
                f"the pipeline died {attempt} times within {self._attempts.window:.0f} s (exit code {code} last); "
                "its log above says why; settings pipeline.restarts and pipeline.restart_window say when to give up"
            )
        self._start_at = now + self._attempts.pause
        self._on_event({"event": "pipeline.died"})
        log.error("pipeline.died", exit_code=code, attempt=attempt, restart_in=self._attempts.pause)

    def _start(self) -> None:
        log.info("pipeline.starting", attempt=len(self._attempts.died) + 1)
        command = [sys.executable, "-m", "daemon.pipeline.process", str(self._file)]
        self._child = guard.start(command, grace=STOP_SECONDS, output=subprocess.PIPE)
        threading.Thread(
            target=relay,
            args=(self._child.process.stdout, self._on_event),
            name="pipeline-log",
            daemon=True,
        ).start()

    def ask_to_stop(self) -> None:
        """Begin to end it; returns at once."""
        if self._child is not None:
            self._child.ask_to_stop()

    def stop(self) -> None:
        """End it and wait until it is gone."""
        if self._child is not None:
            self._child.stop()
            self._child = None


def relay(
    lines: Iterable[bytes] | None, on_event: Callable[[Mapping[str, Any]], None] = lambda _: None
) -> None:
    """Say the child's events as ours; what is none is a word of Spark's, or of a runtime that crashes."""
    for line in lines or ():
        text = line.decode(errors="replace").strip()
        try:
            event = json.loads(text)
            name, level = str(event.pop("event")), str(event.pop("level"))
            event.pop("time", None)
            say = getattr(log, level)
        except (ValueError, TypeError, KeyError, AttributeError):
            if text and not text.startswith(SPARK_NOISE):
                log.info("library.log", library="spark", text=text)
        else:
            say(name, **event)
            try:
                on_event({"event": name, **event})
            except Exception as error:  # noqa: BLE001 - a child whose output nobody reads on stands still, for want of a figure
                log.info(
                    "library.log", library="metrics", text=f"{name} was not counted: {error!r}"
                )
