"""Placement of active tasks: balanced, spread over subtopologies, rack-local and sticky.

Guarantees, in this order:
1. Each process gets its share of the tasks (`quotas`).
2. Of each subtopology no process gets more than its part by threads, rounded up, so that its tasks
   are spread (not under `min_traffic`). Where no assignment does both, the tasks beyond the part
   are as few as possible.
3. The cost is lowest: `traffic_cost` for each source partition without a replica in the process's
   rack (under a rack strategy), `non_overlap_cost` for each task that leaves the process that ran
   it.
4. Of all such assignments, most tasks are where they ran, then where their state is caught up (or
   least behind), then where there is some state. A task that ran where it is behind, while another
   process is caught up, is not kept there.
An assignment that is such an answer is the answer to itself: nothing moves where nothing changed.
Ties: the solver's; it gets the same arcs in the same order whatever the order of the input.
Cost: only a check where nothing is to move, else one min-cost flow, or two where point 2 cannot be
met. Racks stand between tasks and processes, and equal tasks are one node, so the flow has T ·
racks + 2 · subtopologies · processes arcs, not T · processes.
Source: KIP-925; its graph, made smaller. Kafka spends its costs on top of one balanced assignment,
this on all of them.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.kafka_streams.application import UNKNOWN, Application
from levelwind.assignors.kafka_streams.quotas import TaskQuotas, task_quotas
from levelwind.assignors.kafka_streams.task_model import StreamsSettings
from levelwind.assignors.problem.columns import Longs, numbered, within
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.solver import MAX_COST, Arcs, concat_arcs, min_cost_flow

RAN, BEST, BEHIND, NOTHING = range(4)
"""State of a task that a process has; less is better.

The process ran the task, is caught up or least behind, is behind, or has none.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateTies:
    """Pairs of a chosen task and a process that has state of it, a row each."""

    task: Longs
    """Index of the task among the chosen tasks."""
    process: Longs
    """Index of the process."""
    state: Longs
    """`RAN`, `BEST` or `BEHIND`."""


def assign_active(app: Application, chosen: Longs, load: Longs, settings: StreamsSettings) -> Longs:
    """Return the process of each chosen task.

    Args:
        app: the application.
        chosen: the tasks to assign.
        load: tasks that each process runs already (P).
        settings: the settings of the application.

    Raises:
        ProblemError: the costs are too large for so many tasks.
        SolverMissingError: OR-tools is not installed.
    """
    if not len(chosen):
        return np.zeros(0, dtype=np.int64)
    quotas = task_quotas(len(chosen), load, app.threads)
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
    found = network.unchanged(quotas, ties)
    if found is None:
        found = network.solve(quotas, ties, strict=True)
    if found is None:
        found = network.solve(quotas, ties, strict=False)
    if found is None:
        raise AssertionError("a flow without limits on subtopologies always exists")
    return found


def _state_ties(app: Application, chosen: Longs) -> StateTies:
    rows = [
        (index, process, state)
        for index, task in enumerate(chosen.tolist())
        for process, state in sorted(_copy_states(app, task).items())
    ]
    task, process, state = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return StateTies(task=task, process=process, state=state)


def _copy_states(app: Application, task: int) -> dict[int, int]:
    """State of a task by process; processes without state are left out."""
    owner = int(app.owner[task])
    copies = app.copies[task]
    if not copies:
        return {owner: RAN} if owner >= 0 else {}
    any_caught_up = any(copy.caught_up for copy in copies)
    min_lag = min(copy.lag for copy in copies)
    states = {}
    for copy in copies:
        if copy.process == owner and (copy.caught_up or not any_caught_up):
            states[copy.process] = RAN
        else:
            best = copy.caught_up if any_caught_up else copy.lag == min_lag < UNKNOWN
            states[copy.process] = BEST if best else BEHIND
    return states


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    """Node numbers of the flow, in the order of the properties."""

    groups: int
    """Groups of equal tasks."""
    subtopologies: int
    racks: int
    processes: int

    @property
    def rack(self) -> int:
        """First node of the racks, subtopology by subtopology."""
        return self.groups

    @property
    def cell(self) -> int:
        """First node of the cells: one for each subtopology and process."""
        return self.rack + self.subtopologies * self.racks

    @property
    def process(self) -> int:
        """First node of the processes."""
        return self.cell + self.subtopologies * self.processes

    @property
    def pool(self) -> int:
        """Node through which tied processes get one spare task each."""
        return self.process + self.processes

    @property
    def sink(self) -> int:
        """The last node."""
        return self.pool + 1

    @property
    def cells(self) -> Longs:
        """Cells counted from 0."""
        return np.arange(self.subtopologies * self.processes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prices:
    """Costs of the arcs that leave a group."""

    unit: int
    """Price of one unit of cost; it exceeds any difference in state."""
    unbound: Longs
    """By group and rack: price of a task on a process without state of it."""
    held: Longs
    """By state tie: price of the task on that process."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ActiveFlow:
    """The flow of active tasks, from groups of equal tasks to the sink.

    Groups → racks within a subtopology → its cells, one for each process → processes → sink.

    A task of which some process has state is a group of its own, with an arc straight to that
    process's cell.
    """

    app: Application
    chosen: Longs
    """The tasks to assign."""
    subtopology: Longs
    """By chosen task: its subtopology, dense; 0 for all if they are not to be spread."""
    spread: bool
    """Whether the tasks of a subtopology are to be spread over processes."""
    rack: Longs
    """By process: its rack; 0 for all if racks do not count."""
    misses: Longs
    """By chosen task and rack: source partitions without a replica in the rack."""
    traffic_cost: int
    non_overlap_cost: int

    def unchanged(self, quotas: TaskQuotas, ties: StateTies) -> Longs | None:
        """Return where all tasks ran, if that is an answer; then no flow is needed."""
        ran = ties.state == RAN
        if np.count_nonzero(ran) < len(self.chosen):
            return None
        process = ties.process[ran]
        surplus = np.bincount(process, minlength=len(self.rack)) - quotas.guaranteed
        subtopologies = int(self.subtopology.max()) + 1
        cells = np.bincount(
            self.subtopology * len(self.rack) + process, minlength=subtopologies * len(self.rack)
        )
        fewest_misses = self.misses[:, np.unique(self.rack)].min(axis=1)
        saved = self.misses[ties.task[ran], self.rack[process]] - fewest_misses
        balanced = (
            (surplus >= 0).all()
            and (surplus <= quotas.tied).all()
            and (cells <= self._parts(subtopologies)).all()
        )
        stays = balanced and (self.traffic_cost * saved <= self.non_overlap_cost).all()
        return process if stays else None

    def solve(self, quotas: TaskQuotas, ties: StateTies, *, strict: bool) -> Longs | None:
        """Return the process of each chosen task.

        None if `strict` and the parts of subtopologies cannot be held.
        """
        group = self._groups(ties)
        size = np.bincount(group)
        nodes = _Nodes(
            groups=len(size),
            subtopologies=int(self.subtopology.max()) + 1,
            racks=self.misses.shape[1],
            processes=len(self.rack),
        )
        sample = np.zeros(len(size), dtype=np.int64)  # by group: one of its tasks
        sample[group[::-1]] = np.arange(len(group))[::-1]
        prices = self._prices(sample, ties)
        leaving = concat_arcs(
            self._arcs_to_racks(nodes, sample, size, prices),
            self._arcs_to_cells(nodes, group, ties, prices),
        )
        entering = self._arcs_into_cells(nodes)
        arcs = concat_arcs(
            leaving, entering, self._arcs_to_processes(nodes), _arcs_to_sink(nodes, quotas)
        )
        if not strict:
            arcs = concat_arcs(arcs, self._overflow_arcs(nodes, prices))
        supply = np.zeros(nodes.sink + 1, dtype=np.int64)
        supply[: len(size)] = size
        supply[nodes.sink] = -len(group)
        flow = _cheapest_flow(arcs, supply)
        if flow is None:
            return None
        first, end = len(leaving.tail), len(leaving.tail) + len(entering.tail)
        cell = _cells_of_tasks(
            group, (leaving, flow[:first]), (entering, flow[first:end]), nodes.cell
        )
        process: Longs = (cell - nodes.cell) % nodes.processes
        return process

    def _groups(self, ties: StateTies) -> Longs:
        """By chosen task: its group.

        Tasks of equal subtopology and misses are one group; a task of which some process has state
        is alone.
        """
        alone = np.zeros(len(self.chosen), dtype=np.int64)
        alone[ties.task] = ties.task + 1
        rows = np.column_stack((alone, self.subtopology, self.misses))
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

    def _parts(self, subtopologies: int) -> Longs:
        """By cell: the process's part of the subtopology, by threads, rounded up.

        All tasks if they are not to be spread.
        """
        if not self.spread:
            return np.full(len(self.rack), len(self.chosen))
        tasks = np.bincount(self.subtopology, minlength=subtopologies)
        return -(-np.multiply.outer(tasks, self.app.threads) // int(self.app.threads.sum())).ravel()

    def _prices(self, sample: Longs, ties: StateTies) -> _Prices:
        unit = NOTHING * len(self.chosen) + 1
        traffic = self.traffic_cost * self.misses[sample]
        held = self.traffic_cost * self.misses[ties.task, self.rack[ties.process]]
        moved = ties.state != RAN
        return _Prices(
            unit=unit,
            unbound=unit * (traffic + self.non_overlap_cost) + NOTHING,
            held=unit * (held + self.non_overlap_cost * moved) + ties.state,
        )

    def _arcs_to_racks(self, nodes: _Nodes, sample: Longs, size: Longs, prices: _Prices) -> Arcs:
        """From each group to all racks of its subtopology."""
        rack = nodes.rack + self.subtopology[sample][:, None] * nodes.racks + np.arange(nodes.racks)
        return Arcs(
            tail=np.repeat(np.arange(nodes.groups), nodes.racks),
            head=rack.ravel(),
            capacity=np.repeat(size, nodes.racks),
            cost=prices.unbound.ravel(),
        )

    def _arcs_to_cells(self, nodes: _Nodes, group: Longs, ties: StateTies, prices: _Prices) -> Arcs:
        """From each task with state to the cells of the processes that have it."""
        return Arcs(
            tail=group[ties.task],
            head=nodes.cell + self.subtopology[ties.task] * nodes.processes + ties.process,
            capacity=np.ones(len(ties.task), dtype=np.int64),
            cost=prices.held,
        )

    def _arcs_into_cells(self, nodes: _Nodes) -> Arcs:
        """From each rack of a subtopology to the cells of its processes."""
        subtopology = np.repeat(np.arange(nodes.subtopologies), nodes.processes)
        rack = np.tile(self.rack, nodes.subtopologies)
        return Arcs(
            tail=nodes.rack + subtopology * nodes.racks + rack,
            head=nodes.cell + nodes.cells,
            capacity=np.full(len(nodes.cells), len(self.chosen)),
        )

    def _arcs_to_processes(self, nodes: _Nodes) -> Arcs:
        """From each cell to its process, for its part of the subtopology."""
        return Arcs(
            tail=nodes.cell + nodes.cells,
            head=nodes.process + nodes.cells % nodes.processes,
            capacity=self._parts(nodes.subtopologies),
        )

    def _overflow_arcs(self, nodes: _Nodes, prices: _Prices) -> Arcs:
        """From each cell to its process, beyond its part of the subtopology."""
        # Dearer than everything else together, or, with 100,000 tasks and large costs, than
        # thousands of tasks.
        count = len(self.chosen)
        all_tasks = prices.unit * (count * (int(prices.unbound.max()) // prices.unit + 1) + 1)
        beyond = min(all_tasks, MAX_COST // (nodes.sink + 2) - 1)
        return Arcs(
            tail=nodes.cell + nodes.cells,
            head=nodes.process + nodes.cells % nodes.processes,
            capacity=np.full(len(nodes.cells), count),
            cost=np.full(len(nodes.cells), beyond),
        )


def _arcs_to_sink(nodes: _Nodes, quotas: TaskQuotas) -> Arcs:
    """From processes to the sink, directly and through the pool.

    The guaranteed tasks go directly; tied processes get one spare task each through the pool.
    """
    tied = np.flatnonzero(quotas.tied)
    return concat_arcs(
        Arcs(
            tail=nodes.process + np.arange(nodes.processes),
            head=np.full(nodes.processes, nodes.sink),
            capacity=quotas.guaranteed,
        ),
        Arcs(
            tail=nodes.process + tied,
            head=np.full(len(tied), nodes.pool),
            capacity=np.ones_like(tied),
        ),
        Arcs(
            tail=np.array([nodes.pool]),
            head=np.array([nodes.sink]),
            capacity=np.array([quotas.spare]),
        ),
    )


def _cheapest_flow(arcs: Arcs, supply: Longs) -> Longs | None:
    try:
        return min_cost_flow(arcs, supply)
    except OverflowError as wrong:
        raise ProblemError(
            "options traffic_cost, non_overlap_cost: too large for so many tasks; lower them"
        ) from wrong


def _cells_of_tasks(
    group: Longs, leaving: tuple[Arcs, Longs], entering: tuple[Arcs, Longs], first_cell: int
) -> Longs:
    """Follow the flow from each task to its cell.

    Equal tasks go in order, one to each cell in rotation.

    Args:
        group: the group of each chosen task.
        leaving: the arcs that leave groups, to racks and to cells, and their flow.
        entering: the arcs from racks to cells, and their flow.
        first_cell: the first cell's node.
    """
    arcs, flow = leaving
    order = np.lexsort((arcs.head, arcs.tail))
    by_group = np.argsort(group, kind="stable")
    node = np.empty(len(group), dtype=np.int64)
    node[by_group] = np.repeat(arcs.head[order], flow[order])
    at_rack = np.flatnonzero(node < first_cell)
    at_rack = at_rack[np.argsort(node[at_rack], kind="stable")]
    arcs, flow = entering
    order = np.argsort(arcs.tail, kind="stable")
    tail, head, flow = arcs.tail[order], arcs.head[order], flow[order]
    rotation = within(flow)
    slots = np.lexsort((np.repeat(head, flow), rotation, np.repeat(tail, flow)))
    node[at_rack] = np.repeat(head, flow)[slots]
    return node
