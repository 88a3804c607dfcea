"""The pipeline under the daemon's own supervision, and the processes that it consists of."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from levelwind.daemon.config.settings import Settings
from levelwind.daemon.doubling_pause import DoublingPause
from levelwind.daemon.pipeline.supervisor import Attempts, PipelineChild
from levelwind.deploy.jars import classpath
from levelwind_testing.processes import processes
from levelwind_testing.waiting import wait_until

PATIENCE_SECONDS = 300.0


class Supervised:
    """A supervised pipeline; `events` are those of its process."""

    def __init__(self, settings: Settings, *, allowed: int = 9) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.ahead = 0.0
        """Seconds by which the supervisor's clock is ahead."""
        self.child = PipelineChild(
            settings,
            partial(classpath, "spark"),
            Attempts(allowed=allowed, window=600.0, pauses=DoublingPause(1.0, 4.0)),
            self.events.append,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()

    def named(self, name: str, *, since: int = 0) -> list[Mapping[str, Any]]:
        """The events of a name, without the first `since` of all events."""
        return [event for event in self.events[since:] if event["event"] == name]

    def wait_for(self, what: str, question: Callable[[], Any]) -> Any:
        """Wait for an event while the child is watched."""

        def watched() -> Any:
            self.child.watch(time.monotonic() + self.ahead)
            return question()

        return wait_until(
            what, watched, PATIENCE_SECONDS, pause=0.1, shown=lambda: self.events[-20:]
        )

    def wait_for_event(self, name: str, *, since: int = 0) -> Mapping[str, Any]:
        """Wait for an event of the pipeline, and return the first."""
        events: list[Mapping[str, Any]] = self.wait_for(name, lambda: self.named(name, since=since))
        return events[0]

    @property
    def heartbeats(self) -> int:
        """The number of signs of life of the present attempt; 0 between two attempts."""
        running = self.child._running
        return running.signs.counts.answers if running is not None else 0

    @property
    def fed(self) -> bool:
        """Whether the present attempt says that it has input and does not get on."""
        running = self.child._running
        return running is not None and running.signs.counts.fed

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
