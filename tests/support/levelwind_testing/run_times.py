"""Where the time of a test run goes: a section at the end of each run of pytest.

It names the slowest tests and fixtures, and says how long the run took, how much CPU its processes
used, how much of the machine was idle, and how busy each process of a parallel run was.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psutil
import pytest

SHOWN = 30
"""Tests and fixtures that are named, the slowest first."""
LEAST_SECONDS = 0.05
"""A part that took less is not kept."""
PARTS = "parts"
"""Key of the fixtures' times in what a process of a parallel run gives back."""
PHASES = {"call": "", "teardown": "teardown of "}
"""The reported phases of a test that count as parts; a set-up is that of its fixtures."""


class Part(NamedTuple):
    """A test, the set-up of a fixture or a teardown, and its seconds."""

    seconds: float
    name: str


class MachineTime(NamedTuple):
    """Seconds of all cores since the start of the machine."""

    idle: float
    all: float

    @classmethod
    def now(cls) -> "MachineTime":
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        # A guest's time is part of the user's.
        guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        return cls(idle, sum(times) - guest)

    def idle_share_since(self, start: "MachineTime") -> float:
        """Share of the machine that nobody used in between, 0 to 1."""
        return (self.idle - start.idle) / max(self.all - start.all, 1e-9)


def cpu_seconds() -> float:
    """CPU of this process, of those that it waited for, and of its living descendants."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:4])  # with those that it waited for
        except psutil.NoSuchProcess:
            continue
    return total


@dataclass(eq=False)
class RunTimes:
    """The plugin of one process."""

    parts: list[Part] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds in tests of each process of a parallel run."""
    begun: float = field(default_factory=time.monotonic)
    machine: MachineTime = field(default_factory=MachineTime.now)

    def keep(self, seconds: float, name: str) -> None:
        if seconds >= LEAST_SECONDS:
            self.parts.append(Part(seconds, name))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            where = request.node.nodeid.partition("::")[0]
            name = f"fixture {fixturedef.argname} of a {fixturedef.scope}, {where}"
            self.keep(time.monotonic() - begun, name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (phase := PHASES.get(report.when or "")) is not None:
            self.keep(report.duration, phase + report.nodeid)
        if (node := getattr(report, "node", None)) is not None:
            self.busy[node.gateway.id] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Give the fixtures' times to the run's own process, where this one is one of several."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[PARTS] = [tuple(part) for part in self.parts if part.name.startswith("fixture")]

    def pytest_testnodedown(self, node: Any) -> None:
        """Take the fixtures' times of a process that has ended."""
        self.parts += [Part(*part) for part in getattr(node, "workeroutput", {}).get(PARTS, [])]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        wall = time.monotonic() - self.begun
        terminalreporter.section("where the time goes")
        for line in self.lines(wall, cpu_seconds(), MachineTime.now()):
            terminalreporter.write_line(line)

    def lines(self, wall: float, cpu: float, machine: MachineTime) -> list[str]:
        """The section's lines: the slowest parts, then the run as a whole.

        Args:
            wall: seconds since the start of the run.
            cpu: CPU seconds of all its processes.
            machine: the machine's time at its end.
        """
        slowest = sorted(self.parts, key=lambda part: (-part.seconds, part.name))[:SHOWN]
        lines = [f"{part.seconds:8.1f} s  {part.name}" for part in slowest]
        for name, seconds in sorted(self.busy.items()):
            lines.append(f"{seconds:8.1f} s  in tests of process {name}")
        idle = machine.idle_share_since(self.machine)
        lines.append(f"{wall:.1f} s wall, {cpu:.1f} s CPU, {idle:.0%} of the machine idle")
        return lines


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RunTimes(), "run_times")
