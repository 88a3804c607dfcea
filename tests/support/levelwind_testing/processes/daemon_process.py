"""The daemon as users run it: `levelwind run` in a process of its own, and its log."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy import guard


def daemon_command(bootstrap: str, *settings: str) -> list[str]:
    """Command line of a daemon that logs JSON; `settings` are as for `--set`."""
    command = [
        sys.executable,
        "-m",
        "daemon.cli",
        "run",
        "--log-format",
        "json",
        "--bootstrap",
        bootstrap,
    ]
    return [*command, *(word for setting in settings for word in ("--set", setting))]


class DaemonProcess:
    """A running daemon; `settings` are as for `--set`, and `events` grows with its log."""

    def __init__(self, bootstrap: str, state: Path, *settings: str) -> None:
        self.child = guard.start(
            daemon_command(bootstrap, f"state_dir={state}", *settings),
            output=subprocess.PIPE,
            grace=10,
        )
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.child.process.stdout:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.noise.append(line.decode(errors="replace"))

    def logged(self, event: str, **fields: object) -> list[dict[str, Any]]:
        return [
            e
            for e in list(self.events)
            if e["event"] == event and all(e.get(k) == v for k, v in fields.items())
        ]

    def wait_for(self, what: str, found: Callable[[], Any], within: float = 90.0) -> Any:
        """Wait until `found` returns something true, and return that."""
        until = time.monotonic() + within
        while not (answer := found()):
            assert self.child.poll() is None, (
                f"the daemon ended while waiting for {what}: {self.tail()}"
            )
            assert time.monotonic() < until, f"no {what} within {within} s: {self.tail()}"
            time.sleep(0.1)
        return answer

    def tail(self) -> str:
        return "\n".join([*(json.dumps(e) for e in self.events[-25:]), *self.noise[-25:]])

    def stop(self) -> int:
        code = self.child.stop()
        self._thread.join(5)
        return code

    def kill(self) -> None:
        self.child.kill()
        self._thread.join(5)
