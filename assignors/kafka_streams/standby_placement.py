"""Placement of standbys: kept where they are, added where the fewest copies are, then levelled.

Guarantees and cost are those of `standbys`. The class holds the state in between: each step reads
it and adds or passes on one copy.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import lcm

import numpy as np

from levelwind.assignors.kafka_streams.application import Application, TaskCopy
from levelwind.assignors.kafka_streams.quotas import TaskQuotas
from levelwind.assignors.kafka_streams.rack_tags import TagSpread
from levelwind.assignors.kafka_streams.task_model import StreamsSettings
from levelwind.assignors.problem.columns import Bools


def rank(copy: TaskCopy) -> tuple[bool, bool, int, int]:
    """Sort key of copies, the most useful first.

    Caught up, already a standby, least behind, process by id.
    """
    return not copy.caught_up, not copy.standby, copy.lag, copy.process


class StandbyPlacement:
    """The standbys so far, the room that is left, and the processes in order of their loads."""

    def __init__(
        self,
        *,
        app: Application,
        active: Sequence[int],
        load: Sequence[int],
        quotas: TaskQuotas,
        wanted: int,
        tag_spread: TagSpread,
        settings: StreamsSettings,
    ) -> None:
        """Take the problem.

        Args:
            app: the application.
            active: where each stateful task belongs (T).
            load: stateful tasks of each process (P).
            quotas: share of the standbys of each process.
            wanted: standbys of each task.
            tag_spread: where tags let standbys go.
            settings: the settings of the application.
        """
        self.standbys: list[list[int]] = [[] for _ in app.tasks]
        self._app = app
        self._active = active
        self._load = list(load)  # by process: its stateful tasks and its standbys so far
        self._wanted = wanted
        self._tag_spread = tag_spread
        self._guaranteed: list[int] = quotas.guaranteed.tolist()  # by process: what is left
        self._tied: list[bool] = quotas.tied.tolist()
        self._spare = quotas.spare
        self._threads: list[int] = app.threads.tolist()
        self._class: list[int] = app.tag_class.tolist()
        self._rack: list[int] = app.rack.tolist()
        self._traffic_cost = 0 if settings.rack_strategy == "none" else settings.traffic_cost
        self._move_cost = settings.non_overlap_cost
        # A kind: the processes of equal tags and rack, or of equal rack where most processes differ
        # in their tags.
        pairs = [
            (0 if tag_spread.too_many_classes else each, rack)
            for each, rack in zip(self._class, self._rack, strict=True)
        ]
        kinds = sorted(set(pairs))
        number = {pair: kind for kind, pair in enumerate(kinds)}
        self._kind = [number[pair] for pair in pairs]
        # By tag class: (kind, rack).
        self._kinds_of_class: list[list[tuple[int, int]]] = [[] for _ in app.tag_values]
        for kind, (tag_class, rack) in enumerate(kinds):
            self._kinds_of_class[tag_class].append((kind, rack))
        # By kind: (copies per thread, process), ascending.
        self._by_load: list[list[tuple[float, int]]] = [[] for _ in kinds]
        # By process: the tasks with a standby on it, while they are levelled.
        self._followed: list[set[int]] = [set() for _ in app.processes]

    def keep(self, task: int) -> None:
        """Keep the best of a task's copies where they are, within the shares of their processes."""
        while (process := self._next_to_stay(task, self._has_room)) is not None:
            self._add(task, process)

    def sort_by_load(self) -> None:
        """Sort the processes of each kind by their loads."""
        for process, kind in enumerate(self._kind):
            self._by_load[kind].append((self._load[process] / self._threads[process], process))
        for processes in self._by_load:
            processes.sort()

    def fill(self, task: int) -> None:
        """Place the missing standbys of a task where all of them together find the most room.

        Where they find none, copies stay beyond the shares of their processes: to build them
        elsewhere would level nothing.
        """
        while len(self.standbys[task]) < self._wanted:
            found = self._next_processes(task)
            if not all(map(self._has_room, found)):
                stays = self._next_to_stay(task, lambda _: True)
                found = found if stays is None else (stays,)
            for process in found:
                self._add_in_order(task, process)

    def level(self) -> None:
        """Pass standbys on along chains until none makes the copies per thread more even.

        A chain: a process passes a standby to a second one, which passes another to a third, and so
        on; the first ends with a copy less and the last with one more.
        """
        for task, processes in enumerate(self.standbys):
            for process in processes:
                self._followed[process].add(task)
        passed_on = True
        while passed_on:  # again: a standby that another one left may open a way that was closed
            passed_on = False
            unclosed = np.ones(len(self._load), dtype=np.bool_)
            while unclosed.any():
                chain, reached = self._shortest_chain(unclosed)
                for task, giver, taker in chain:
                    self.standbys[task].remove(giver)
                    self.standbys[task].append(taker)
                    self._followed[giver].remove(task)
                    self._followed[taker].add(task)
                    self._load[giver] -= 1
                    self._load[taker] += 1
                passed_on = passed_on or bool(chain)
                if not chain:
                    unclosed[reached] = False

    def previous(self, tasks: Sequence[int]) -> list[tuple[int, ...]] | None:
        """The previous standbys; None unless each task had as many as it is to have."""
        before: list[tuple[int, ...]] = [()] * len(self._app.tasks)
        for task in tasks:
            before[task] = tuple(copy.process for copy in self._app.copies[task] if copy.standby)
            if len(before[task]) != self._wanted or self._active[task] in before[task]:
                return None
        return before

    def cost(self, tasks: Sequence[int], found: Sequence[tuple[int, ...]]) -> tuple[int, int, int]:
        """Cost of a placement, less is better.

        Lexicographic: tag values not covered, unevenness of the copies, traffic and moves.
        """
        covered = 0
        total_cost = 0
        loads = Counter(self._active[task] for task in tasks)
        for task in tasks:
            standbys = found[task]
            covered += self._tag_spread.covered(
                [self._class[each] for each in (self._active[task], *standbys)]
            )
            had = {copy.process for copy in self._app.copies[task] if copy.standby}
            total_cost += sum(self._traffic(task, self._rack[each]) for each in standbys)
            total_cost += self._move_cost * len(set(standbys) - had)
            loads.update(standbys)
        # The sum over the copies of those that the process had before, per thread: least where each
        # copy went to the process with the fewest.
        unit = lcm(*self._threads)
        uneven = sum(
            count * (count - 1) * (unit // self._threads[process])
            for process, count in loads.items()
        )
        return -covered, uneven, total_cost

    def _shortest_chain(self, unclosed: Bools) -> tuple[list[tuple[int, int, int]], list[int]]:
        """Chain of (task, giver, taker) from the most loaded process, and the processes reached.

        Without a chain that levels, the chain is empty, and no chain from or over the processes
        reached levels either.

        Args:
            unclosed: the processes that may give and take (P).
        """
        load, threads = np.array(self._load), self._app.threads
        source = int(np.argmax(np.where(unclosed, (load - 1) / threads, -np.inf)))
        goal = unclosed & (load * threads[source] < (load[source] - 1) * threads)
        if not goal.any():
            return [], np.flatnonzero(unclosed).tolist()
        # By process: the task and the giver through which the search reached it.
        reached_from: dict[int, tuple[int, int]] = {}
        unreached = unclosed.copy()
        unreached[source] = False
        queue = deque([source])
        while queue:
            giver = queue.popleft()
            for task in sorted(self._followed[giver], key=partial(self._keeping, giver)):
                takers = np.flatnonzero(unreached & self._may_take(task, giver))
                reached_from.update(dict.fromkeys(takers.tolist(), (task, giver)))
                ends = takers[goal[takers]]
                if len(ends):
                    end = int(ends[np.argmin(load[ends] / threads[ends])])
                    return _chain_steps(reached_from, source, end), []
                unreached[takers] = False
                queue.extend(takers.tolist())
        return [], [source, *reached_from]

    def _keeping(self, process: int, task: int) -> tuple[bool, int, int]:
        """Sort key of a process's standbys, the one to pass on first: new ones, then by traffic."""
        had = any(copy.process == process for copy in self._app.copies[task])
        return had, -self._traffic(task, self._rack[process]), task

    def _may_take(self, task: int, giver: int) -> Bools:
        """Whether each process (P) may have the giver's standby of a task, by tags and copies."""
        others = [each for each in (self._active[task], *self.standbys[task]) if each != giver]
        by_class = self._tag_spread.adding_most([self._class[each] for each in others])
        allowed = np.frombuffer(by_class, dtype=np.bool_)[self._app.tag_class]
        allowed[[giver, *others]] = False
        return allowed

    def _next_to_stay(self, task: int, may_have: Callable[[int], bool]) -> int | None:
        """Process of the best copy that may stay as a standby; None if there is none.

        The tags allow a copy or not by those that stay already, so it is asked anew for each.
        """
        standbys = self.standbys[task]
        left = self._wanted - len(standbys)
        taken = {self._active[task], *standbys}
        return next(
            (
                copy.process
                for copy in sorted(self._app.copies[task], key=self._stays_first)
                if left
                and copy.process not in taken
                and may_have(copy.process)
                and self._tag_spread.allows(
                    self._used_classes(task), left, self._class[copy.process]
                )
                and self._traffic_acceptable(task, copy.process)
            ),
            None,
        )

    def _next_processes(self, task: int) -> tuple[int, ...]:
        """The best allowed processes for the missing standbys.

        For the next standby alone if classes are too many.
        """
        if not self._tag_spread.too_many_classes:
            choices = self._tag_spread.choices(
                self._used_classes(task), self._wanted - len(self.standbys[task])
            )
            return min(self._evaluate(task, classes) for classes in choices)[3]
        taken = {self._active[task], *self.standbys[task]}
        allowed = self._tag_spread.adding_most(self._used_classes(task))
        best = min(
            (not self._has_room(first[1]), self._traffic(task, self._rack[first[1]]), *first)
            for processes in self._by_load
            if (
                first := next(
                    (
                        entry
                        for entry in processes
                        if entry[1] not in taken and allowed[self._class[entry[1]]]
                    ),
                    None,
                )
            )
        )
        return (best[3],)

    def _stays_first(self, copy: TaskCopy) -> tuple[bool, bool, int, int, int]:
        """Sort key of copies that may stay: as `rank`, but caught-up ones by the room they have.

        Of a warm-up that is done and an old standby, the one then stays whose process has more of
        its share left, and the other one makes room for a task that has only that process.
        """
        lag = 0 if copy.caught_up else copy.lag
        return (*rank(copy)[:2], lag, -self._guaranteed[copy.process], copy.process)

    def _used_classes(self, task: int) -> list[int]:
        """Tag classes of the task's copies so far."""
        return [
            self._class[self._active[task]],
            *(self._class[each] for each in self.standbys[task]),
        ]

    def _evaluate(
        self, task: int, classes: Sequence[int]
    ) -> tuple[int, int, float, tuple[int, ...]]:
        """The best processes of some classes, with their cost.

        Copies without room, traffic, copies per thread, and the processes.
        """
        taken = [self._active[task], *self.standbys[task]]
        without_room = traffic = 0
        per_thread = 0.0
        for tag_class in classes:
            no_room, cost, load, process = min(
                (not self._has_room(first[1]), self._traffic(task, rack), *first)
                for kind, rack in self._kinds_of_class[tag_class]
                if (first := self._least_loaded(kind, taken)) is not None
            )
            without_room += no_room
            traffic += cost
            per_thread += load
            taken.append(process)
        return without_room, traffic, per_thread, tuple(taken[-len(classes) :])

    def _has_room(self, process: int) -> bool:
        left = self._guaranteed[process]
        return left > 0 or (left == 0 and self._tied[process] and self._spare > 0)

    def _add(self, task: int, process: int) -> None:
        if self._guaranteed[process] == 0 and self._tied[process]:
            self._spare -= 1
        self._guaranteed[process] -= 1
        self._load[process] += 1
        self.standbys[task].append(process)

    def _add_in_order(self, task: int, process: int) -> None:
        """Add a copy, and keep the processes of each kind sorted."""
        processes = self._by_load[self._kind[process]]
        entry = self._load[process] / self._threads[process], process
        del processes[bisect_left(processes, entry)]
        self._add(task, process)
        insort(processes, (self._load[process] / self._threads[process], process))

    def _least_loaded(self, kind: int, taken: Sequence[int]) -> tuple[float, int] | None:
        """The least loaded process of a kind that is not taken, with its copies per thread."""
        return next((each for each in self._by_load[kind] if each[1] not in taken), None)

    def _traffic(self, task: int, rack: int) -> int:
        if not self._traffic_cost:
            return 0
        return self._traffic_cost * int(self._app.changelog_misses[task, rack])

    def _traffic_acceptable(self, task: int, process: int) -> bool:
        """Whether moving the copy elsewhere would save no more traffic than a move costs."""
        if not self._traffic_cost:
            return True
        if self._tag_spread.too_many_classes:
            racks = set(self._rack)
        else:
            allowed = self._tag_spread.allowed(
                self._used_classes(task), self._wanted - len(self.standbys[task])
            )
            racks = {rack for each in allowed for _, rack in self._kinds_of_class[each]}
        least = min(self._traffic(task, rack) for rack in racks)
        return self._traffic(task, self._rack[process]) <= least + self._move_cost


def _chain_steps(
    reached_from: Mapping[int, tuple[int, int]], source: int, end: int
) -> list[tuple[int, int, int]]:
    """Steps (task, giver, taker) from the source to the end of a chain."""
    steps = []
    taker = end
    while taker != source:
        task, giver = reached_from[taker]
        steps.append((task, giver, taker))
        taker = giver
    return steps
