"""Kafka Streams' own `HighAvailabilityTaskAssignor`, called in the oracle's Java process.

It is the default one of Kafka's client (KIP-441, with the tags of KIP-708 and the racks of
KIP-925). It knows how many threads a process has, and leaves the tasks of each to another class.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from levelwind.assignors.kafka_streams import (
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
)
from levelwind.assignors.kafka_streams.application import (
    UNKNOWN,
    Application,
    processes_in_order,
)
from levelwind.assignors.problem.inputs import Topic
from levelwind_testing.kafka.kafka_oracle import Kafka

CAUGHT_UP = 2**40
"""Lag 0, as Kafka's classes are given it: a smaller number would reach their map as an Integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTasks:
    """Tasks of each process, by process id."""

    active: Mapping[str, frozenset[str]]
    """Tasks that the process runs."""
    followed: Mapping[str, frozenset[str]]
    """Tasks of which the process has a standby or a warm-up: Kafka does not tell them apart."""
    probing: bool
    """Whether a probing rebalance is needed."""

    @classmethod
    def of(cls, plan: TaskPlan) -> "ProcessTasks":
        """The tasks of a plan, without its threads."""
        active: dict[str, set[str]] = {process: set() for process in plan.processes}
        followed: dict[str, set[str]] = {process: set() for process in plan.processes}
        for process, _, role, task in plan.rows():
            (active if role == "active" else followed)[process].add(task)
        return cls(
            active={process: frozenset(tasks) for process, tasks in active.items()},
            followed={process: frozenset(tasks) for process, tasks in followed.items()},
            probing=plan.probing,
        )

    @classmethod
    def had(cls, processes: Iterable[StreamsProcess]) -> "ProcessTasks":
        """The tasks that the processes had."""
        had = {
            process.id: (
                frozenset(task for each in process.consumers for task in each.active),
                frozenset(task for each in process.consumers for task in each.standby),
            )
            for process in processes
        }
        return cls(
            active={process: active for process, (active, _) in had.items()},
            followed={process: followed for process, (_, followed) in had.items()},
            probing=False,
        )

    def copies(self, process: str) -> frozenset[str]:
        """Tasks that the process runs or follows."""
        return self.active[process] | self.followed[process]

    def applied(self, processes: Iterable[StreamsProcess]) -> list[StreamsProcess]:
        """The processes after they carried it out: all is caught up, and on the first thread."""
        return [
            replace(
                process,
                consumers=[
                    StreamsConsumer(
                        id=process.consumers[0].id,
                        active=self.active[process.id],
                        standby=self.followed[process.id],
                    ),
                    *(StreamsConsumer(id=each.id) for each in process.consumers[1:]),
                ],
                lags=dict.fromkeys(self.followed[process.id], 0),
            )
            for process in processes
        ]


class HighAvailability:
    """The `HighAvailabilityTaskAssignor` of Kafka Streams."""

    def __init__(self, kafka: Kafka) -> None:
        jvm = kafka.gateway.jvm
        self._jvm = jvm
        self._java = jvm.java.util
        self._processor = jvm.org.apache.kafka.streams.processor
        self._internals = self._processor.internals.assignment
        self._kafka = kafka
        self._task_ids: dict[str, Any] = {}

    def assign(
        self,
        tasks: Sequence[Task],
        processes: Sequence[StreamsProcess],
        settings: StreamsSettings,
    ) -> ProcessTasks:
        """Kafka's answer, where subtopologies are numbers."""
        app = Application.build(tasks, processes, settings)
        ordered = processes_in_order(processes)
        states = {
            process.id: self._client_state(app, index, process)
            for index, process in enumerate(ordered)
        }
        clients = self._java.TreeMap()
        for index, state in enumerate(states.values()):
            clients.put(self._process_id(index), state)
        names = self._ids(app.tasks)
        stateful = self._ids(
            name for name, kept in zip(app.tasks, app.stateful.tolist(), strict=True) if kept
        )
        configs = self._configs(settings)
        racks = self._racks(tasks, ordered, configs)
        probing = self._internals.HighAvailabilityTaskAssignor().assign(
            clients, names, stateful, racks, configs
        )
        return ProcessTasks(
            active={name: _names(state.activeTasks()) for name, state in states.items()},
            followed={name: _names(state.standbyTasks()) for name, state in states.items()},
            probing=bool(probing),
        )

    def _client_state(self, app: Application, index: int, process: StreamsProcess) -> Any:
        ran, followed, lags = self._java.HashSet(), self._java.HashSet(), self._java.HashMap()
        for task, name in enumerate(app.tasks):
            if app.owner[task] == index:
                ran.add(self._id(name))
            elif any(copy.process == index and copy.standby for copy in app.copies[task]):
                followed.add(self._id(name))
            if app.stateful[task]:
                lags.put(self._id(name), min(CAUGHT_UP + app.lag(task, index), UNKNOWN))
        return self._internals.ClientState(
            ran,
            followed,
            lags,
            self._map(process.tags),
            len(process.consumers),
            self._process_id(index),
        )

    def _racks(
        self, tasks: Sequence[Task], processes: Sequence[StreamsProcess], configs: Any
    ) -> Any:
        """Source partitions with the racks of their replicas, and the racks of the processes.

        Changelogs are left out: Kafka asks the brokers for their racks.
        """
        topics, sources, groups = {}, self._java.HashMap(), self._java.HashMap()
        partition = self._jvm.org.apache.kafka.common.TopicPartition
        for name in dict.fromkeys(task.subtopology for task in tasks):
            of_group = [task for task in tasks if task.subtopology == name]
            for source, racks in enumerate(zip(*(t.input_racks for t in of_group), strict=True)):
                topics[f"in{name}-{source}"] = Topic(partitions=len(racks), replica_racks=racks)
            number = self._processor.internals.TopologyMetadata.Subtopology(int(name), None)
            groups.put(number, self._ids(task.id for task in of_group))
            for task in of_group:
                read = self._java.HashSet()
                for source in range(len(task.input_racks)):
                    read.add(partition(f"in{name}-{source}", task.partition))
                sources.put(self._id(task.id), read)
        of_process = self._java.HashMap()
        for index, process in enumerate(processes):
            rack = self._java.Optional.ofNullable(process.rack)
            of_process.put(
                self._process_id(index), self._map({each.id: rack for each in process.consumers})
            )
        return self._internals.RackAwareTaskAssignor(
            self._kafka.cluster(topics),
            sources,
            self._java.HashMap(),
            groups,
            of_process,
            None,
            configs,
            self._jvm.org.apache.kafka.common.utils.Time.SYSTEM,
        )

    def _map(self, entries: Mapping[str, Any]) -> Any:
        found = self._java.HashMap()
        for name, value in entries.items():
            found.put(name, value)
        return found

    def _process_id(self, index: int) -> Any:
        number = self._jvm.java.util.UUID.fromString(f"00000000-0000-0000-0000-{index:012}")
        return self._processor.assignment.ProcessId(number)

    def _id(self, name: str) -> Any:
        if name not in self._task_ids:
            self._task_ids[name] = self._processor.TaskId.parse(name)
        return self._task_ids[name]

    def _ids(self, names: Iterable[str]) -> Any:
        found = self._java.TreeSet()
        for name in names:
            found.add(self._id(name))
        return found

    def _configs(self, settings: StreamsSettings) -> Any:
        tags = self._java.ArrayList()
        for tag in settings.rack_aware_tags:
            tags.add(tag)
        return self._processor.assignment.AssignmentConfigs(
            CAUGHT_UP + settings.acceptable_recovery_lag,
            settings.max_warmups,
            settings.standby_replicas,
            60_000,
            tags,
            self._java.OptionalInt.of(settings.traffic_cost),
            self._java.OptionalInt.of(settings.non_overlap_cost),
            settings.rack_strategy,
        )


def _names(task_ids: Any) -> frozenset[str]:
    """Parse `[0_0, 0_1]`."""
    return frozenset(filter(None, task_ids.toString()[1:-1].split(", ")))
