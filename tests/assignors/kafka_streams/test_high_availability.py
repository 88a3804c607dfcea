"""The same applications through Kafka Streams' own `HighAvailabilityTaskAssignor`.

`streams` is nowhere worse: in what stays warm, in balance, in traffic and in moves. A fixed seed
finds the same histories every time; `make rare` draws a further one and prints it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import NamedTuple

import pytest

from levelwind.assignors.kafka_streams import StreamsProcess, StreamsSettings, Task, assign
from levelwind_testing.drawn_seeds import fixed_and_fresh_seeds
from levelwind_testing.groups.applications import process, tasks_of
from levelwind_testing.kafka.high_availability_oracle import HighAvailability, ProcessTasks

pytestmark = pytest.mark.integration
seeds = fixed_and_fresh_seeds(fixed=25, fresh=100)
CHANGES, MAX_ROUNDS = 3, 200
Assignor = Callable[[Sequence[Task], Sequence[StreamsProcess], StreamsSettings], ProcessTasks]


@pytest.fixture(scope="module")
def high_availability(kafka):
    return HighAvailability(kafka)


def ours(tasks, processes, settings):
    return ProcessTasks.of(assign(tasks, processes, settings))


def copies_of_processes(found):
    return sorted(len(found.copies(each)) for each in found.active)


@pytest.mark.parametrize("standbys", [1, 2, 3])
@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_from_scratch_copies_are_as_even_as_kafkas(high_availability, count, standbys):
    """156 applications: 13 numbers of tasks for each of the twelve cases."""
    processes = [process(f"p{number}") for number in range(count)]
    settings = StreamsSettings(standby_replicas=standbys)
    for partitions in range(1, 14):
        tasks = tasks_of(1, partitions, end=0)
        theirs = high_availability.assign(tasks, processes, settings)
        found = ours(tasks, processes, settings)
        assert copies_of_processes(found) == copies_of_processes(theirs), partitions


def warm_copies(tasks, before, now, wanted):
    """Caught-up copies that keep a role, up to as many as the task has copies."""
    found = 0
    for task in tasks:
        kept = sum(task.id in before.copies(each) & now.copies(each) for each in before.active)
        found += min(kept, wanted + 1)
    return found


@pytest.mark.parametrize("standbys", [1, 2])
@pytest.mark.parametrize("count", range(2, 9))
def test_a_process_that_joins_costs_no_caught_up_copy(high_availability, count, standbys):
    """49 applications with one standby, and as many with two."""
    settings = StreamsSettings(standby_replicas=standbys)
    for partitions in range(1, 8):
        tasks = tasks_of(1, partitions)
        processes = [process(f"p{number}") for number in range(count)]
        settled = ours(tasks, processes, settings)
        joined = [*settled.applied(processes), process("new")]
        before = ProcessTasks.had(joined)
        every = sum(len(settled.copies(each)) for each in settled.active)
        assert warm_copies(tasks, before, ours(tasks, joined, settings), standbys) == every
        theirs = high_availability.assign(tasks, joined, settings)
        assert warm_copies(tasks, before, theirs, standbys) == every


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An application after an assignor was asked until it wanted no further rebalance."""

    first: ProcessTasks
    """The first answer."""
    last: ProcessTasks
    """The answer that wanted no further rebalance."""
    processes: list[StreamsProcess]
    """The processes that carried the last answer out."""
    moved: int
    """Tasks that went from one process to another."""
    built: int
    """Copies that were built from nothing."""


def settled_by(assignor: Assignor, tasks, processes, settings) -> Outcome:
    first, moved, built = None, 0, 0
    for _ in range(MAX_ROUNDS):
        before, found = ProcessTasks.had(processes), assignor(tasks, processes, settings)
        first = first or found
        ran = frozenset(chain.from_iterable(before.active.values()))
        for each in found.active:
            moved += len(found.active[each] & (ran - before.active[each]))
            built += len(found.copies(each) - before.copies(each))
        processes = found.applied(processes)
        if not found.probing:
            return Outcome(first=first, last=found, processes=processes, moved=moved, built=built)
    raise AssertionError("no end of the rebalances")


class Worth(NamedTuple):
    """Less is better, and the first figures count first."""

    uneven: float  # sum over the tasks of those that the process had before, per thread
    loads: list[float]  # tasks per thread of each process, the most first
    together: int  # tasks of a subtopology beyond the process's part of them
    crossing: int  # source partitions without a replica in the process's rack
    moved: int


def unevenness(processes, held):
    threads = {each.id: len(each.consumers) for each in processes}
    return round(
        sum(len(held(name)) * (len(held(name)) - 1) / count for name, count in threads.items()), 6
    )


def worth(tasks, outcome, settings):
    active, processes = outcome.last.active, outcome.processes
    per_thread = [len(active[each.id]) / len(each.consumers) for each in processes]
    together = crossing = 0
    by_subtopology = Counter(task.subtopology for task in tasks)
    threads = sum(len(each.consumers) for each in processes)
    for each in processes:
        here = [task for task in tasks if task.id in active[each.id]]
        crossing += sum(each.rack not in racks for task in here for racks in task.input_racks)
        for subtopology, count in Counter(task.subtopology for task in here).items():
            part = -(-by_subtopology[subtopology] * len(each.consumers) // threads)
            together += max(count - part, 0)
    return Worth(
        uneven=unevenness(processes, active.__getitem__),
        loads=sorted(per_thread, reverse=True),
        together=0 if settings.rack_strategy == "min_traffic" else together,
        crossing=0 if settings.rack_strategy == "none" else crossing,
        moved=outcome.moved,
    )


def zones_covered(tasks, outcome):
    return sum(
        len(
            {
                each.tags["zone"]
                for each in outcome.processes
                if task.id in outcome.last.copies(each.id)
            }
        )
        for task in tasks
    )


class Shape(NamedTuple):
    """What varies in random histories, beside tasks, standbys, the budget and the processes."""

    threads: int = 1
    tags: bool = False
    racks: bool = False


class History:
    """An application whose processes come and go."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.random, self.shape, self._started = Random(seed), shape, 0
        random = self.random
        sources = random.randint(1, 2) if shape.racks else 0
        self.tasks = [
            Task(
                subtopology=str(number),
                partition=partition,
                end_offset_sum=1_000_000,
                input_racks=[random.sample("abc", random.randint(1, 2)) for _ in range(sources)],
            )
            for number in range(random.randint(1, 3))
            for partition in range(random.randint(1, 9))
        ]
        self.settings = StreamsSettings(
            # Kafka asks the brokers for the racks of changelogs; without standbys it needs none.
            standby_replicas=0 if shape.racks else random.randint(0, 2),
            max_warmups=random.randint(1, 4),
            rack_aware_tags=("zone",) if shape.tags else (),
            rack_strategy=random.choice(["min_traffic", "balance_subtopology"])
            if shape.racks
            else "none",
        )
        self.processes = [self._started_process() for _ in range(random.randint(1, 6))]

    def change(self) -> None:
        """One process leaves, one comes, or both."""
        kind = self.random.choice(["come", "leave", "both"])
        if kind != "come" and len(self.processes) > 1:
            self.processes.pop(self.random.randrange(len(self.processes)))
        if kind != "leave":
            self.processes.append(self._started_process())

    def _started_process(self) -> StreamsProcess:
        self._started += 1
        return process(
            f"p{self._started:02}",
            threads=self.random.randint(1, self.shape.threads),
            tags={"zone": self.random.choice("xyz")} if self.shape.tags else {},
            rack=self.random.choice("abc") if self.shape.racks else None,
        )


@pytest.mark.parametrize(
    "shape",
    [Shape(), Shape(threads=3), Shape(tags=True), Shape(racks=True)],
    ids=["one thread each", "several threads", "tags", "racks"],
)
def test_after_a_change_nothing_is_worse_than_kafkas(
    high_availability, seeds, shape, note_in_summary
):
    """Both begin with the same settled application, of either, and go on until they settle."""
    figures = Counter()
    for seed in seeds:
        history = History(seed, shape)
        tasks, settings = history.tasks, history.settings
        assignors = (ours, high_availability.assign)
        begun = settled_by(history.random.choice(assignors), tasks, history.processes, settings)
        history.processes = begun.processes
        for _ in range(CHANGES):
            history.change()
            before = ProcessTasks.had(history.processes)
            mine, theirs = (
                settled_by(each, tasks, history.processes, settings) for each in assignors
            )
            warm = [
                warm_copies(tasks, before, each.first, settings.standby_replicas)
                for each in (mine, theirs)
            ]
            assert warm[0] >= warm[1], f"seed {seed}"
            worths = worth(tasks, mine, settings), worth(tasks, theirs, settings)
            assert worths[0] <= worths[1], f"seed {seed}"
            if shape.tags:
                assert zones_covered(tasks, mine) >= zones_covered(tasks, theirs), f"seed {seed}"
            if worths[0].uneven == worths[1].uneven:
                copies = [unevenness(each.processes, each.last.copies) for each in (mine, theirs)]
                assert copies[0] <= copies[1], f"seed {seed}"
            figures["moves"] += mine.moved
            figures["Kafka's moves"] += theirs.moved
            figures["copies built"] += mine.built
            figures["copies built by Kafka's"] += theirs.built
            history.processes = history.random.choice((mine, theirs)).processes
    assert figures["copies built"] <= figures["copies built by Kafka's"]
    note_in_summary(
        f"streams, {shape}: " + ", ".join(f"{name} {count}" for name, count in figures.items())
    )
