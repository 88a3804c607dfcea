"""What a Kafka Streams application is to a planner: tasks, the processes that may run them, and the settings; and the answer.

Law: a task is partition i of all source topics of its subtopology, so co-partitioned topics stay together by what a task
is. Its id is written as Kafka writes it, `subtopology_partition`. The answer, `Plan`, says who runs which tasks, and whether
to look again soon.
Source: KIP-441 (lags, warm-ups), KIP-708 (tags), KIP-925 (racks and costs).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from assignors.problem.inputs import ProblemError

RackStrategy: TypeAlias = Literal["none", "min_traffic", "balance_subtopology"]

MAX_COST = 1_000_000
RACK_STRATEGIES: tuple[RackStrategy, ...] = ("none", "min_traffic", "balance_subtopology")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The smallest piece of an application: one partition of one subtopology."""

    subtopology: str
    partition: int
    stateful: bool = True
    input_racks: Sequence[
        Collection[str]
    ] = ()  # of each source partition: its replicas' racks; empty: unknown
    changelog_racks: Sequence[Collection[str]] = ()  # of each changelog partition likewise
    end_offset_sum: int | None = None  # of its changelogs; None: unknown

    @property
    def id(self) -> str:
        """The task's name."""
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """A topic that tasks read or log to: its replicas' racks by partition."""

    partitions: int
    replica_racks: Sequence[Collection[str]] | None = None

    def racks(self, partition: int) -> Collection[str]:
        """The racks of one partition's replicas; empty where they are unknown."""
        known = self.replica_racks
        return known[partition] if known is not None and partition < len(known) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """A connected part of an application: the topics that it reads together, and those that its stores log to."""

    id: str
    sources: Sequence[str]
    changelogs: Sequence[str] = ()
    stateful: bool | None = None  # None: it is if it has changelogs
    end_offset_sums: Sequence[int] | None = None  # by partition

    def tasks(self, topics: Mapping[str, SourceTopic]) -> list[Task]:
        """As many tasks as its largest source has partitions; each reads its number of every source that has it.

        Raises:
            ProblemError: a source or changelog is not among the topics.
        """
        for name in (*self.sources, *self.changelogs):
            if name not in topics:
                raise ProblemError(
                    f"subtopology {self.id!r}: its topic {name!r} is unknown; add it to the topics"
                )
        sources = [topics[name] for name in self.sources]
        logs = [topics[name] for name in self.changelogs]
        count = max((source.partitions for source in sources), default=0)
        sums = self.end_offset_sums
        if sums is not None and len(sums) != count:
            raise ProblemError(
                f"subtopology {self.id!r}: end_offset_sums has {len(sums)} entries for {count} tasks; give one for each"
            )
        return [
            Task(
                subtopology=self.id,
                partition=number,
                stateful=bool(logs) if self.stateful is None else self.stateful,
                input_racks=[
                    source.racks(number) for source in sources if number < source.partitions
                ],
                changelog_racks=[log.racks(number) for log in logs],
                end_offset_sum=None if sums is None else sums[number],
            )
            for number in range(count)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConsumer:
    """One stream thread and the tasks that it had."""

    id: str
    active: Collection[str] = ()
    standby: Collection[str] = ()  # warm-ups too: a process cannot tell them apart


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsProcess:
    """One instance of the application; its threads share its disk, and so its state.

    `lags` says how far its copies are behind. Where it is silent, `offset_sums` and the task's end offsets do; where those
    are silent too, a task that was active here is caught up, and of any other copy nothing is known.
    """

    id: str
    consumers: Sequence[StreamsConsumer]
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    offset_sums: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings:
    """The settings of Kafka Streams that shape a plan, with Kafka's defaults."""

    standby_replicas: int = 0  # num.standby.replicas
    max_warmups: int = 2  # max.warmup.replicas, of the whole application
    acceptable_recovery_lag: int = (
        10_000  # acceptable.recovery.lag: not further behind is caught up
    )
    rack_aware_tags: tuple[str, ...] = ()  # rack.aware.assignment.tags
    traffic_cost: int = (
        10  # rack.aware.assignment.traffic_cost, of each partition read from another rack
    )
    non_overlap_cost: int = 1  # rack.aware.assignment.non_overlap_cost, of each task that moves
    rack_strategy: RackStrategy = "none"  # rack.aware.assignment.strategy

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ProblemError: one is out of its range.
        """
        bounds = {
            "standby_replicas": (0, 2**31 - 1),
            "max_warmups": (1, 2**31 - 1),
            "acceptable_recovery_lag": (0, 2**63 - 2),
            "traffic_cost": (0, MAX_COST),
            "non_overlap_cost": (0, MAX_COST),
        }
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ProblemError(
                    f"option {name}: must be an integer from {least} to {most}, not {value!r}"
                )
        if self.rack_strategy not in RACK_STRATEGIES:
            raise ProblemError(
                f"option rack_strategy: must be one of {', '.join(RACK_STRATEGIES)}, not {self.rack_strategy!r}"
            )
        tags = self.rack_aware_tags
        if not isinstance(tags, tuple) or not all(isinstance(tag, str) for tag in tags):
            raise ProblemError(f"option rack_aware_tags: must be a list of tag names, not {tags!r}")
        if len(set(tags)) < len(tags):
            raise ProblemError(
                f"option rack_aware_tags: {tags!r} names a tag twice; name each once"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """What one consumer is to run: task ids, in the tasks' order."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedCopy:
    """A copy that is not where it belongs yet: why a probing rebalance is wanted."""

    task: str
    process: str  # where it belongs
    role: Literal["active", "standby"]
    lag: int | None  # how far the copy there is behind; None: unknown
    warming: bool  # it is being built there now; else it waits for the budget of warm-ups


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """A plan for the whole application, in the order of process and consumer ids."""

    processes: Mapping[str, Mapping[str, TaskAssignment]]  # by process and consumer
    awaited: tuple[AwaitedCopy, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def probing(self) -> bool:
        """Whether a probing rebalance is wanted: some copy is not where it belongs yet."""
        return bool(self.awaited)

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Each (process, consumer, role, task)."""
        for process, consumers in self.processes.items():
            for consumer, assigned in consumers.items():
                for role in ("active", "standby", "warmup"):
                    for task in getattr(assigned, role):
                        yield process, consumer, role, task
