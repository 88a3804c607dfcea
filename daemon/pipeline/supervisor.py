"""Supervisor of the pipeline's process: restarts it with back-off, and fails after too many deaths.

The process is a child under a guard, so that it never outlives the daemon. A process that falls
silent is killed, and its end is a death like any other. The caller passes the time, in monotonic
seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from levelwind.daemon.doubling_pause import DoublingPause
from levelwind.daemon.errors import PipelineFailedError
from levelwind.daemon.paths import remove_abandoned
from levelwind.daemon.pipeline.liveness.heartbeat import BATCH, HEARTBEAT
from levelwind.daemon.pipeline.liveness.signs_of_life import CountedSigns, SignsOfLife
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.daemon.telemetry.logger import Logger
from levelwind.deploy import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from levelwind.daemon.config.settings import Settings

log = Logger()

SPARK_NOISE = (
    "Streaming TransformWithState",
    "WARNING: Using incubator modules",
    "Using Spark's default log4j",
    "Setting default log level",
    "To adjust logging level",
)
"""Beginnings of lines that Spark and its workers print at each start, at any log level."""

COMMAND = (sys.executable, "-m", "levelwind.daemon.pipeline.process")

STOP_SECONDS = 5.0
"""Time that the process has to end its batch; its checkpoint makes an earlier end harmless."""


RESTART_PAUSES = DoublingPause(1.0, 60.0)
"""Seconds from the second death on until the restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Restarts of a process that keeps dying: at once, after 1, 2, 4 … seconds, and no more."""

    allowed: int
    """Deaths within `window` that are followed by a restart."""
    window: float
    """Seconds after which a death no longer counts."""
    pauses: DoublingPause = RESTART_PAUSES
    """Seconds between a death and the restart, after the first of which there is none."""
    died: tuple[float, ...] = ()
    """Times of the deaths within the window."""

    def after_death(self, now: float) -> Attempts:
        """Return the attempts after a death; deaths older than the window no longer count."""
        return replace(self, died=(*(at for at in self.died if at > now - self.window), now))

    @property
    def exhausted(self) -> bool:
        """Whether the process died more often than allowed."""
        return len(self.died) > self.allowed

    @property
    def pause(self) -> float:
        """Seconds from the last death to the next start; 0 after the first, and before it."""
        return self.pauses.of(len(self.died) - 1)


@dataclass(slots=True)
class RunningChild:
    """One start of the process, with its signs of life."""

    child: guard.Guarded
    signs: CountedSigns
    killed: bool = False

    def look(self, now: float) -> str | None:
        """Why the process counts as dead although it runs, the first time; None otherwise."""
        silence = self.signs.look(now)
        return None if self.killed else silence


class PipelineChild:
    """The pipeline's process; the daemon's loop calls `watch`."""

    def __init__(
        self,
        settings: Settings,
        jars: Callable[[], tuple[Path, ...]],
        attempts: Attempts,
        on_event: Callable[[Mapping[str, Any]], None] = lambda _: None,
        command: Sequence[str] = COMMAND,
        *,
        daemon: str | None = None,
    ) -> None:
        """Make a child that is not started yet; `watch` starts it.

        Args:
            settings: the settings of the daemon.
            jars: returns the jars of Spark's class path; called at each start until it has.
            attempts: limits and back-off of the restarts.
            on_event: called with each event of the process, in a thread of its own.
            command: the command of the process, without the file of its parameters.
            daemon: the name of this daemon, for the pipeline's record.
        """
        self._settings = settings
        # What goes missing later is the process's to say: this thread would wait for a download.
        self._jars = cache(jars)
        self._daemon = daemon
        self._command = command
        self._on_event = on_event
        self._file = settings.state_dir / "pipeline-settings.json"
        self._attempts = attempts
        self._answer_timeout = settings.pipeline.answer_timeout
        self._progress_timeout = settings.pipeline.progress_timeout
        self._running: RunningChild | None = None
        self._start_at = float("-inf")

    def watch(self, now: float) -> None:
        """Note the death of the process, start it when that is due, kill it when it is silent.

        A start that the machine refuses is a death, too: a disk without room, or a limit of
        processes, threads or files that is reached, passes.

        Raises:
            PipelineFailedError: the process died more often than the settings allow.
        """
        if self._running is not None:
            self._look(self._running, now)
        if self._running is None and now >= self._start_at:
            log.info("pipeline.starting", attempt=len(self._attempts.died) + 1)
            try:
                self._start(now)
            except OSError as error:
                reason = f"the pipeline's process cannot be started: {error}"
                log.error("pipeline.failed", error=reason, cause="machine", rebuild=False)  # noqa: TRY400 - the text says it all
                self._note_death(None, now)

    def _look(self, running: RunningChild, now: float) -> None:
        """Kill the process when it is silent, and note its death."""
        code = running.child.poll()
        if code is None:
            if (reason := running.look(now)) is not None:
                log.error("pipeline.silent", reason=reason)
                running.killed = True
                running.child.ask_to_kill()
            elif (missing := running.signs.falls_quiet()) is not None:
                log.warning("pipeline.quiet", reason=missing, restart_after=self._answer_timeout)
            return
        self._running = None
        self._note_death(code, now)

    def _note_death(self, code: int | None, now: float) -> None:
        """Set the time of the next start; `code` is None for a process that was never started."""
        self._attempts = self._attempts.after_death(now)
        attempt = len(self._attempts.died)
        if self._attempts.exhausted:
            log.error("pipeline.gave_up", attempts=attempt, window=self._attempts.window)
            last = "at its start" if code is None else f"with exit code {code}"
            raise PipelineFailedError(
                f"the pipeline died {attempt} times within {self._attempts.window:.0f} s, last"
                f" {last}; the log above says why. The settings pipeline.restarts and"
                " pipeline.restart_window limit the restarts"
            )
        self._start_at = now + self._attempts.pause
        self._on_event({"event": "pipeline.died"})
        log.error("pipeline.died", exit_code=code, attempt=attempt, restart_in=self._attempts.pause)

    def _start(self, now: float) -> None:
        """Write the parameters of the process to a file, and start it.

        Raises:
            OSError: the machine refuses a file, a process or a thread.
        """
        order = PipelineOrder(settings=self._settings, jars=self._jars(), daemon=self._daemon)
        # Settings of clients may hold secrets, so nobody else may read the file.
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)  # also where the file existed before
            file.write(order.model_dump_json())
        command = [*self._command, str(self._file)]
        child = guard.start(command, grace=STOP_SECONDS, output=subprocess.PIPE)
        signs = SignsOfLife.of_start(
            now, answer_timeout=self._answer_timeout, progress_timeout=self._progress_timeout
        )
        running = RunningChild(child, CountedSigns(signs))
        relaying = threading.Thread(
            target=relay,
            args=(child.process.stdout, self._on_event, running.signs.counts.add_event),
            name="pipeline-log",
            daemon=True,
        )
        try:
            relaying.start()
        except RuntimeError as error:  # the limit of processes counts threads, too
            child.kill()
            raise OSError(str(error)) from error
        self._running = running

    def ask_to_stop(self) -> None:
        """Ask the process to end; returns at once."""
        if self._running is not None:
            self._running.child.ask_to_stop()

    def stop(self) -> None:
        """End the process and wait until it is gone."""
        if self._running is not None:
            self._running.child.stop()
            self._running = None
        remove_abandoned()


def relay(
    lines: Iterable[bytes] | None,
    on_event: Callable[[Mapping[str, Any]], None] = lambda _: None,
    on_sign: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> None:
    """Relay the child's JSON events; any other line is output of Spark or of a crashing runtime.

    Args:
        lines: the standard output of the child.
        on_event: called with each event but heartbeats. An exception of it is logged and does not
            end the relay: a child whose output nobody reads would block.
        on_sign: called with each heartbeat and batch. Another event proves nothing of the JVM: a
            Kafka client writes some while Spark's session is still to be made.
    """
    for line in lines or ():
        text = line.decode(errors="replace").strip()
        try:
            event = json.loads(text)
            name, level = str(event.pop("event")), str(event.pop("level"))
            event.pop("time", None)
            write = getattr(log, level)
        except (ValueError, TypeError, KeyError, AttributeError):
            if text and not text.startswith(SPARK_NOISE):
                log.info("library.log", library="spark", text=text)
        else:
            if name == HEARTBEAT:
                on_sign(event)
                continue
            if name == BATCH:
                on_sign(event)
            write(name, **event)
            try:
                on_event({"event": name, **event})
            except Exception as error:  # noqa: BLE001 - the relay must go on, see above
                log.info(
                    "library.log", library="metrics", text=f"{name} was not counted: {error!r}"
                )
