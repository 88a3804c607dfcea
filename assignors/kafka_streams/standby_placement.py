"""Standbys being placed: kept where they are, then put where the fewest copies are.

Law and cost are those of `standbys`. This is the state in between: each step reads it and adds one copy.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence

from assignors.kafka_streams.application import (
    Application,
    TaskCopy,
)
from assignors.kafka_streams.quotas import TaskQuotas
from assignors.kafka_streams.rack_tags import TagSpread
from assignors.kafka_streams.task_model import StreamsSettings


def rank(copy: TaskCopy) -> tuple[bool, bool, int, int]:
    """Which copy serves best: caught up, already a standby, least behind, process by id."""
    return not copy.caught_up, not copy.standby, copy.lag, copy.process


class StandbyPlacement:
    """The standbys so far, the room that is left, and the processes in order of their loads."""

    def __init__(
        self,
        *,
        app: Application,
        active: Sequence[int],
        load: Sequence[int],
        due: TaskQuotas,
        wanted: int,
        spreading: TagSpread,
        settings: StreamsSettings,
    ) -> None:
        """Take where the stateful tasks belong, the load that they are, and each process's share of the standbys."""
        self.standbys: list[list[int]] = [[] for _ in app.tasks]
        self._app = app
        self._active = active
        self._load = list(load)  # by process: its stateful tasks and its standbys so far
        self._wanted = wanted
        self._spreading = spreading
        self._sure: list[int] = due.sure.tolist()  # by process: what is left of its share
        self._tied: list[bool] = due.tied.tolist()
        self._spare = due.spare
        self._due = due
        self._threads: list[int] = app.threads.tolist()
        self._class: list[int] = app.tag_class.tolist()
        self._rack: list[int] = app.rack.tolist()
        self._traffic_cost = 0 if settings.rack_strategy == "none" else settings.traffic_cost
        self._move_cost = settings.non_overlap_cost
        # A kind: the processes of equal tags and rack; of equal rack, where nearly everybody has tags of its own.
        pairs = [
            (0 if spreading.many else each, rack)
            for each, rack in zip(self._class, self._rack, strict=True)
        ]
        kinds = sorted(set(pairs))
        number = {pair: kind for kind, pair in enumerate(kinds)}
        self._kind = [number[pair] for pair in pairs]
        self._kinds_of_class: list[list[tuple[int, int]]] = [
            [] for _ in app.tag_values
        ]  # (kind, rack)
        for kind, (tag_class, rack) in enumerate(kinds):
            self._kinds_of_class[tag_class].append((kind, rack))
        self._lines: list[list[tuple[float, int]]] = [
            [] for _ in kinds
        ]  # by kind: (copies per thread, process)

    def keep(self, task: int) -> None:
        """Leave the best of the copies that are there where they are, within their processes' shares."""
        there = self.standbys[task]
        for copy in sorted(self._app.copies[task], key=rank):
            if len(there) == self._wanted:
                return
            process = copy.process
            if process == self._active[task] or not self._has_room(process):
                continue
            left = self._wanted - len(there)
            if self._spreading.allows(
                self._used(task), left, self._class[process]
            ) and self._near_enough(task, process):
                self._place(task, process)

    def line_up(self) -> None:
        """Put the processes of each kind in order of their loads."""
        for process, kind in enumerate(self._kind):
            self._lines[kind].append((self._load[process] / self._threads[process], process))
        for line in self._lines:
            line.sort()

    def fill(self, task: int) -> None:
        """Place the standbys that are still missing, where all of them together find the most room."""
        there = self.standbys[task]
        while len(there) < self._wanted:
            for process in self._next(task):
                line = self._lines[self._kind[process]]
                del line[bisect_left(line, (self._load[process] / self._threads[process], process))]
                self._place(task, process)
                insort(line, (self._load[process] / self._threads[process], process))

    def as_they_were(self, tasks: Sequence[int]) -> list[tuple[int, ...]] | None:
        """The standbys that the processes had, if each task had as many as it is to have."""
        before: list[tuple[int, ...]] = [()] * len(self._app.tasks)
        for task in tasks:
            before[task] = tuple(copy.process for copy in self._app.copies[task] if copy.standby)
            if len(before[task]) != self._wanted or self._active[task] in before[task]:
                return None
        return before

    def worth(self, tasks: Sequence[int], found: Sequence[tuple[int, ...]]) -> tuple[int, int, int]:
        """What is better is less: tags not covered, copies beyond the shares, traffic and moves."""
        covered = 0
        cost = 0
        loads: Counter[int] = Counter()
        for task in tasks:
            those = found[task]
            covered += self._spreading.covered(
                [self._class[each] for each in (self._active[task], *those)]
            )
            had = {copy.process for copy in self._app.copies[task] if copy.standby}
            cost += sum(self._traffic(task, self._rack[each]) for each in those)
            cost += self._move_cost * len(set(those) - had)
            loads.update(those)
        over = {process: count - int(self._due.sure[process]) for process, count in loads.items()}
        beyond = sum(max(count - self._tied[process], 0) for process, count in over.items())
        spares = sum(count > 0 and self._tied[process] for process, count in over.items())
        return -covered, beyond + max(spares - self._due.spare, 0), cost

    def _next(self, task: int) -> tuple[int, ...]:
        """The best of the processes that are allowed: for all standbys that are missing, or for one."""
        if not self._spreading.many:
            ways = self._spreading.ways(self._used(task), self._wanted - len(self.standbys[task]))
            return min(self._found(task, way) for way in ways)[3]
        taken = {self._active[task], *self.standbys[task]}
        allowed = self._spreading.adding_most(self._used(task))
        best = min(
            (not self._has_room(first[1]), self._traffic(task, self._rack[first[1]]), *first)
            for line in self._lines
            if (
                first := next(
                    (e for e in line if e[1] not in taken and allowed[self._class[e[1]]]), None
                )
            )
        )
        return (best[3],)

    def _used(self, task: int) -> list[int]:
        return [
            self._class[self._active[task]],
            *(self._class[each] for each in self.standbys[task]),
        ]

    def _found(self, task: int, way: Sequence[int]) -> tuple[int, int, float, tuple[int, ...]]:
        """The best processes of some classes: without room, traffic, copies per thread, and who they are."""
        taken = [self._active[task], *self.standbys[task]]
        without_room = traffic = 0
        per_thread = 0.0
        for tag_class in way:
            no_room, cost, load, process = min(
                (not self._has_room(first[1]), self._traffic(task, rack), *first)
                for kind, rack in self._kinds_of_class[tag_class]
                if (first := self._first(kind, taken)) is not None
            )
            without_room += no_room
            traffic += cost
            per_thread += load
            taken.append(process)
        return without_room, traffic, per_thread, tuple(taken[-len(way) :])

    def _has_room(self, process: int) -> bool:
        left = self._sure[process]
        return left > 0 or (left == 0 and self._tied[process] and self._spare > 0)

    def _place(self, task: int, process: int) -> None:
        if self._sure[process] == 0 and self._tied[process]:
            self._spare -= 1
        self._sure[process] -= 1
        self._load[process] += 1
        self.standbys[task].append(process)

    def _first(self, kind: int, taken: Sequence[int]) -> tuple[float, int] | None:
        """The least loaded process of a kind that is not taken."""
        return next((each for each in self._lines[kind] if each[1] not in taken), None)

    def _traffic(self, task: int, rack: int) -> int:
        if not self._traffic_cost:
            return 0
        return self._traffic_cost * int(self._app.changelog_misses[task, rack])

    def _near_enough(self, task: int, process: int) -> bool:
        if not self._traffic_cost:
            return True
        if self._spreading.many:
            racks = set(self._rack)
        else:
            allowed = self._spreading.allowed(
                self._used(task), self._wanted - len(self.standbys[task])
            )
            racks = {rack for each in allowed for _, rack in self._kinds_of_class[each]}
        nearest = min(self._traffic(task, rack) for rack in racks)
        return self._traffic(task, self._rack[process]) <= nearest + self._move_cost
