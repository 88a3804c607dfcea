"""Where the active tasks belong: balanced, spread, near their replicas, and as before.

Law, in this order:
1. Each process gets its share (`shares`) of the tasks.
2. Of each subtopology no process gets more than its part by threads, rounded up, so that its tasks are spread (not under
   `min_traffic`). Where no assignment does both, the tasks beyond the part are as few as can be.
3. The cost is the least: `traffic_cost` for each source partition without a replica in the process's rack (under a rack
   strategy), `non_overlap_cost` for each task that is not where it ran.
4. Of all such, most tasks are where they ran, then where their state is caught up (or the nearest to it), then where there
   is some. A task that ran where it is behind, while another process is caught up, has no place that it would stay at.
An assignment that is such an answer is the answer to itself: nothing moves where nothing changed.
Ties: the solver's, which sees the same arcs in the same order whatever the order of the input.
Cost: nothing but a look where nothing is to move, else one flow of least cost (two where point 2 cannot be held). Racks stand between tasks and processes, and equal tasks are one node, so that it has
T · racks + 2 · subtopologies · processes arcs, not T · processes.
Source: KIP-925; its graph, made smaller. Kafka spends its costs on top of one balanced assignment, this on all of them.
"""

from dataclasses import dataclass

import numpy as np

from assignors.kafka_streams.application import (
    UNKNOWN,
    Application,
)
from assignors.kafka_streams.quotas import (
    TaskQuotas,
    task_quotas,
)
from assignors.kafka_streams.task_model import StreamsSettings
from assignors.problem.columns import (
    Longs,
    numbered,
    within,
)
from assignors.problem.inputs import ProblemError
from assignors.solver import (
    MAX_COST,
    Arcs,
    min_cost_flow,
)

RAN, BEST, BEHIND, NOTHING = range(4)  # what a process has of a task: less is better


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateTies:
    """What binds tasks to processes: where they ran and where their state is."""

    task: Longs  # by place among the chosen tasks
    process: Longs
    state: Longs


def assign_active(app: Application, chosen: Longs, load: Longs, settings: StreamsSettings) -> Longs:
    """The process of each chosen task, beside loads that stand already."""
    if not len(chosen):
        return np.zeros(0, dtype=np.int64)
    due = task_quotas(len(chosen), load, app.threads)
    spread = settings.rack_strategy != "min_traffic"
    by_rack = settings.rack_strategy != "none" and settings.traffic_cost > 0
    network = _ActiveFlow(
        app=app,
        chosen=chosen,
        subtopology=numbered(app.subtopology[chosen])
        if spread
        else np.zeros(len(chosen), dtype=np.int64),
        rack=app.rack if by_rack else np.zeros(len(app.rack), dtype=np.int64),
        spread=spread,
        misses=app.input_misses[chosen] if by_rack else np.zeros((len(chosen), 1), dtype=np.int64),
        traffic_cost=settings.traffic_cost,
        non_overlap_cost=settings.non_overlap_cost,
    )
    ties = _state_ties(app, chosen)
    found = network.unmoved(due, ties)
    if found is None:
        found = network.solved(due, ties, strict=True)
    if found is None:
        found = network.solved(due, ties, strict=False)
    if found is None:
        raise AssertionError("a flow without limits on subtopologies always exists")
    return found


def _state_ties(app: Application, chosen: Longs) -> StateTies:
    rows = [
        (place, process, state)
        for place, task in enumerate(chosen.tolist())
        for process, state in sorted(_states(app, task).items())
    ]
    task, process, state = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return StateTies(task=task, process=process, state=state)


def _states(app: Application, task: int) -> dict[int, int]:
    """By process: what it has of a task."""
    owner = int(app.owner[task])
    copies = app.copies[task]
    if not copies:
        return {owner: RAN} if owner >= 0 else {}
    served = any(copy.caught_up for copy in copies)
    least = min(copy.lag for copy in copies)
    states = {}
    for copy in copies:
        if copy.process == owner and (copy.caught_up or not served):
            states[copy.process] = RAN
        else:
            best = copy.caught_up if served else copy.lag == least < UNKNOWN
            states[copy.process] = BEST if best else BEHIND
    return states


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ActiveFlow:
    """Groups of equal tasks → racks within a subtopology → its cells, one a process → processes → the sink.

    A task that some process has state of is a group of its own, with an arc straight to that process's cell.
    """

    app: Application
    chosen: Longs
    subtopology: Longs  # by place: dense, 0 for all where they are not to be spread
    spread: bool
    rack: Longs  # by process; 0 for all where racks do not count
    misses: Longs  # by place and rack
    traffic_cost: int
    non_overlap_cost: int

    def unmoved(self, due: TaskQuotas, ties: StateTies) -> Longs | None:
        """Where all tasks ran, if that is right and none would be better off elsewhere: then no flow is needed."""
        ran = ties.state == RAN
        if np.count_nonzero(ran) < len(self.chosen):
            return None
        where = ties.process[ran]
        more = np.bincount(where, minlength=len(self.rack)) - due.sure
        subtopologies = int(self.subtopology.max()) + 1
        cells = np.bincount(
            self.subtopology * len(self.rack) + where, minlength=subtopologies * len(self.rack)
        )
        saved = self.misses[ties.task[ran], self.rack[where]] - self.misses[
            :, np.unique(self.rack)
        ].min(axis=1)
        right = (
            (more >= 0).all()
            and (more <= due.tied).all()
            and (cells <= self._parts(subtopologies)).all()
        )
        return (
            where if right and (self.traffic_cost * saved <= self.non_overlap_cost).all() else None
        )

    def solved(self, due: TaskQuotas, ties: StateTies, *, strict: bool) -> Longs | None:
        """The process by place; None where `strict` parts of subtopologies cannot be held."""
        count, racks, processes = len(self.chosen), self.misses.shape[1], len(self.rack)
        group = self._groups(ties)
        size = np.bincount(group)
        first = np.zeros(
            len(size), dtype=np.int64
        )  # by group: one of its tasks, which speaks for all
        first[group[::-1]] = np.arange(count)[::-1]
        subtopologies = int(self.subtopology.max()) + 1
        rack_node = len(size)
        cell_node = rack_node + subtopologies * racks
        process_node = cell_node + subtopologies * processes
        pool, sink = process_node + processes, process_node + processes + 1

        # Dearer by one unit is worse than any difference in state.
        unit = NOTHING * count + 1
        loose = unit * (self.traffic_cost * self.misses[first] + self.non_overlap_cost) + NOTHING
        held = self.traffic_cost * self.misses[ties.task, self.rack[ties.process]]
        held = unit * (held + self.non_overlap_cost * (ties.state != RAN)) + ties.state
        by_rack = np.arange(racks)
        cells = np.arange(subtopologies * processes)
        rack_of_cell = (
            rack_node
            + np.repeat(np.arange(subtopologies), processes) * racks
            + np.tile(self.rack, subtopologies)
        )
        part = self._parts(subtopologies)
        anyone = np.arange(processes)
        tied = np.flatnonzero(due.tied)
        pieces = [
            (
                np.repeat(np.arange(len(size)), racks),
                (rack_node + self.subtopology[first][:, None] * racks + by_rack).ravel(),
                np.repeat(size, racks),
                loose.ravel(),
            ),
            (
                group[ties.task],
                cell_node + self.subtopology[ties.task] * processes + ties.process,
                np.ones(len(held), dtype=np.int64),
                held,
            ),
            (rack_of_cell, cell_node + cells, np.full(len(cells), count), np.zeros_like(cells)),
            (cell_node + cells, process_node + cells % processes, part, np.zeros_like(cells)),
            (process_node + anyone, np.full(processes, sink), due.sure, np.zeros_like(anyone)),
            (
                process_node + tied,
                np.full(len(tied), pool),
                np.ones_like(tied),
                np.zeros_like(tied),
            ),
            (np.array([pool]), np.array([sink]), np.array([due.spare]), np.array([0])),
        ]
        if not strict:
            # Dearer than all else together; with a hundred thousand tasks and large costs, than thousands of them.
            beyond = min(
                unit * (count * (int(loose.max()) // unit + 1) + 1), MAX_COST // (sink + 2) - 1
            )
            pieces.append(
                (
                    cell_node + cells,
                    process_node + cells % processes,
                    np.full(len(cells), count),
                    np.full(len(cells), beyond),
                )
            )
        tail, head, capacity, cost = (
            np.concatenate(column) for column in zip(*pieces, strict=True)
        )
        supply = np.zeros(sink + 1, dtype=np.int64)
        supply[: len(size)] = size
        supply[sink] = -count
        try:
            flow = min_cost_flow(Arcs(tail, head, capacity, cost), supply)
        except OverflowError as wrong:
            raise ProblemError(
                "options traffic_cost, non_overlap_cost: too large for so many tasks; lower them"
            ) from wrong
        if flow is None:
            return None
        left = len(size) * racks + len(
            held
        )  # the arcs that leave a group, and those that enter a cell from a rack
        entered = slice(left, left + len(cells))
        cell = _cells_of_tasks(
            group,
            (tail[:left], head[:left], flow[:left]),
            (tail[entered], head[entered], flow[entered]),
            cell_node,
        )
        found: Longs = (cell - cell_node) % processes
        return found

    def _groups(self, ties: StateTies) -> Longs:
        """Tasks of one subtopology with equal misses are one, unless somebody has state of them."""
        count = len(self.chosen)
        alone = np.zeros(count, dtype=np.int64)
        alone[ties.task] = ties.task + 1
        rows = np.column_stack((alone, self.subtopology, self.misses))
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

    def _parts(self, subtopologies: int) -> Longs:
        """By subtopology and process: its part by threads, rounded up; all where they are not to be spread."""
        if not self.spread:
            return np.full(len(self.rack), len(self.chosen))
        tasks = np.bincount(self.subtopology, minlength=subtopologies)
        return -(-np.multiply.outer(tasks, self.app.threads) // int(self.app.threads.sum())).ravel()


def _cells_of_tasks(
    group: Longs,
    leaving: tuple[Longs, Longs, Longs],
    entering: tuple[Longs, Longs, Longs],
    cell_node: int,
) -> Longs:
    """Follow the flow from each task to its cell; equals go in the tasks' order, one to each cell by turns."""
    tail, head, flow = leaving
    order = np.lexsort((head, tail))
    by_group = np.argsort(group, kind="stable")
    node = np.empty(len(group), dtype=np.int64)
    node[by_group] = np.repeat(head[order], flow[order])
    loose = np.flatnonzero(node < cell_node)
    loose = loose[np.argsort(node[loose], kind="stable")]
    tail, head, flow = entering
    order = np.argsort(tail, kind="stable")
    tail, head, flow = tail[order], head[order], flow[order]
    turn = within(flow)
    slots = np.lexsort((np.repeat(head, flow), turn, np.repeat(tail, flow)))
    node[loose] = np.repeat(head, flow)[slots]
    return node
