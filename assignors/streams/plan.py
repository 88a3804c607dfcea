"""The answer: who runs which tasks, and whether to look again soon."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """What one consumer is to run: task ids, in the tasks' order."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A copy that is not where it belongs yet: why a probing rebalance is wanted."""

    task: str
    process: str  # where it belongs
    role: Literal["active", "standby"]
    lag: int | None  # how far the copy there is behind; None: unknown
    warming: bool  # it is being built there now; else it waits for the budget of warm-ups


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan for the whole application, in the order of process and consumer ids."""

    processes: Mapping[str, Mapping[str, Assigned]]  # by process and consumer
    awaited: tuple[Awaited, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def probing(self) -> bool:
        """Whether a probing rebalance is wanted: some copy is not where it belongs yet."""
        return bool(self.awaited)

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Each (process, consumer, role, task)."""
        for process, consumers in self.processes.items():
            for consumer, assigned in consumers.items():
                for role in ("active", "standby", "warmup"):
                    for task in getattr(assigned, role):
                        yield process, consumer, role, task
