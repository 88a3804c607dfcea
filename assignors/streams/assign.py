"""`streams`: tasks with their active and standby copies over the processes of a Kafka Streams application.

Law: first where everything belongs, blind to how far anybody is behind (`actives`, `standbys`); then the step towards it
that loses no state (`movements`); then threads. Stateless tasks follow the stateful ones and even out the active tasks of
each process. Called again with what became of the last answer, it reaches the place where everything belongs as soon as the
warm-ups are caught up, and then moves nothing.
Ties and cost: those of the parts.
Source: KIP-441, KIP-708, KIP-925.
"""

from collections.abc import Iterable

import numpy as np

from assignors.columns import Longs
from assignors.streams.actives import actives
from assignors.streams.application import Application
from assignors.streams.model import Process, Settings, Task
from assignors.streams.movements import movements
from assignors.streams.plan import Plan
from assignors.streams.standbys import standbys
from assignors.streams.threads import threads


def assign(tasks: Iterable[Task], processes: Iterable[Process], settings: Settings | None = None) -> Plan:
    """Plan an application.

    Raises:
        ProblemError: the message says whose field is wrong and what is expected there.
    """
    settings = settings or Settings()
    return planned(Application.build(tasks, processes, settings), settings)


def planned(app: Application, settings: Settings) -> Plan:
    """Plan an application that is in columns already."""
    if not app.processes:
        warning = [f"processes: there are none, so {len(app.tasks)} tasks are nobody's"] if app.tasks else []
        return Plan(processes={}, warnings=tuple(warning))
    active = where_active(app, settings)
    followed = standbys(app, active, settings)
    step = movements(app, active, followed.processes, settings)
    return Plan(processes=threads(app, step), awaited=step.awaited, warnings=followed.warnings)


def where_active(app: Application, settings: Settings) -> Longs:
    """The process where each task belongs: the stateful ones first, the others beside them."""
    active = np.zeros(len(app.tasks), dtype=np.int64)
    load = np.zeros(len(app.processes), dtype=np.int64)
    for chosen in (np.flatnonzero(app.stateful), np.flatnonzero(~app.stateful)):
        active[chosen] = actives(app, chosen, load, settings)
        load += np.bincount(active[chosen], minlength=len(load))
    return active
