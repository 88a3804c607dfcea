"""Where the standby copies belong: never beside the active one, spread over tags, kept where they are, balanced.

Law, in this order:
1. The copies of a task are on distinct processes, as many as are wanted or as there are.
2. They cover as many distinct values of the tags as can be (`tags`).
3. A copy that is there stays (caught up ones first) within the process's share of all copies, unless moving it saves more
   traffic than `non_overlap_cost`.
4. The others go to a process below its share if one is allowed, with the least traffic of changelogs, least loaded first.
If the standbys as they were are no worse in number, tags, balance and cost, they are the answer: nothing moves for nothing.
Ties: tasks in their order, then processes by id.
Cost: O(T · R · (kinds + log P)) for R standbys, a kind being the processes of equal tags and rack.
Source: KIP-708 for the tags, KIP-925 for the cost of a standby (its changelogs' partitions).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assignors.kafka_streams.application import Application
from assignors.kafka_streams.quotas import task_quotas
from assignors.kafka_streams.rack_tags import TagSpread
from assignors.kafka_streams.standby_placement import StandbyPlacement
from assignors.kafka_streams.task_model import StreamsSettings
from assignors.problem.columns import Longs


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPlan:
    """The processes of each task's standbys, and what could not be had."""

    processes: tuple[tuple[int, ...], ...]  # by task
    warnings: tuple[str, ...]


def assign_standbys(app: Application, active: Longs, settings: StreamsSettings) -> StandbyPlan:
    """The standbys of stateful tasks, given where each belongs active."""
    wanted = min(settings.standby_replicas, len(app.processes) - 1)
    stateful = np.flatnonzero(app.stateful)
    if wanted <= 0 or not len(stateful):
        return StandbyPlan(
            processes=((),) * len(app.tasks), warnings=tuple(_too_few(app, settings, len(stateful)))
        )
    load = np.bincount(active[stateful], minlength=len(app.processes))
    due = task_quotas(wanted * len(stateful), load, app.threads)
    room = np.bincount(app.tag_class, minlength=len(app.tag_values)).tolist()
    spreading = TagSpread(app.tag_values, room)
    placing = StandbyPlacement(
        app=app,
        active=active.tolist(),
        load=load.tolist(),
        due=due,
        wanted=wanted,
        spreading=spreading,
        settings=settings,
    )
    tasks = stateful.tolist()
    for task in tasks:
        placing.keep(task)
    placing.line_up()
    for task in tasks:
        placing.fill(task)
    found = [tuple(sorted(those)) for those in placing.standbys]
    before = placing.as_they_were(tasks)
    if (
        before is not None
        and before != found
        and placing.worth(tasks, before) <= placing.worth(tasks, found)
    ):
        found = before
    warnings = [
        *_too_few(app, settings, len(tasks)),
        *_too_close(app, active, settings, spreading, found),
    ]
    return StandbyPlan(processes=tuple(found), warnings=tuple(warnings))


def _too_few(app: Application, settings: StreamsSettings, tasks: int) -> list[str]:
    possible = len(app.processes) - 1
    if not tasks or settings.standby_replicas <= possible:
        return []
    return [
        f"standby_replicas: {settings.standby_replicas} are wanted, {possible} can be had: the copies of a task are on distinct processes; start more"
    ]


def _too_close(
    app: Application,
    active: Longs,
    settings: StreamsSettings,
    spreading: TagSpread,
    found: Sequence[tuple[int, ...]],
) -> list[str]:
    """A warning for each tag with tasks whose copies share a value."""
    if not settings.rack_aware_tags:
        return []
    short: Counter[str] = Counter()
    for task, those in enumerate(found):
        if those:
            classes = [int(app.tag_class[each]) for each in (int(active[task]), *those)]
            for tag, covered in zip(
                settings.rack_aware_tags, spreading.distinct(classes), strict=False
            ):
                short[tag] += covered < len(classes)
    return [
        f"tag {tag!r}: the copies of {short[tag]} tasks share a value of it; it has {values} in all, start processes on others"
        for tag, values in zip(settings.rack_aware_tags, spreading.possible(), strict=False)
        if short[tag]
    ]
