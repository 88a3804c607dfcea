"""Warm-ups: the step towards a plan that loses no state.

Tasks run elsewhere until they are caught up where they belong.

Guarantees: a task that is behind where it belongs, while another process is closer, runs on the
closest one: where it ran, then where it is least behind, then where fewest tasks run. If that
process was to have a standby of the task, the two are swapped. A task that is being restored where
it ran continues there while no process is caught up. A standby that is behind, a swapped one too,
stays on the closest copy that has no other role. So no caught-up copy is without a role while
another copy of the task is behind in one.
A copy that is not where it belongs is built there, as the swapped standby or as a warm-up, if the
budget has one left; it is awaited, and a probing rebalance is needed until none is. The budget goes
to active tasks first, then to the copies that are least behind, so that a warm-up once begun is
finished.
Ties: tasks in their order, processes by id.
Cost: O(C log C) for C copies. Moves over budget rounds, and one more, if warm-ups catch up between
two rounds.
Source: KIP-441; the swap is Kafka's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from levelwind.assignors.kafka_streams.application import NOBODY, UNKNOWN, Application, TaskCopy
from levelwind.assignors.kafka_streams.standby_placement import rank
from levelwind.assignors.kafka_streams.task_model import AwaitedCopy, StreamsSettings
from levelwind.assignors.problem.columns import Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionStep:
    """Processes that run, follow and warm up each task now."""

    active: tuple[int, ...]
    """T: the process that runs the task; -1 for stateless tasks."""
    standbys: tuple[tuple[int, ...], ...]
    """T: the processes with a standby of the task, ascending."""
    warmups: tuple[tuple[int, ...], ...]
    """T: the processes with a warm-up of the task, ascending."""
    awaited: tuple[AwaitedCopy, ...]
    """Copies that are not where they belong yet."""


def next_step(
    app: Application,
    active: Longs,
    standbys: tuple[tuple[int, ...], ...],
    settings: StreamsSettings,
) -> TransitionStep:
    """Compute the first step towards where active tasks and standbys belong.

    Args:
        app: the application.
        active: the process where each stateful task belongs (T); -1 for stateless tasks.
        standbys: the processes where each task's standbys belong (T).
        settings: the settings of the application.
    """
    builder = _StepBuilder(
        app, active.tolist(), [list(processes) for processes in standbys], settings.max_warmups
    )
    active_behind = _least_behind_first(app, list(enumerate(builder.active)))
    for pair in active_behind:
        builder.run_closest(*pair)
    for pair in _least_behind_first(app, _pairs(builder.standbys)):
        builder.follow_closest(*pair)
    for pair in active_behind:
        builder.wait_for_active(*pair)
    for pair in _least_behind_first(app, _pairs(standbys)):
        builder.wait_for_standby(*pair)
    return TransitionStep(
        active=tuple(builder.active),
        standbys=tuple(tuple(sorted(processes)) for processes in builder.standbys),
        warmups=tuple(tuple(sorted(processes)) for processes in builder.warmups),
        awaited=tuple(builder.awaited),
    )


def _pairs(standbys: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Pairs of a task and a process with a standby of it."""
    return [(task, process) for task, processes in enumerate(standbys) for process in processes]


def _least_behind_first(app: Application, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of a task and a process that is not caught up, least behind first."""
    behind = []
    for task, process in pairs:
        if app.copies[task]:
            lag = app.lag(task, process)
            if lag > app.acceptable_lag:
                behind.append((lag, task, process))
    return [(task, process) for _, task, process in sorted(behind)]


class _StepBuilder:
    """The plan while it is adapted to the state that exists."""

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

    def run_closest(self, task: int, home: int) -> None:
        """Run the task on the closest process while it is behind where it belongs."""
        lag = self._app.lag(task, home)
        copies = self._app.copies[task]
        closer = [copy for copy in copies if copy.process != home and copy.lag < lag]
        restoring = home == self._app.owner[task] and not any(copy.caught_up for copy in copies)
        if not closer or restoring:
            return
        source = min(closer, key=self._usefulness).process
        self.active[task] = source
        self._load[home] -= 1
        self._load[source] += 1
        if source in self.standbys[task]:
            self.standbys[task].remove(source)
            self.standbys[task].append(home)

    def follow_closest(self, task: int, process: int) -> None:
        """Leave a standby on the closest copy without a role while it is behind on the process."""
        lag = self._app.lag(task, process)
        used = {self.active[task], *self.standbys[task]}
        closer = [
            copy for copy in self._app.copies[task] if copy.process not in used and copy.lag < lag
        ]
        if closer:
            self.standbys[task].remove(process)
            self.standbys[task].append(min(closer, key=rank).process)

    def wait_for_active(self, task: int, home: int) -> None:
        """Build a copy where the task belongs, unless the task runs there."""
        if self.active[task] != home:
            self._await(task, home, "active")

    def wait_for_standby(self, task: int, home: int) -> None:
        """Build a copy where a standby belongs, unless the process has a role there."""
        if home not in {self.active[task], *self.standbys[task]}:
            self._await(task, home, "standby")

    def _usefulness(self, copy: TaskCopy) -> tuple[bool, bool, int, int, int]:
        """Sort key of copies to run a task on, the best one first."""
        caught_up = copy.caught_up
        lag = 0 if caught_up else copy.lag
        return not caught_up, not copy.active, lag, self._load[copy.process], copy.process

    def _await(self, task: int, process: int, role: Literal["active", "standby"]) -> None:
        warming = process in self.standbys[task]
        if not warming and self._budget:
            self._budget -= 1
            self.warmups[task].append(process)
            warming = True
        lag = self._app.lag(task, process)
        self.awaited.append(
            AwaitedCopy(
                task=self._app.tasks[task],
                process=self._app.processes[process],
                role=role,
                lag=None if lag == UNKNOWN else lag,
                warming=warming,
            )
        )
