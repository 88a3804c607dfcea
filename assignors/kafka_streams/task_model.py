"""A Kafka Streams application as a planner sees it: tasks, processes and settings; and the plan.

Guarantees: a task is partition i of all source topics of its subtopology, so co-partitioned topics
stay together by the definition of a task. Its id is written as Kafka writes it,
`subtopology_partition`. The answer, `TaskPlan`, states who runs which tasks, and whether to plan
again soon.
Source: KIP-441 (lags, warm-ups), KIP-708 (tags), KIP-925 (racks and costs).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from levelwind.assignors.problem.inputs import ProblemError

RackStrategy: TypeAlias = Literal["none", "min_traffic", "balance_subtopology"]

MAX_COST = 1_000_000
"""Largest `traffic_cost` and `non_overlap_cost`."""
RACK_STRATEGIES: tuple[RackStrategy, ...] = ("none", "min_traffic", "balance_subtopology")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The unit of work of an application: one partition of one subtopology."""

    subtopology: str
    """Id of the subtopology."""
    partition: int
    """Partition of the subtopology's source topics that the task reads."""
    stateful: bool = True
    """Whether the task has state, and so standbys and warm-ups."""
    input_racks: Sequence[Collection[str]] = ()
    """By source partition: the racks of its replicas; empty if they are unknown."""
    changelog_racks: Sequence[Collection[str]] = ()
    """By changelog partition: the racks of its replicas; empty if they are unknown."""
    end_offset_sum: int | None = None
    """Sum of the end offsets of the task's changelog partitions; None if it is unknown."""

    @property
    def id(self) -> str:
        """Id of the task, as Kafka writes it."""
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """A source or changelog topic, with the racks of its replicas by partition."""

    partitions: int
    """Number of partitions."""
    replica_racks: Sequence[Collection[str]] | None = None
    """By partition: the racks of its replicas; None if they are unknown."""

    def racks(self, partition: int) -> Collection[str]:
        """Racks of one partition's replicas; empty if they are unknown."""
        racks = self.replica_racks
        return racks[partition] if racks is not None and partition < len(racks) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """A connected part of an application: the topics that it reads together, and its changelogs."""

    id: str
    """Id of the subtopology."""
    sources: Sequence[str]
    """Topics that the tasks read; each task reads its partition of every one."""
    changelogs: Sequence[str] = ()
    """Changelog topics of the subtopology's stores."""
    stateful: bool | None = None
    """Whether the tasks have state; None: they have if there are changelogs."""
    end_offset_sums: Sequence[int] | None = None
    """By task: sum of the end offsets of its changelog partitions; None if they are unknown."""

    def tasks(self, topics: Mapping[str, SourceTopic]) -> list[Task]:
        """Return a task for each partition of the largest source.

        A task reads its partition of every source that has it.

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
                f"subtopology {self.id!r}: end_offset_sums has {len(sums)} entries"
                f" for {count} tasks; give one for each"
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
    """A stream thread and the tasks that it had."""

    id: str
    """Client id of the consumer."""
    active: Collection[str] = ()
    """Ids of the tasks that it ran."""
    standby: Collection[str] = ()
    """Ids of the tasks that it had standbys or warm-ups of: a process cannot tell the two apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsProcess:
    """One instance of the application; its threads share its disk, and so its state.

    `lags` gives how far its copies are behind. For other tasks `offset_sums` and the task's end
    offsets do. Without either, a task that was active here is caught up, and of any other copy
    nothing is known.
    """

    id: str
    """Id of the process."""
    consumers: Sequence[StreamsConsumer]
    """Its stream threads."""
    rack: str | None = None
    """Its rack; None if it is unknown."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Its client tags (KIP-708)."""
    lags: Mapping[str, int] = field(default_factory=dict)
    """By task id: records that its copy is behind."""
    offset_sums: Mapping[str, int] = field(default_factory=dict)
    """By task id: sum of the positions of its copy in the changelogs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettings:
    """The settings of Kafka Streams that shape a plan, with Kafka's defaults."""

    standby_replicas: int = 0
    """`num.standby.replicas`: standbys of each stateful task."""
    max_warmups: int = 2
    """`max.warmup.replicas`: warm-ups of the whole application at one time."""
    acceptable_recovery_lag: int = 10_000
    """`acceptable.recovery.lag`: records up to which a copy counts as caught up."""
    rack_aware_tags: tuple[str, ...] = ()
    """`rack.aware.assignment.tags`: tags that the copies of a task are spread over."""
    traffic_cost: int = 10
    """`rack.aware.assignment.traffic_cost`: cost of each partition read from another rack."""
    non_overlap_cost: int = 1
    """`rack.aware.assignment.non_overlap_cost`: cost of each task that moves."""
    rack_strategy: RackStrategy = "none"
    """`rack.aware.assignment.strategy`."""

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ProblemError: a setting is out of its range.
        """
        bounds = {
            "standby_replicas": (0, 2**31 - 1),
            "max_warmups": (1, 2**31 - 1),
            "acceptable_recovery_lag": (0, 2**63 - 2),
            "traffic_cost": (0, MAX_COST),
            "non_overlap_cost": (0, MAX_COST),
        }
        for name, (minimum, maximum) in bounds.items():
            value = getattr(self, name)
            if (
                not isinstance(value, int)
                or isinstance(value, bool)
                or not minimum <= value <= maximum
            ):
                raise ProblemError(
                    f"option {name}: must be an integer from {minimum} to {maximum}, not {value!r}"
                )
        if self.rack_strategy not in RACK_STRATEGIES:
            raise ProblemError(
                f"option rack_strategy: must be one of {', '.join(RACK_STRATEGIES)},"
                f" not {self.rack_strategy!r}"
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
    """Task ids of one consumer, in the order of tasks."""

    active: tuple[str, ...] = ()
    """Tasks to run."""
    standby: tuple[str, ...] = ()
    """Tasks to have a standby of."""
    warmup: tuple[str, ...] = ()
    """Tasks to have a warm-up of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedCopy:
    """A copy that is not where it belongs yet: the reason for a probing rebalance."""

    task: str
    """Id of the task."""
    process: str
    """Id of the process where the copy belongs."""
    role: Literal["active", "standby"]
    """Role that the copy will have there."""
    lag: int | None
    """Records that the copy is behind there; None if it is unknown."""
    warming: bool
    """The copy is being built there now; else it waits for the budget of warm-ups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """A plan for the whole application, in the order of process and consumer ids."""

    processes: Mapping[str, Mapping[str, TaskAssignment]]
    """By process and consumer: its tasks."""
    awaited: tuple[AwaitedCopy, ...] = ()
    """Copies that are not where they belong yet."""
    warnings: tuple[str, ...] = ()
    """Sentences about settings that could not be met."""

    @property
    def probing(self) -> bool:
        """Whether a probing rebalance is needed: some copy is not where it belongs yet."""
        return bool(self.awaited)

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Iterate over (process, consumer, role, task)."""
        for process, consumers in self.processes.items():
            for consumer, assigned in consumers.items():
                for role in ("active", "standby", "warmup"):
                    for task in getattr(assigned, role):
                        yield process, consumer, role, task
