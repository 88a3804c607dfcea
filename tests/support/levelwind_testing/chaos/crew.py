"""Processes of a chaos run, workers and the daemon, and a record of what was done to each."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from levelwind.deploy import guard
from levelwind_testing.chaos.chaos_worker import Orders, boot_time
from levelwind_testing.chaos.programs import ENVIRONMENT
from levelwind_testing.waiting import wait_until

WORKER = "levelwind_testing.chaos.chaos_worker"
END_SECONDS = 90.0
"""Limit of an orderly end: a long handler, its commit, and the wait for an unknown one."""

TRACE_SECONDS = 10.0
"""The most time that a process has to write where its threads are."""
TRACE = b"(most recent call first)"
"""What is in such a text."""

ENDED_BY_SIGTERM = 128 + signal.SIGTERM


@dataclass(slots=True)
class Life:
    """One process of a worker, from its start to its end."""

    name: str
    """Unique name of the process, and of its files."""
    pid: int
    child: guard.Guarded
    began: float
    ended: float | None = None
    """Boot time at which the process was seen to be gone."""
    killed: bool = False
    asked_to_end: bool = False
    stuck: bool = False
    """Whether it did not end in time; its log says where its threads were."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    """Boot times between which the process stood still; the last may have no end yet."""
    stopped_at: float | None = None


class Member:
    """A worker that is started, killed, stopped and started again under one instance name."""

    def __init__(self, orders: Orders, directory: Path) -> None:
        self.orders = orders
        self.lives: list[Life] = []
        self.python: Sequence[str] = (sys.executable,)
        """Command of the interpreter for the lives that come: it has the release that is to run."""
        self._directory = directory

    @property
    def name(self) -> str:
        """The instance's name, which is the client id as well."""
        return self.orders.instance

    @property
    def running(self) -> bool:
        """Whether the process runs and is not stopped."""
        return self.alive and self.lives[-1].stopped_at is None

    @property
    def alive(self) -> bool:
        """Whether the process exists."""
        return (
            bool(self.lives)
            and self.lives[-1].ended is None
            and self.lives[-1].child.poll() is None
        )

    def start(self) -> None:
        """Start a new life."""
        name = f"{self.name}.{len(self.lives)}"
        orders = {
            **asdict(self.orders),
            "journal": str(self._directory / f"{name}.journal"),
            "seed": self.orders.seed + len(self.lives),
        }
        command = [*self.python, "-m", WORKER, json.dumps(orders)]
        with (self._directory / f"{name}.log").open("wb") as output:
            child = guard.start(command, output=output, environment=ENVIRONMENT, grace=5)
        pid = _child_of(child)
        self.lives.append(Life(name=name, pid=pid, child=child, began=boot_time()))

    def kill(self) -> None:
        """Kill the process as the kernel does, without a last word."""
        life = self.lives[-1]
        life.killed = True
        _send(life, signal.SIGKILL)
        self._wait(life, 10)
        if life.stopped_at is not None:
            life.pauses.append((life.stopped_at, boot_time()))
            life.stopped_at = None

    def suspend(self) -> None:
        """Stop the process, and wait until all of its threads stand."""
        life = self.lives[-1]
        _send(life, signal.SIGSTOP)
        wait_until(
            "process that stands", lambda: not self.alive or _all_stopped(life.pid), pause=0.005
        )
        life.stopped_at = boot_time()

    def resume(self) -> None:
        """Let a stopped process go on."""
        life = self.lives[-1]
        if life.stopped_at is not None:
            life.pauses.append((life.stopped_at, boot_time()))
            life.stopped_at = None
            _send(life, signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Ask the process to end in order."""
        self.lives[-1].asked_to_end = True
        _send(self.lives[-1], signal.SIGTERM)

    def await_end(self) -> None:
        """Wait for an orderly end; a process that does not end in time is killed."""
        life = self.lives[-1]
        try:
            self._wait(life, END_SECONDS)
        except subprocess.TimeoutExpired:
            life.stuck = True
            log = self._directory / f"{life.name}.log"
            traces = log.read_bytes().count(TRACE)
            _send(life, signal.SIGUSR1)
            with suppress(AssertionError):
                wait_until("trace", lambda: log.read_bytes().count(TRACE) > traces, TRACE_SECONDS)
            self.kill()

    def stuck(self) -> list[str]:
        """Names of the lives that did not end when they were asked to."""
        return [life.name for life in self.lives if life.stuck]

    def crashed(self) -> str:
        """Words about a process that ended by itself; empty if none did."""
        for life in self.lives:
            if life.ended is None and life.child.poll() is not None:
                life.ended = boot_time()
            code = life.child.poll()
            # A process that ends before it handles SIGTERM had not joined yet.
            if code and not life.killed and not (life.asked_to_end and code == ENDED_BY_SIGTERM):
                log = (self._directory / f"{life.name}.log").read_text(errors="replace")
                return f"{life.name} ended with code {code}:\n{log[-3000:]}"
        return ""

    def _wait(self, life: Life, seconds: float) -> None:
        life.child.process.wait(seconds)
        life.ended = boot_time()
        life.child.stop()


def _send(life: Life, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended by itself, which `crashed` reports
        os.kill(life.pid, number)


class PlannerProcess:
    """The daemon of a chaos run, which is killed and started again."""

    name = "daemon"
    """Its client id, which is its name in the proxy."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        self._command = command
        self._child: guard.Guarded | None = None

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running daemon's guard, which is its parent."""
        assert self._child is not None
        return self._child.process.pid

    def start(self) -> None:
        """Start the daemon; its log is appended to."""
        with self.log.open("ab") as output:
            self._child = guard.start(
                self._command, output=output, environment=ENVIRONMENT, grace=5
            )

    def kill(self) -> None:
        """Kill the daemon with all that it started."""
        assert self._child is not None
        self._child.kill()
        self._child = None

    def stop(self) -> None:
        """End the daemon in order."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def count(self, event: str) -> int:
        """How often an event is in the log of all lives."""
        return self.log.read_bytes().count(f'"{event}"'.encode())

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Every occurrence of an event in the log of all lives, oldest first."""
        lines = self.log.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines if f'"{event}"'.encode() in line]

    def events(self) -> Counter[str]:
        """How often each event about plans and members is in the log of all lives."""
        names = re.findall(
            rb'"event": "((?:daemon|group|grant|handover|member|plan)\.\w+)"', self.log.read_bytes()
        )
        return Counter(name.decode() for name in names)

    def wait_for(self, what: str, found: Callable[[], object], within: float) -> None:
        """Wait until `found` returns something true.

        Raises:
            AssertionError: it did not; the text quotes the log.
        """
        wait_until(
            what,
            found,
            within,
            pause=0.5,
            shown=lambda: self.log.read_text(errors="replace")[-4000:],
        )


def stop_everything(members: list[Member]) -> None:
    """End all workers in order, together."""
    alive = [member for member in members if member.alive]
    for member in alive:
        member.resume()
        member.ask_to_end()
    for member in alive:
        member.await_end()


def _child_of(guarded: guard.Guarded) -> int:
    """Process id of the only child of a guard.

    Raises:
        ProcessLookupError: the guard has ended.
    """
    parent = guarded.process.pid

    def children() -> list[str]:
        if guarded.poll() is not None:
            raise ProcessLookupError(f"process {parent} has ended, and its child too")
        return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()

    return int(wait_until("child of a guard", children, pause=0.01)[0])


def _all_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped by a signal."""
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])
        except OSError:  # the thread has ended
            continue
    return bool(states) and all(state in "Tt" for state in states)
