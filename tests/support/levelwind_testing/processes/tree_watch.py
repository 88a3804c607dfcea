"""What a tree of processes holds open, by the roles of its processes, over the pipeline's batches.

What is freed now and then, as by a collector, is held until then. So growth is the difference of
the least that was held in the first and in the last third of the looks.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from levelwind.streaming.spark.settings import WORKER_DAEMON
from levelwind_testing.processes import processes

ROLES = {
    processes.GUARD: "guards",
    "org.apache.spark.deploy.SparkSubmit": "JVM",
    f"-m {WORKER_DAEMON}": "workers",
    "levelwind.daemon.pipeline.process": "pipeline",
    "levelwind.daemon.cli": "daemon",
}
"""Name of a role by what the commands of its processes contain; the first one that fits."""
OTHERS = "others"
OPEN = ("processes", "files", "sockets", "threads")
"""What there must not be more of, however many batches there were."""
TABLES = ".sst"
"""Suffix of RocksDB's files, one more in ten batches until the next compaction, after forty."""
LEAK = 1.0
"""Growth in a hundred batches that is a leak."""
LEAST_LOOKS = 6


@dataclass(frozen=True, slots=True)
class Held:
    """What the processes of one role hold."""

    processes: int = 0
    files: int = 0
    """Open files of the process that has the most, sockets among them, tables not."""
    tables: int = 0
    """Open tables of state stores, of the process that has the most."""
    sockets: int = 0
    """Sockets of the process that has the most."""
    threads: int = 0
    """Threads of the process that has the most."""
    kib: int = 0
    """Memory of all of them; a page that processes share counts for each in part."""

    def __or__(self, other: "Held") -> "Held":
        return Held(
            self.processes + other.processes,
            max(self.files, other.files),
            max(self.tables, other.tables),
            max(self.sockets, other.sockets),
            max(self.threads, other.threads),
            self.kib + other.kib,
        )


def role_of(command: str) -> str:
    """The role of a process by its command."""
    return next((role for part, role in ROLES.items() if part in command), OTHERS)


def held_by(roots: Mapping[str, int]) -> dict[str, Held]:
    """What trees of processes hold now, by `NAME: ROLE`, from the root of each tree by its name."""
    found: dict[str, Held] = {}
    for name, root in roots.items():
        tree = processes.usage(root, lambda _, process: role_of(process.command), stop="")
        for pid, used in tree.items():
            where = f"{name}: {used.name}"
            if (held := _held(pid, used.memory)) is not None:
                found[where] = found.get(where, Held()) | held
    return found


def _held(pid: int, memory: int) -> Held | None:
    """What one process holds; None: it has just ended."""
    process = Path(f"/proc/{pid}")
    try:
        links = [_target(link) for link in (process / "fd").iterdir()]
        threads = len(list((process / "task").iterdir()))
    except OSError:
        return None
    sockets = sum(link.startswith("socket:") for link in links)
    tables = sum(link.removesuffix(" (deleted)").endswith(TABLES) for link in links)
    return Held(1, len(links) - tables, tables, sockets, threads, memory // 1024)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed since
        return ""


def bytes_below(directories: Iterable[Path]) -> int:
    """Bytes that some directories take on their disks, with what lies in them."""
    total = 0
    for directory in directories:
        for file in directory.rglob("*"):
            try:
                total += file.lstat().st_blocks * 512
            except OSError:  # removed since
                continue
    return total


@dataclass(frozen=True, slots=True)
class Growth:
    """The least of something in the first and in the last third of the looks."""

    before: float
    after: float
    batches: float
    """Batches between the middles of both thirds."""

    @property
    def leaked(self) -> float:
        """Growth beyond `LEAK`."""
        return self.after - self.before - LEAK * self.batches / 100

    def __str__(self) -> str:
        return f"{self.before:g} -> {self.after:g}"


class TreeWatch:
    """Looks at trees of processes, each at a number of batches."""

    def __init__(self) -> None:
        self.looks: list[tuple[int, dict[str, Held]]] = []

    def add(self, batches: int, held: dict[str, Held]) -> None:
        """Add a look."""
        self.looks.append((batches, held))

    def growth(self) -> dict[str, dict[str, Growth]]:
        """Growth of all that is held, by role and by the names of `Held`."""
        third = len(self.looks) // 3
        assert len(self.looks) >= LEAST_LOOKS, "too few looks to compare"
        first, last = self.looks[:third], self.looks[-third:]
        batches = (sum(at for at, _ in last) - sum(at for at, _ in first)) / third
        roles = sorted({role for _, held in self.looks for role in held})
        return {
            role: {
                field.name: Growth(
                    *(
                        min(getattr(held.get(role, Held()), field.name) for _, held in part)
                        for part in (first, last)
                    ),
                    batches,
                )
                for field in fields(Held)
            }
            for role in roles
        }

    def leaks(self, besides: int = 0, names: Collection[str] = OPEN) -> list[str]:
        """What grows by more than `LEAK` in a hundred batches, in words.

        Args:
            besides: growth that is none: over few batches one connection more looks like a leak.
            names: what is looked at, by the names of `Held`.
        """
        return [
            f"{role}: {name} {growth} in {growth.batches:.0f} batches"
            for role, by_name in self.growth().items()
            for name, growth in by_name.items()
            if name in names and growth.leaked > besides
        ]

    def __str__(self) -> str:
        """A line for each role."""
        return "\n".join(
            f"{role}: " + ", ".join(f"{name} {growth}" for name, growth in by_name.items())
            for role, by_name in self.growth().items()
        )
