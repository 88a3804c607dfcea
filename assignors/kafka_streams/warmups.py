"""Warm-ups: the step towards a plan that loses no state.

Tasks run elsewhere until they are caught up where they belong.

Guarantees: a task that is behind where it belongs, while another process is closer, runs on the
closest one: where it ran, then where it is least behind, then where fewest tasks run. If that
process was to have a standby of the task, the two are swapped, and the standby catches up where the
task belongs; else a warm-up is built there, if the budget has one left. A task that is being
restored where it ran continues there while no process is caught up. A standby likewise stays on a
caught-up copy while it is built where it belongs. Each such copy is awaited: a probing rebalance is
needed until there is none. The budget goes to the copies that are least behind, so that a warm-up
once begun is finished.
Ties: tasks in their order, processes by id.
Cost: O(C log C) for C copies. Moves over budget rounds, and one more, if warm-ups catch up between
two rounds.
Source: KIP-441; the swap is Kafka's.
"""

from dataclasses import dataclass

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
    for pair in _least_behind_first(app, list(enumerate(builder.active))):
        builder.hand_over_active(*pair)
    pairs = [(task, process) for task, processes in enumerate(standbys) for process in processes]
    for pair in _least_behind_first(app, pairs):
        builder.hand_over_standby(*pair)
    return TransitionStep(
        active=tuple(builder.active),
        standbys=tuple(tuple(sorted(processes)) for processes in builder.standbys),
        warmups=tuple(tuple(sorted(processes)) for processes in builder.warmups),
        awaited=tuple(builder.awaited),
    )


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

    def hand_over_active(self, task: int, home: int) -> None:
        """Run the task on the closest process until it is caught up where it belongs."""
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
            self._await(task, home, "active", warming=True)
        else:
            self._await(task, home, "active", warming=self._start_warmup(task, home))

    def hand_over_standby(self, task: int, home: int) -> None:
        """Leave a standby on a caught-up copy until it is caught up where it belongs."""
        if home not in self.standbys[task]:  # swapped with the active task
            return
        used = {self.active[task], *self.standbys[task], *self.warmups[task]}
        caught_up = [
            copy for copy in self._app.copies[task] if copy.caught_up and copy.process not in used
        ]
        if not caught_up:
            return
        self.standbys[task].remove(home)
        self.standbys[task].append(min(caught_up, key=rank).process)
        self._await(task, home, "standby", warming=self._start_warmup(task, home))

    def _usefulness(self, copy: TaskCopy) -> tuple[bool, bool, int, int, int]:
        """Sort key of copies to run a task on, the best one first."""
        caught_up = copy.caught_up
        lag = 0 if caught_up else copy.lag
        return not caught_up, not copy.active, lag, self._load[copy.process], copy.process

    def _start_warmup(self, task: int, process: int) -> bool:
        """Start a warm-up if the budget has one left; return whether it was started."""
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
