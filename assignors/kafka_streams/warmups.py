"""How the plan is reached without losing anyone's state: who runs a task until it is caught up where it belongs.

Law: a task that is not caught up where it belongs, while another process is further, runs on the one that is furthest:
where it ran, then where it is least behind, then where fewest tasks run. If that process was to have a standby of the task,
the two are swapped, and the standby catches up where the task belongs. A task that is being restored where it ran goes on
there while nobody is caught up. Else a warm-up is built there, if the budget has
one left. A standby likewise stays on a caught-up copy while it is built where it belongs. Each such copy is awaited: a
probing rebalance is wanted until there is none.
The budget goes first to the copies that are least behind, so that a warm-up once begun is finished.
Ties: tasks in their order, processes by id.
Cost: O(C log C) for C copies. Rounds to the end: moves over budget, and one, if warm-ups catch up between two rounds.
Source: KIP-441; the swap is Kafka's.
"""

from dataclasses import dataclass

from assignors.kafka_streams.application import (
    NOBODY,
    UNKNOWN,
    Application,
    TaskCopy,
)
from assignors.kafka_streams.standby_placement import rank
from assignors.kafka_streams.task_model import (
    AwaitedCopy,
    StreamsSettings,
)
from assignors.problem.columns import Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStep:
    """Who runs, follows and warms up each task now."""

    active: tuple[int, ...]  # by task; -1 for stateless ones
    standbys: tuple[tuple[int, ...], ...]  # by task
    warmups: tuple[tuple[int, ...], ...]  # by task
    awaited: tuple[AwaitedCopy, ...]


def next_step(
    app: Application,
    active: Longs,
    standbys: tuple[tuple[int, ...], ...],
    settings: StreamsSettings,
) -> TransitionStep:
    """The first step towards where active tasks and standbys belong."""
    step = _Step(app, active.tolist(), [list(those) for those in standbys], settings.max_warmups)
    for pair in _least_behind_first(app, list(enumerate(step.active))):
        step.run(*pair)
    pairs = [(task, process) for task, those in enumerate(standbys) for process in those]
    for pair in _least_behind_first(app, pairs):
        step.follow(*pair)
    return TransitionStep(
        active=tuple(step.active),
        standbys=tuple(tuple(sorted(those)) for those in step.standbys),
        warmups=tuple(tuple(sorted(those)) for those in step.warmups),
        awaited=tuple(step.awaited),
    )


def _least_behind_first(app: Application, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The copies that are not caught up where they belong."""
    behind = []
    for task, process in pairs:
        if app.copies[task]:
            lag = app.lag(task, process)
            if lag > app.acceptable_lag:
                behind.append((lag, task, process))
    return [(task, process) for _, task, process in sorted(behind)]


class _Step:
    """The plan as it is bent to the state of today."""

    def __init__(
        self, app: Application, active: list[int], standbys: list[list[int]], budget: int
    ) -> None:
        self.active = active
        self.standbys = standbys
        self.warmups: list[list[int]] = [[] for _ in active]
        self.awaited: list[AwaitedCopy] = []
        self._app = app
        self._budget = budget
        self._load = [0] * len(app.processes)
        for process in active:
            if process != NOBODY:
                self._load[process] += 1

    def run(self, task: int, belongs: int) -> None:
        """Let the task run where it is furthest."""
        lag = self._app.lag(task, belongs)
        copies = self._app.copies[task]
        further = [copy for copy in copies if copy.process != belongs and copy.lag < lag]
        restoring = belongs == self._app.owner[task] and not any(copy.caught_up for copy in copies)
        if not further or restoring:
            return
        source = min(further, key=self._serves).process
        self.active[task] = source
        self._load[belongs] -= 1
        self._load[source] += 1
        if source in self.standbys[task]:
            self.standbys[task].remove(source)
            self.standbys[task].append(belongs)
            self._await(task, belongs, "active", warming=True)
        else:
            self._await(task, belongs, "active", warming=self._warm(task, belongs))

    def follow(self, task: int, belongs: int) -> None:
        """Let a standby stay on a caught-up copy until it is caught up where it belongs."""
        if belongs not in self.standbys[task]:  # it was swapped
            return
        used = {self.active[task], *self.standbys[task], *self.warmups[task]}
        there = [
            copy for copy in self._app.copies[task] if copy.caught_up and copy.process not in used
        ]
        if not there:
            return
        self.standbys[task].remove(belongs)
        self.standbys[task].append(min(there, key=rank).process)
        self._await(task, belongs, "standby", warming=self._warm(task, belongs))

    def _serves(self, copy: TaskCopy) -> tuple[bool, bool, int, int, int]:
        caught_up = copy.caught_up
        lag = 0 if caught_up else copy.lag
        return not caught_up, not copy.active, lag, self._load[copy.process], copy.process

    def _warm(self, task: int, process: int) -> bool:
        if self._budget:
            self._budget -= 1
            self.warmups[task].append(process)
            return True
        return False

    def _await(self, task: int, process: int, role: str, *, warming: bool) -> None:
        lag = self._app.lag(task, process)
        self.awaited.append(
            AwaitedCopy(
                task=self._app.tasks[task],
                process=self._app.processes[process],
                role="active" if role == "active" else "standby",
                lag=None if lag == UNKNOWN else lag,
                warming=warming,
            )
        )
