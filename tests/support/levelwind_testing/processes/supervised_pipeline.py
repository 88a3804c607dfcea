"""The pipeline under the daemon's own supervision, and the processes that it consists of."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from daemon.config.settings import Settings
from daemon.pipeline.supervisor import Attempts, PipelineChild
from deploy.jars import classpath
from levelwind_testing.processes import processes

PATIENCE_SECONDS = 300.0


class Supervised:
    """A supervised pipeline; `events` are those of its process, with the time of each beside it."""

    def __init__(self, settings: Settings, *, allowed: int = 9) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.times: list[float] = []
        """Monotonic seconds, indexed as `events`."""
        self.child = PipelineChild(
            settings,
            classpath("spark"),
            Attempts(allowed=allowed, window=600.0, longest_pause=4.0),
            self._on_event,
        )

    def _on_event(self, event: Mapping[str, Any]) -> None:
        self.times.append(time.monotonic())
        self.events.append(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()

    def named(self, name: str, *, since: float = 0.0) -> list[Mapping[str, Any]]:
        pairs = zip(list(self.events), list(self.times), strict=False)
        return [event for event, at in pairs if event["event"] == name and at >= since]

    def wait_for(self, question: Callable[[], Any], within: float = PATIENCE_SECONDS) -> Any:
        until = time.monotonic() + within
        while not (answer := question()):
            assert time.monotonic() < until, self.events[-20:]
            self.child.watch(time.monotonic())
            time.sleep(0.1)
        return answer

    def processes(self) -> dict[int, processes.Process]:
        """The processes of the present attempt, by process id; none between two attempts."""
        running = self.child._running
        if running is None:
            return {}
        guard = running.child.process.pid
        below = processes.usage(guard, stop="")
        return {pid: process for pid, process in processes.running().items() if pid in below}

    def pids(self, command: str) -> list[int]:
        """The processes with this text in their command, but for the guard."""
        return [
            pid
            for pid, process in self.processes().items()
            if command in process.command and processes.GUARD not in process.command
        ]
