"""The daemon and the pipeline as users run them, each a process of its own, and their logs."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from levelwind.assignors.handover.timers import Timers
from levelwind.deploy import guard
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

NEWEST_EVENTS = 3
"""Events of each name that a daemon's tail shows."""

NOISE_LINES = 25
"""Lines without an event that a daemon's tail shows."""

STOP_SECONDS = 60.0
"""From SIGTERM to SIGKILL, as long as the units of `deploy` give a daemon."""


def daemon_command(
    bootstrap: str,
    *settings: str,
    program: Sequence[str] = ("-m", "levelwind.daemon.cli"),
    python: Sequence[str] = (sys.executable,),
) -> list[str]:
    """Command line of a daemon that logs JSON; `settings` are as for `--set`.

    It serves no HTTP unless a setting says so: most tests look at its topics and its log alone.
    """
    command = [
        *python,
        *program,
        "run",
        "--log-format",
        "json",
        "--bootstrap",
        bootstrap,
    ]
    return [*command, *set_options("http.listen=", *settings)]


def set_options(*settings: str) -> list[str]:
    """Options of levelwind's commands for settings that are given as `NAME=VALUE`."""
    return [word for setting in settings for word in ("--set", setting)]


def timer_settings(timers: Timers) -> tuple[str, ...]:
    """The settings of a daemon with these timers, as for `--set`."""
    return tuple(f"timers.{timer.name}={getattr(timers, timer.name)}" for timer in fields(timers))


def newest_of_each(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines for the newest events of each name, in their order; then how many are left out.

    A plan every few seconds must not push out why nobody follows it.
    """
    kept: list[str] = []
    seen: Counter[str] = Counter()
    for event in reversed(events):
        seen[event["event"]] += 1
        if seen[event["event"]] <= NEWEST_EVENTS:
            kept.append(json.dumps(event))
    left_out = [
        f"{count - NEWEST_EVENTS} of {name}"
        for name, count in sorted(seen.items())
        if count > NEWEST_EVENTS
    ]
    return [*reversed(kept), *([f"earlier ones: {', '.join(left_out)}"] if left_out else [])]


class LoggedProcess:
    """A running command that logs JSON; `events` grows with its log."""

    def __init__(self, command: Sequence[str]) -> None:
        self.child = guard.start(command, output=subprocess.PIPE, grace=STOP_SECONDS)
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self._thread = follow_json_lines(self.child.process, self.events.append, self.noise)

    def logged(self, event: str, **fields: object) -> list[dict[str, Any]]:
        return [
            e
            for e in list(self.events)
            if e["event"] == event and all(e.get(k) == v for k, v in fields.items())
        ]

    def wait_for(
        self, what: str, found: Callable[[], Any], within: float = GENEROUS_SECONDS
    ) -> Any:
        """Wait until `found` returns something true while the process runs, and return that."""

        def question() -> Any:
            answer = found()
            assert answer or self.child.poll() is None, (
                f"the process ended while waiting for {what}: {self.tail()}"
            )
            return answer

        return wait_until(what, question, within, shown=self.tail)

    def tail(self) -> str:
        return "\n".join([*newest_of_each(list(self.events)), *self.noise[-NOISE_LINES:]])

    def signal(self, number: int) -> None:
        """Send a signal to the process itself, not to its guard."""
        guard_pid = self.child.process.pid
        children = Path(f"/proc/{guard_pid}/task/{guard_pid}/children").read_text()
        os.kill(int(children.split()[0]), number)

    def stop(self) -> int:
        code = self.child.stop()
        self._thread.join(5)
        return code

    def kill(self) -> None:
        self.child.kill()
        self._thread.join(5)


class DaemonProcess(LoggedProcess):
    """A running daemon."""

    def __init__(
        self,
        bootstrap: str,
        state: Path,
        *settings: str,
        program: Sequence[str] = ("-m", "levelwind.daemon.cli"),
        observed: str | None = None,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """Start a daemon.

        Args:
            bootstrap: address of the brokers.
            state: the daemon's directory; a file for its settings may lie beside it.
            settings: as for `--set`.
            program: options of the interpreter that name the program.
            observed: regular expression of the topics that the daemon observes; None: of all. On
                brokers with the topics of many other tests it spares the machine.
            python: command of the interpreter, which has the release that is to run.
        """
        command = daemon_command(
            bootstrap, f"state_dir={state}", *settings, program=program, python=python
        )
        if observed is not None:
            file = state.with_name(f"{state.name}.toml")
            file.write_text(f"[observer]\ninclude = [{json.dumps(observed)}]\n")
            command += ["--config", str(file)]
        super().__init__(command)


class PipelineProcess(LoggedProcess):
    """A pipeline that no daemon started; `settings` are as for `--set`."""

    def __init__(self, bootstrap: str, state: Path, *settings: str) -> None:
        command = [
            sys.executable,
            "-m",
            "levelwind.daemon.cli",
            "pipeline",
            "--bootstrap",
            bootstrap,
        ]
        options = set_options("log.format=json", f"state_dir={state}", *settings)
        super().__init__([*command, *options])
