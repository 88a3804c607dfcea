"""Placement of standby copies: never beside the active task, spread over tags, sticky and balanced.

Guarantees, in this order:
1. The copies of a task are on distinct processes, as many as are configured or possible.
2. They cover as many distinct tag values as possible (`rack_tags`).
3. Copies per thread are as even as the active tasks allow: no chain of processes that pass standbys
   on lowers the sum over the copies of those that the process had before, per thread. Without tags
   that is the least of every placement.
4. An existing copy stays (caught-up ones first) where the third point lets it, unless moving it
   saves more traffic than `non_overlap_cost`. Which ones move is not searched for the least cost.
5. The others go to an allowed process below its share of all copies, with the least changelog
   traffic, the least loaded first.
If the previous standbys are no worse in number, tags, balance and cost, they are the answer, so
that nothing moves in vain.
Ties: tasks in their order, then processes by id.
Cost: O(T · R · (kinds + log P)) for R standbys; a kind is the processes of equal tags and rack.
Then mostly O(P) for each standby that is passed on, and O(T · R · P) where tags keep copies uneven.
Source: KIP-441 for even copies, KIP-708 for the tags, KIP-925 for the cost of a standby (its
changelog partitions).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.quotas import task_quotas
from levelwind.assignors.kafka_streams.rack_tags import TagSpread
from levelwind.assignors.kafka_streams.standby_placement import StandbyPlacement
from levelwind.assignors.kafka_streams.task_model import StreamsSettings
from levelwind.assignors.problem.columns import Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPlan:
    """The processes of each task's standbys, and what could not be done."""

    processes: tuple[tuple[int, ...], ...]
    """T: the processes of the task's standbys, ascending."""
    warnings: tuple[str, ...]
    """Sentences about settings that could not be met."""


def assign_standbys(app: Application, active: Longs, settings: StreamsSettings) -> StandbyPlan:
    """Place the standbys of stateful tasks.

    Args:
        app: the application.
        active: the process where each stateful task belongs (T).
        settings: the settings of the application.
    """
    wanted = min(settings.standby_replicas, len(app.processes) - 1)
    stateful = np.flatnonzero(app.stateful)
    if wanted <= 0 or not len(stateful):
        return StandbyPlan(
            processes=((),) * len(app.tasks),
            warnings=tuple(_too_few_processes(app, settings, len(stateful))),
        )
    load = np.bincount(active[stateful], minlength=len(app.processes))
    quotas = task_quotas(wanted * len(stateful), load, app.threads)
    room = np.bincount(app.tag_class, minlength=len(app.tag_values)).tolist()
    tag_spread = TagSpread(app.tag_values, room)
    placement = StandbyPlacement(
        app=app,
        active=active.tolist(),
        load=load.tolist(),
        quotas=quotas,
        wanted=wanted,
        tag_spread=tag_spread,
        settings=settings,
    )
    tasks = stateful.tolist()
    for task in tasks:
        placement.keep(task)
    placement.sort_by_load()
    for task in tasks:
        placement.fill(task)
    placement.level()
    found = [tuple(sorted(standbys)) for standbys in placement.standbys]
    before = placement.previous(tasks)
    if (
        before is not None
        and before != found
        and placement.cost(tasks, before) <= placement.cost(tasks, found)
    ):
        found = before
    warnings = [
        *_too_few_processes(app, settings, len(tasks)),
        *_shared_tag_values(app, active, settings, tag_spread, found),
    ]
    return StandbyPlan(processes=tuple(found), warnings=tuple(warnings))


def _too_few_processes(app: Application, settings: StreamsSettings, tasks: int) -> list[str]:
    """A warning if there are fewer processes than copies of a task."""
    possible = len(app.processes) - 1
    if not tasks or settings.standby_replicas <= possible:
        return []
    return [
        (
            f"standby_replicas: {settings.standby_replicas} are configured, but only {possible} are"
            " possible, since the copies of a task are on distinct processes; start more processes"
        )
    ]


def _shared_tag_values(
    app: Application,
    active: Longs,
    settings: StreamsSettings,
    tag_spread: TagSpread,
    found: Sequence[tuple[int, ...]],
) -> list[str]:
    """A warning for each tag with tasks whose copies share a value."""
    if not settings.rack_aware_tags:
        return []
    tasks_sharing: Counter[str] = Counter()
    for task, standbys in enumerate(found):
        if standbys:
            classes = [int(app.tag_class[each]) for each in (int(active[task]), *standbys)]
            for tag, covered in zip(
                settings.rack_aware_tags, tag_spread.distinct(classes), strict=False
            ):
                tasks_sharing[tag] += covered < len(classes)
    return [
        f"tag {tag!r}: the copies of {tasks_sharing[tag]} tasks share one of its {values} values;"
        " start processes with other values"
        for tag, values in zip(settings.rack_aware_tags, tag_spread.possible(), strict=False)
        if tasks_sharing[tag]
    ]
