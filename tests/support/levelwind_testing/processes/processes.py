"""CPU seconds and bytes of memory of processes, from /proc.

A page that several processes share counts for each in part, so that the sum is what they take.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
GUARD = "deploy/guard.py"
"""Program that brokers and daemons run under: its descendants do not count for its parent."""


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    name: str
    cpu: float
    resident: int
    """Bytes, with those that other processes share."""
    command: str


def running() -> dict[int, Process]:
    """All processes, by process id."""
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


@dataclass(frozen=True, slots=True)
class Used:
    name: str
    cpu: float
    """CPU seconds since the start of the process."""
    memory: int


def usage(
    root: int | None = None,
    name: Callable[[int, Process], str] = lambda pid, process: (
        "this script" if pid == os.getpid() else process.name
    ),
    *,
    stop: str = GUARD,
) -> dict[int, Used]:
    """Usage of a process and its descendants, by pid; without those below a `stop` program."""
    root = os.getpid() if root is None else root
    all_ = running()
    return {
        pid: Used(name(pid, process), process.cpu, _memory(pid, process))
        for pid, process in all_.items()
        if _below(pid, root, all_, stop)
    }


def _memory(pid: int, process: Process) -> int:
    try:
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has just ended, or it is another user's
        return process.resident
    found = re.search(r"^Pss: +([0-9]+) kB", shares, re.MULTILINE)
    return process.resident if found is None else int(found[1]) * 1024


def _below(pid: int, root: int, all_: dict[int, Process], stop: str) -> bool:
    while pid in all_ and pid != root:
        if stop and stop in all_[pid].command:
            return False
        pid = all_[pid].parent
    return pid == root


def spent(before: dict[int, Used], after: dict[int, Used]) -> float:
    """CPU seconds between two readings, of the processes that still run."""
    return sum(
        used.cpu - (before[pid].cpu if pid in before else 0.0) for pid, used in after.items()
    )


def spent_by_name(before: dict[int, Used], after: dict[int, Used]) -> dict[str, float]:
    """CPU seconds between two readings by name of the process, of those that still run."""
    return {
        name: spent(before, {pid: used for pid, used in after.items() if used.name == name})
        for name in sorted({used.name for used in after.values()})
    }


def shown(before: dict[int, Used], after: dict[int, Used], seconds: float) -> str:
    """Usage between two readings, a line for each name and the sum."""
    lines = []
    for name in sorted({used.name for used in after.values()}):
        of_name = {pid: used for pid, used in after.items() if used.name == name}
        share, memory = (
            spent(before, of_name) / seconds,
            sum(used.memory for used in of_name.values()),
        )
        lines.append(f"    {name}: {share:.1%} of a core, {memory / 2**20:,.0f} MiB")
    memory = sum(used.memory for used in after.values())
    lines.append(
        f"    together: {spent(before, after) / seconds:.1%} of a core, {memory / 2**20:,.0f} MiB"
    )
    return "\n".join(lines)
