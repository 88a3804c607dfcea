"""Whether the machine was the bottleneck of a round: its CPU, from /proc/stat, and late members."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_CPU = 0.9
"""Share of the machine's CPU, on average over a round."""
MOST_LATE = 0.03
"""Share of a member's busy time that the machine may take from it."""
MOST_BEHIND_SECONDS = 1.0
"""Seconds that arrivals may be behind their time; to write a burst takes half a second."""
INTERRUPTS = slice(5, 8)
"""Columns of /proc/stat: irq, softirq and steal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """Load of the machine in one round."""

    cpu: float
    """Mean share of the CPU."""
    busy_windows: float
    """Share of the seconds in which the CPU was busy beyond `MOST_CPU`."""
    late: float
    """Largest share of its busy time that a member was late."""
    behind: float
    """Most seconds that arrivals were behind their time."""

    @property
    def bottleneck(self) -> str | None:
        """Why the round does not count; None if it does."""
        if self.cpu > MOST_CPU:
            return f"the CPU was busy for {self.cpu:.0%} of the round"
        if self.late > MOST_LATE:
            return f"a member lost {self.late:.1%} of its time to the machine"
        if self.behind > MOST_BEHIND_SECONDS:
            return f"arrivals were {self.behind:.1f} s behind"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuReading:
    """CPU since the machine's start, in ticks.

    Processes of low priority give way, so that their time is free; /proc/stat has what they spend
    in the kernel under `system`, and so the busy time is summed over the other processes.
    """

    columns: tuple[int, ...]
    """First line of /proc/stat."""
    processes: Mapping[int, int]
    """CPU time of each process of normal priority, by process id."""

    @classmethod
    def now(cls, root: Path = Path("/proc")) -> CpuReading:
        """Read the present figures."""
        first = (root / "stat").read_text().split("\n", 1)[0]
        processes = {}
        for entry in root.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has just ended
                fields = entry.read_text().rpartition(")")[2].split()
                if int(fields[16]) <= 0:
                    processes[int(entry.parent.name)] = int(fields[11]) + int(fields[12])
        return cls(columns=tuple(int(word) for word in first.split()[1:]), processes=processes)


def busy_share(before: CpuReading, after: CpuReading) -> float:
    """Share of the CPU that processes of normal priority and interrupts used between readings."""
    spent = [b - a for a, b in zip(before.columns, after.columns, strict=True)]
    total = sum(spent[:8])  # what follows is counted in the columns before it already
    used = sum(spent[INTERRUPTS]) + sum(
        max(time - before.processes.get(pid, 0), 0) for pid, time in after.processes.items()
    )
    return min(used / total, 1.0) if total > 0 else 0.0


class CpuSampler:
    """Reads the CPU every second, in a thread of its own."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, CpuReading]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._samples.append((time.time(), CpuReading.now()))
            if self._stop.wait(1.0):
                return

    def between(self, began: float, ended: float) -> tuple[float, float]:
        """Mean share of the CPU in a time, and the share of its seconds beyond `MOST_CPU`."""
        inside = [reading for at, reading in list(self._samples) if began <= at <= ended]
        if len(inside) < 2:
            return 0.0, 0.0
        shares = [busy_share(a, b) for a, b in itertools.pairwise(inside)]
        full = sum(share > MOST_CPU for share in shares) / len(shares)
        return busy_share(inside[0], inside[-1]), full
