"""Daemons under a supervisor: each is started again as soon as it has ended."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from levelwind_testing.processes.daemon_process import DaemonProcess


class SupervisedDaemon:
    """One daemon that is restarted whenever it ends, as by systemd; `lives` holds each of them."""

    def __init__(self, bootstrap: str, state: Path, *settings: str, pause: float = 1.0) -> None:
        self._make = lambda: DaemonProcess(bootstrap, state, *settings)
        self._pause = pause
        self.lives = [self._make()]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._restart, daemon=True)
        self._thread.start()

    def _restart(self) -> None:
        while not self._stopping.wait(0.05):
            if self.lives[-1].child.poll() is not None and not self._stopping.wait(self._pause):
                self.lives.append(self._make())

    @property
    def now(self) -> DaemonProcess:
        """The daemon that runs, or is about to be replaced."""
        return self.lives[-1]

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What all lives logged under a name."""
        return [entry for life in self.lives for entry in life.logged(event)]

    def tail(self) -> str:
        """The end of the log of each life."""
        return "\n\n".join(life.tail() for life in self.lives)

    def kill(self) -> None:
        self.now.kill()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.now.stop()


def leader_of(daemons: Sequence[SupervisedDaemon]) -> SupervisedDaemon | None:
    """The daemon whose term began last, if that has not ended."""
    terms = [
        (life.logged("daemon.leading")[-1]["planner_epoch"], life, daemon)
        for daemon in daemons
        for life in daemon.lives
        if life.logged("daemon.leading")
    ]
    if not terms:
        return None
    _, life, daemon = max(terms, key=lambda term: term[0])
    alive = life is daemon.now and life.child.poll() is None
    names = [entry["event"] for entry in life.events]
    last = next(name for name in reversed(names) if name in {"daemon.leading", "daemon.deposed"})
    return daemon if alive and last == "daemon.leading" else None


def wait_until(
    what: str,
    holds: Callable[[], Any],
    within: float,
    daemons: Sequence[SupervisedDaemon] = (),
) -> Any:
    """Wait until something holds, and return it; a failure shows what the daemons logged."""
    until = time.monotonic() + within
    while not (answer := holds()):
        if time.monotonic() >= until:
            tails = [daemon.tail() for daemon in daemons]
            raise AssertionError("\n\n".join([f"no {what} within {within:.1f} s", *tails]))
        time.sleep(0.05)
    return answer
