"""What processes use, read from /proc: CPU seconds and resident bytes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
GUARD = "deploy/guard.py"
"""Brokers and daemons are started by it: what is below one is somebody else's."""


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    name: str
    cpu: float
    memory: int
    command: str


def running() -> dict[int, Process]:
    """All processes by number."""
    found: dict[int, Process] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            head, _, tail = (entry / "stat").read_text().rpartition(")")
            command = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has just ended
            continue
        fields = tail.split()
        cpu = (int(fields[11]) + int(fields[12])) / TICKS
        found[int(entry.name)] = Process(
            int(fields[1]), head.partition("(")[2], cpu, int(fields[21]) * PAGE, command
        )
    return found


def usage(
    root: int | None = None,
    name: Callable[[int, Process], str] = lambda pid, process: (
        "this script" if pid == os.getpid() else process.name
    ),
    *,
    stop: str = GUARD,
) -> dict[str, tuple[float, int]]:
    """CPU seconds and resident bytes of a process and all below it, summed by name; not of those below a `stop`."""
    root = os.getpid() if root is None else root
    all_ = running()
    used: dict[str, tuple[float, int]] = {}
    for pid, process in all_.items():
        if _below(pid, root, all_, stop):
            cpu, memory = used.get(name(pid, process), (0.0, 0))
            used[name(pid, process)] = (cpu + process.cpu, memory + process.memory)
    return used


def _below(pid: int, root: int, all_: dict[int, Process], stop: str) -> bool:
    while pid in all_ and pid != root:
        if stop and stop in all_[pid].command:
            return False
        pid = all_[pid].parent
    return pid == root


def spent(before: dict[str, tuple[float, int]], after: dict[str, tuple[float, int]]) -> float:
    """CPU seconds of all of them meanwhile."""
    return sum(cpu - before.get(name, (0.0, 0))[0] for name, (cpu, _) in after.items())


def shown(before: dict[str, tuple[float, int]], after: dict[str, tuple[float, int]], seconds: float) -> str:
    """What was used meanwhile, a line for each name and the sum."""
    lines, total = [], 0.0
    for name, (cpu, memory) in sorted(after.items()):
        share = (cpu - before.get(name, (0.0, 0))[0]) / seconds
        total += share
        lines.append(f"    {name}: {share:.1%} of a core, {memory / 2**20:,.0f} MiB")
    return "\n".join([*lines, f"    together: {total:.1%} of a core"])
