"""`streams`: tasks with their active and standby copies over the processes of a Kafka Streams application.

Law: first where the stateful tasks belong (`actives`, `standbys`); then the step towards it that loses no state
(`movements`); then the stateless tasks, which even out the active tasks as they run now; then threads. Called again with what became of the last answer, it reaches the place where everything belongs as soon as the
warm-ups are caught up, and then moves nothing.
Ties and cost: those of the parts.
Source: KIP-441, KIP-708, KIP-925.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from assignors.kafka_streams.actives import assign_active
from assignors.kafka_streams.application import (
    NOBODY,
    Application,
)
from assignors.kafka_streams.standbys import assign_standbys
from assignors.kafka_streams.task_model import (
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
)
from assignors.kafka_streams.threads import assign_threads
from assignors.kafka_streams.warmups import next_step
from assignors.problem.columns import Longs


def assign(
    tasks: Iterable[Task],
    processes: Iterable[StreamsProcess],
    settings: StreamsSettings | None = None,
) -> TaskPlan:
    """Plan an application.

    Raises:
        ProblemError: the message says whose field is wrong and what is expected there.
        SolverMissingError: the application needs flows, and OR-tools is not installed.
    """
    settings = settings or StreamsSettings()
    return plan_application(Application.build(tasks, processes, settings), settings)


def plan_application(app: Application, settings: StreamsSettings) -> TaskPlan:
    """Plan an application that is in columns already."""
    if not app.processes:
        warning = (
            [f"processes: there are none, so {len(app.tasks)} tasks are nobody's"]
            if app.tasks
            else []
        )
        return TaskPlan(processes={}, warnings=tuple(warning))
    belongs = assign_stateful(app, settings)
    followed = assign_standbys(app, belongs, settings)
    step = next_step(app, belongs, followed.processes, settings)
    active = assign_stateless(app, step.active, settings)
    return TaskPlan(
        processes=assign_threads(app, active, step),
        awaited=step.awaited,
        warnings=followed.warnings,
    )


def assign_stateful(app: Application, settings: StreamsSettings) -> Longs:
    """The process where each stateful task belongs; -1 for the others."""
    active = np.full(len(app.tasks), NOBODY, dtype=np.int64)
    chosen = np.flatnonzero(app.stateful)
    active[chosen] = assign_active(
        app, chosen, np.zeros(len(app.processes), dtype=np.int64), settings
    )
    return active


def assign_stateless(app: Application, active: Sequence[int], settings: StreamsSettings) -> Longs:
    """The process of each task: the stateless ones beside the stateful ones as they run now."""
    found = np.array(active, dtype=np.int64)
    load = np.bincount(found[app.stateful], minlength=len(app.processes))
    chosen = np.flatnonzero(~app.stateful)
    found[chosen] = assign_active(app, chosen, load, settings)
    return found
