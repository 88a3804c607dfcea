"""Daemons under a supervisor: each is started again once it has ended."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from levelwind_testing.processes.daemon_process import DaemonProcess


class SupervisedDaemon:
    """One daemon that is restarted whenever it ends, as by systemd; `lives` holds each of them."""

    def __init__(
        self, bootstrap: str, state: Path, *settings: str, pause: float | None = 1.0
    ) -> None:
        """Start a daemon.

        Args:
            bootstrap: address of the brokers.
            state: the daemon's directory.
            settings: as for `--set`.
            pause: seconds from the end of the daemon to its next start; None: `start_again` alone
                starts it.
        """
        self._make = lambda: DaemonProcess(bootstrap, state, *settings)
        self.lives = [self._make()]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._restart, args=(pause,), daemon=True)
        self._thread.start()

    def _restart(self, pause: float | None) -> None:
        while pause is not None and not self._stopping.wait(0.05):
            if not self.running and not self._stopping.wait(pause):
                self.lives.append(self._make())

    def start_again(self) -> None:
        """Start a daemon that has ended, at once."""
        assert not self.running
        self.lives.append(self._make())

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self.now.child.poll() is None

    @property
    def now(self) -> DaemonProcess:
        """The daemon that runs, or is about to be replaced."""
        return self.lives[-1]

    def logged(self, event: str, **fields: object) -> list[dict[str, Any]]:
        """What all lives logged under a name, with these values."""
        return [entry for life in self.lives for entry in life.logged(event, **fields)]

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


def tails(daemons: Sequence[SupervisedDaemon]) -> str:
    """The ends of the logs of daemons, for the text of a failure."""
    return "\n\n".join(daemon.tail() for daemon in daemons)
