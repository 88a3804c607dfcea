"""Heartbeat of the pipeline's process: proof that the JVM answers and that the query gets on.

The parent reads each heartbeat from the process's output. Python alone proves nothing: the process
waits for Spark's callbacks, and would wait for ever after the death of its JVM.

The query gets on if it has done a batch, or has read all there is. While it works on a batch, which
may take minutes for a backlog, or leaves input unread (`unread_input`), the CPU
time of the JVM and of its Python workers tells work from a standstill. Where /proc does not exist,
or the tasks run on other machines, the answer of the JVM suffices.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = Logger()

HEARTBEAT = "pipeline.heartbeat"
"""Name of the event; the parent does not log it."""
BATCH = "pipeline.batch"
"""Name of the event of each batch."""
INTERVAL_SECONDS = 1.0
CPU_WINDOW_SECONDS = 10.0
"""Longest span over which the use of the CPU is measured."""
BUSY_SECONDS = 0.2
"""Least CPU time within that span that counts as work; the heartbeats take a tenth of it."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class QueryProbe(Protocol):
    """Questions to the JVM; each raises an exception where the JVM does not answer any more."""

    def batches_done(self) -> int:
        """The number of batches that the query has done."""

    def is_working(self) -> bool:
        """Whether the query works on a batch, or leaves input unread; asks the JVM."""

    def is_fed(self) -> bool:
        """Whether the brokers serve others, and had input for the query since its last batch."""

    def unserved(self) -> str | None:
        """What the brokers do not serve, for which the query waits; None: nothing is known."""


@dataclass(slots=True)
class Standstill:
    """Whether a query gets on, by its batches and by the CPU time that it uses."""

    cpu_seconds: Callable[[], float | None]
    """CPU time of the JVM and its workers; None: unknown."""
    _batches: int = -1
    _looks: deque[tuple[float, float]] = field(default_factory=deque)
    """Times of the looks since the query last got on, of the last `CPU_WINDOW_SECONDS`, in
    monotonic seconds, and the CPU time then."""

    def progressed(self, now: float, *, batches: int, working: bool) -> bool:
        """Whether the query got on since the last call.

        Args:
            now: monotonic seconds.
            batches: number of batches that the query has done.
            working: whether the query works on a batch, or leaves input unread.
        """
        if not working or batches != self._batches:
            self._batches = batches
            self._looks.clear()
            return True
        cpu = self.cpu_seconds()
        if cpu is None:
            return True
        self._looks.append((now, cpu))
        while self._looks[0][0] < now - CPU_WINDOW_SECONDS:
            self._looks.popleft()
        if cpu - self._looks[0][1] < BUSY_SECONDS:
            return False
        self._looks.clear()
        self._looks.append((now, cpu))
        return True


class Heartbeat:
    """A thread that writes heartbeats, and ends the process when the JVM has died."""

    def __init__(
        self,
        jvm: subprocess.Popen[bytes] | None,
        probe: QueryProbe,
        emit: Callable[[Mapping[str, Any]], None],
        end: Callable[[], None],
        *,
        everywhere: bool = False,
    ) -> None:
        """Prepare the thread.

        Args:
            jvm: Spark's JVM; None where it is no child of this process.
            probe: asks the JVM about the query.
            emit: writes an event for the parent.
            end: ends the process at once; called after the death has been logged.
            everywhere: whether tasks run on other machines.
        """
        self._jvm = jvm
        self._probe = probe
        self._emit = emit
        self._end = end
        pid = None if jvm is None or everywhere else jvm.pid
        self._standstill = Standstill(lambda: None if pid is None else cpu_seconds(pid))
        self._answered_at = time.monotonic()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def answered_within(self, seconds: float) -> bool:
        """Whether the JVM has answered in the last seconds; it counts as answering at the start."""
        return time.monotonic() - self._answered_at <= seconds

    def _run(self) -> None:
        while self._beat():
            self._pause()

    def _pause(self) -> None:
        """Wait until the next heartbeat is due, or the JVM has died."""
        if self._jvm is None:
            time.sleep(INTERVAL_SECONDS)
        else:
            self._exit_code()

    def _beat(self) -> bool:
        """Write one heartbeat; return whether the JVM lives."""
        try:
            working = self._probe.is_working()
        except Exception as error:  # noqa: BLE001 - a dead JVM shows itself in many ways
            if (code := self._exit_code()) is None:
                # It lives and could not answer; if that lasts, the parent notices the silence.
                log.debug("pipeline.trace", error=repr(error))
                return True
            log.error(  # noqa: TRY400 - the trace of a lost connection says nothing
                "pipeline.failed", error=death_of_jvm(code), cause="machine", rebuild=False
            )
            self._end()
            return False
        self._answered_at = time.monotonic()
        progress = self._standstill.progressed(
            self._answered_at, batches=self._probe.batches_done(), working=working
        )
        self._emit(
            {
                "event": HEARTBEAT,
                "level": "debug",
                "progress": progress,
                "fed": not progress and self._probe.is_fed(),
                "unserved": None if progress else self._probe.unserved(),
            }
        )
        return True

    def _exit_code(self) -> int | None:
        """Exit code of the JVM, whose connections close a moment before it has ended.

        None if it runs on for `INTERVAL_SECONDS`, or is no child of this process.
        """
        if self._jvm is not None:
            with suppress(subprocess.TimeoutExpired):
                return self._jvm.wait(INTERVAL_SECONDS)
        return None


def death_of_jvm(code: int) -> str:
    """Say how the JVM ended, by its exit code; negative codes are signals."""
    if code == -signal.SIGKILL:
        return (
            "Spark's JVM was killed (signal 9), as the kernel does when memory runs out: see its"
            " log, and give the machine more memory or the JVM less"
            " (pipeline.spark: spark.driver.memory); the query continues from its last batch"
        )
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"Spark's JVM {how}; the query continues from its last batch"


def cpu_seconds(root: int) -> float | None:
    """CPU time of a process and its descendants that run; None where there is no /proc."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        used[pid] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
    if root not in used:
        return None
    return sum(cpu for pid, cpu in used.items() if _descends(pid, root, parents))


def _descends(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root
