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
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from assignors.columns import Longs
from assignors.streams.application import Application, Copy
from assignors.streams.model import Settings
from assignors.streams.shares import Shares, shares
from assignors.streams.tags import Spreading


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """The processes of each task's standbys, and what could not be had."""

    processes: tuple[tuple[int, ...], ...]  # by task
    warnings: tuple[str, ...]


def standbys(app: Application, active: Longs, settings: Settings) -> Standbys:
    """The standbys of stateful tasks, given where each belongs active."""
    wanted = min(settings.standby_replicas, len(app.processes) - 1)
    stateful = np.flatnonzero(app.stateful)
    if wanted <= 0 or not len(stateful):
        return Standbys(
            processes=((),) * len(app.tasks), warnings=tuple(_too_few(app, settings, len(stateful)))
        )
    load = np.bincount(active[stateful], minlength=len(app.processes))
    due = shares(wanted * len(stateful), load, app.threads)
    room = np.bincount(app.tag_class, minlength=len(app.tag_values)).tolist()
    spreading = Spreading(app.tag_values, room)
    placing = _Placing(
        app=app, active=active.tolist(), settings=settings, wanted=wanted, spreading=spreading, due=due
    )
    tasks = stateful.tolist()
    for task in tasks:
        placing.keep(task)
    placing.line_up()
    for task in tasks:
        placing.fill(task)
    found = [tuple(sorted(those)) for those in placing.standbys]
    before = placing.as_they_were(tasks)
    if before is not None and placing.worth(before) <= placing.worth(found):
        found = before
    warnings = [*_too_few(app, settings, len(tasks)), *_too_close(app, active, settings, spreading, found)]
    return Standbys(processes=tuple(found), warnings=tuple(warnings))


def rank(copy: Copy) -> tuple[bool, bool, int, int]:
    """Which copy serves best: caught up, already a standby, least behind, process by id."""
    return not copy.caught_up, not copy.standby, copy.lag, copy.process


@dataclass(slots=True, kw_only=True)
class _Placing:
    """Standbys being placed, task by task."""

    app: Application
    active: list[int]
    settings: Settings
    wanted: int
    spreading: Spreading
    due: Shares
    standbys: list[list[int]] = field(init=False)  # by task
    count: list[int] = field(init=False)  # by process: standbys so far
    spare: int = field(init=False)
    lines: list[list[tuple[float, int]]] = field(
        init=False
    )  # by kind: (load per thread with one more, process)
    kind: list[int] = field(init=False)  # by process
    kinds_of_class: list[list[tuple[int, int]]] = field(init=False)  # by tag class: (kind, rack)

    def __post_init__(self) -> None:
        self.standbys = [[] for _ in self.app.tasks]
        self.count = [0] * len(self.app.processes)
        self.spare = self.due.spare
        self.lines = []
        pairs = list(zip(self.app.tag_class.tolist(), self.app.rack.tolist(), strict=True))
        number = {pair: index for index, pair in enumerate(sorted(set(pairs)))}
        self.kind = [number[pair] for pair in pairs]
        self.kinds_of_class = [[] for _ in self.app.tag_values]
        for (tag_class, rack), kind in number.items():
            self.kinds_of_class[tag_class].append((kind, rack))

    def keep(self, task: int) -> None:
        """Leave the best of the copies that are there where they are, within their processes' shares."""
        for copy in sorted(self.app.copies[task], key=rank):
            if len(self.standbys[task]) == self.wanted:
                return
            process = copy.process
            if process == self.active[task] or not self._has_room(process):
                continue
            allowed = self._allowed(task)
            if self.app.tag_class[process] in allowed and self._near_enough(task, process, allowed):
                self._place(task, process)

    def line_up(self) -> None:
        """Put the processes of each kind in order of their loads."""
        load = np.bincount(
            [self.active[task] for task in np.flatnonzero(self.app.stateful).tolist()],
            minlength=len(self.app.processes),
        )
        after = (load + np.array(self.count) + 1) / self.app.threads
        self.lines = [[] for _ in range(max(self.kind) + 1)]
        for process, kind in enumerate(self.kind):
            self.lines[kind].append((float(after[process]), process))
        for line in self.lines:
            heapify(line)

    def fill(self, task: int) -> None:
        """Place the standbys that are still missing."""
        while len(self.standbys[task]) < self.wanted:
            best: tuple[bool, int, float, int] | None = None
            for tag_class in self._allowed(task):
                for kind, rack in self.kinds_of_class[tag_class]:
                    first = self._first(task, kind)
                    if first is not None:
                        after, process = first
                        worth = (not self._has_room(process), self._traffic(task, rack), after, process)
                        best = worth if best is None or worth < best else best
            if best is None:
                raise AssertionError("an allowed class has a process that is free")
            process = best[3]
            line = self.lines[self.kind[process]]
            line.remove((best[2], process))
            heapify(line)
            heappush(line, (best[2] + 1 / int(self.app.threads[process]), process))
            self._place(task, process)

    def as_they_were(self, tasks: Sequence[int]) -> list[tuple[int, ...]] | None:
        """The standbys that the processes had, if each task had as many as it is to have."""
        before: list[tuple[int, ...]] = [()] * len(self.app.tasks)
        for task in tasks:
            before[task] = tuple(copy.process for copy in self.app.copies[task] if copy.standby)
            if len(before[task]) != self.wanted or self.active[task] in before[task]:
                return None
        return before

    def worth(self, found: Sequence[tuple[int, ...]]) -> tuple[int, int, int]:
        """What is better is less: tags not covered, copies beyond the shares, traffic and moves."""
        covered = 0
        cost = 0
        loads: Counter[int] = Counter()
        for task, those in enumerate(found):
            if those:
                classes = [int(self.app.tag_class[each]) for each in (self.active[task], *those)]
                covered += sum(self.spreading.distinct(classes))
                had = {copy.process for copy in self.app.copies[task] if copy.standby}
                cost += sum(self._traffic(task, int(self.app.rack[each])) for each in those)
                cost += self.settings.non_overlap_cost * len(set(those) - had)
                loads.update(those)
        over = {p: loads[p] - int(self.due.sure[p]) for p in loads}
        beyond = sum(max(each - int(self.due.tied[p]), 0) for p, each in over.items())
        spares = sum(1 for p, each in over.items() if each > 0 and self.due.tied[p])
        return -covered, beyond + max(spares - self.due.spare, 0), cost

    def _allowed(self, task: int) -> tuple[int, ...]:
        there = self.standbys[task]
        used = [int(self.app.tag_class[each]) for each in (self.active[task], *there)]
        return self.spreading.allowed(used, self.wanted - len(there))

    def _has_room(self, process: int) -> bool:
        over = self.count[process] - int(self.due.sure[process])
        return over < 0 or (over == 0 and bool(self.due.tied[process]) and self.spare > 0)

    def _place(self, task: int, process: int) -> None:
        if self.count[process] == self.due.sure[process] and self.due.tied[process]:
            self.spare -= 1
        self.count[process] += 1
        self.standbys[task].append(process)

    def _first(self, task: int, kind: int) -> tuple[float, int] | None:
        """The least loaded process of a kind that has no copy of the task yet."""
        line = self.lines[kind]
        taken = {self.active[task], *self.standbys[task]}
        passed = []
        found = None
        while line and found is None:
            passed.append(heappop(line))
            if passed[-1][1] not in taken:
                found = passed[-1]
        for each in passed:
            heappush(line, each)
        return found

    def _traffic(self, task: int, rack: int) -> int:
        if self.settings.rack_strategy == "none":
            return 0
        return self.settings.traffic_cost * int(self.app.changelog_misses[task, rack])

    def _near_enough(self, task: int, process: int, allowed: Sequence[int]) -> bool:
        if self.settings.rack_strategy == "none":
            return True
        nearest = min(self._traffic(task, rack) for each in allowed for _, rack in self.kinds_of_class[each])
        here = self._traffic(task, int(self.app.rack[process]))
        return here <= nearest + self.settings.non_overlap_cost


def _too_few(app: Application, settings: Settings, tasks: int) -> list[str]:
    possible = len(app.processes) - 1
    if not tasks or settings.standby_replicas <= possible:
        return []
    return [
        f"standby_replicas: {settings.standby_replicas} are wanted, {possible} can be had: the copies of a task are on distinct processes; start more"
    ]


def _too_close(
    app: Application,
    active: Longs,
    settings: Settings,
    spreading: Spreading,
    found: Sequence[tuple[int, ...]],
) -> list[str]:
    """A warning for each tag with tasks whose copies share a value."""
    short: Counter[str] = Counter()
    for task, those in enumerate(found):
        if those:
            classes = [int(app.tag_class[each]) for each in (int(active[task]), *those)]
            for tag, covered in zip(settings.rack_aware_tags, spreading.distinct(classes), strict=False):
                short[tag] += covered < len(classes)
    return [
        f"tag {tag!r}: {short[tag]} tasks have copies that share a value of it, and it has {values} values in all; start"
        " processes on other values of it"
        for tag, values in zip(settings.rack_aware_tags, spreading.possible(), strict=False)
        if short[tag]
    ]
