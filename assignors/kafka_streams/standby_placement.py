"""Placement of standbys: kept where they are, then added where the fewest copies are.

Guarantees and cost are those of `standbys`. The class holds the state in between: each step reads
it and adds one copy.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence

from levelwind.assignors.kafka_streams.application import Application, TaskCopy
from levelwind.assignors.kafka_streams.quotas import TaskQuotas
from levelwind.assignors.kafka_streams.rack_tags import TagSpread
from levelwind.assignors.kafka_streams.task_model import StreamsSettings


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
        self._quotas = quotas
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

    def keep(self, task: int) -> None:
        """Keep the best of a task's copies where they are, within the shares of their processes."""
        standbys = self.standbys[task]
        for copy in sorted(self._app.copies[task], key=rank):
            if len(standbys) == self._wanted:
                return
            process = copy.process
            if process == self._active[task] or not self._has_room(process):
                continue
            left = self._wanted - len(standbys)
            if self._tag_spread.allows(
                self._used_classes(task), left, self._class[process]
            ) and self._traffic_acceptable(task, process):
                self._add(task, process)

    def sort_by_load(self) -> None:
        """Sort the processes of each kind by their loads."""
        for process, kind in enumerate(self._kind):
            self._by_load[kind].append((self._load[process] / self._threads[process], process))
        for processes in self._by_load:
            processes.sort()

    def fill(self, task: int) -> None:
        """Place the missing standbys of a task where all of them together find the most room."""
        standbys = self.standbys[task]
        while len(standbys) < self._wanted:
            for process in self._next_processes(task):
                processes = self._by_load[self._kind[process]]
                del processes[
                    bisect_left(processes, (self._load[process] / self._threads[process], process))
                ]
                self._add(task, process)
                insort(processes, (self._load[process] / self._threads[process], process))

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

        Lexicographic: tag values not covered, copies beyond the shares, traffic and moves.
        """
        covered = 0
        total_cost = 0
        loads: Counter[int] = Counter()
        for task in tasks:
            standbys = found[task]
            covered += self._tag_spread.covered(
                [self._class[each] for each in (self._active[task], *standbys)]
            )
            had = {copy.process for copy in self._app.copies[task] if copy.standby}
            total_cost += sum(self._traffic(task, self._rack[each]) for each in standbys)
            total_cost += self._move_cost * len(set(standbys) - had)
            loads.update(standbys)
        over = {
            process: count - int(self._quotas.guaranteed[process])
            for process, count in loads.items()
        }
        beyond = sum(max(count - self._tied[process], 0) for process, count in over.items())
        spares = sum(count > 0 and self._tied[process] for process, count in over.items())
        return -covered, beyond + max(spares - self._quotas.spare, 0), total_cost

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
