"""`streams`: active and standby tasks over the processes of a Kafka Streams application.

Guarantees: first it is decided where the stateful tasks belong (`actives`, `standbys`), then the
step towards it that loses no state (`warmups`), then the stateless tasks, which even out the active
tasks as they run now, then the threads. When it is called again with what became of the last plan,
it reaches the state in which every task is where it belongs as soon as the warm-ups are caught up;
then nothing moves.
Ties and cost: those of the parts.
Source: KIP-441, KIP-708, KIP-925.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from levelwind.assignors.kafka_streams.actives import assign_active
from levelwind.assignors.kafka_streams.application import NOBODY, Application
from levelwind.assignors.kafka_streams.standbys import assign_standbys
from levelwind.assignors.kafka_streams.task_model import (
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
)
from levelwind.assignors.kafka_streams.threads import assign_threads
from levelwind.assignors.kafka_streams.warmups import next_step
from levelwind.assignors.problem.columns import Longs


def assign(
    tasks: Iterable[Task],
    processes: Iterable[StreamsProcess],
    settings: StreamsSettings | None = None,
) -> TaskPlan:
    """Plan an application.

    Raises:
        ProblemError: the message names the field at fault and what is expected there.
        SolverMissingError: the application needs flows, and OR-tools is not installed.
    """
    settings = settings or StreamsSettings()
    return plan_application(Application.build(tasks, processes, settings), settings)


def plan_application(app: Application, settings: StreamsSettings) -> TaskPlan:
    """Plan an application that is in columns already."""
    if not app.processes:
        warning = (
            [f"processes: there are none, so {len(app.tasks)} tasks run nowhere"]
            if app.tasks
            else []
        )
        return TaskPlan(processes={}, warnings=tuple(warning))
    home = assign_stateful(app, settings)
    standbys = assign_standbys(app, home, settings)
    step = next_step(app, home, standbys.processes, settings)
    active = assign_stateless(app, step.active, settings)
    return TaskPlan(
        processes=assign_threads(app, active, step),
        awaited=step.awaited,
        warnings=standbys.warnings,
    )


def assign_stateful(app: Application, settings: StreamsSettings) -> Longs:
    """T: the process where each stateful task belongs; -1 for stateless tasks."""
    active = np.full(len(app.tasks), NOBODY, dtype=np.int64)
    chosen = np.flatnonzero(app.stateful)
    active[chosen] = assign_active(
        app, chosen, np.zeros(len(app.processes), dtype=np.int64), settings
    )
    return active


def assign_stateless(app: Application, active: Sequence[int], settings: StreamsSettings) -> Longs:
    """T: the process of each task, once the stateless tasks are assigned beside the stateful ones.

    Args:
        app: the application.
        active: where stateful tasks run now (T); -1 for stateless tasks.
        settings: the settings of the application.
    """
    found = np.array(active, dtype=np.int64)
    load = np.bincount(found[app.stateful], minlength=len(app.processes))
    chosen = np.flatnonzero(~app.stateful)
    found[chosen] = assign_active(app, chosen, load, settings)
    return found
