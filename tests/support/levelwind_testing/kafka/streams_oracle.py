"""Kafka's own streams assignor (KIP-1071), called in the oracle's Java process.

It knows neither racks nor lags nor warm-ups: `streams` is to equal it where all of those are equal.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from levelwind.assignors.kafka_streams import StreamsConsumer, StreamsProcess, StreamsSettings, Task
from levelwind_testing.kafka.kafka_oracle import Kafka

STREAMS = "org.apache.kafka.coordinator.group.streams"


class StreamsCoordinator:
    """Kafka's server-side `StickyTaskAssignor`."""

    def __init__(self, kafka: Kafka) -> None:
        jvm = kafka.gateway.jvm
        self._java = jvm.java.util
        self._streams = jvm.org.apache.kafka.coordinator.group.streams
        self._no_image = (
            jvm.org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage.EMPTY
        )
        self._assignor = self._streams.assignor.StickyTaskAssignor()

    def assign(
        self, tasks: Sequence[Task], processes: Sequence[StreamsProcess], settings: StreamsSettings
    ) -> list[StreamsProcess]:
        """Kafka's answer: the processes after they carried it out."""
        return parse_answer(
            processes, self.call(*self.prepared(tasks, processes, settings)).toString()
        )

    def call(self, group: Any, topology: Any) -> Any:
        """Call the assignor alone; benchmarks measure this."""
        return self._assignor.assign(group, topology)

    def prepared(
        self, tasks: Sequence[Task], processes: Sequence[StreamsProcess], settings: StreamsSettings
    ) -> tuple[Any, Any]:
        """The GroupSpec and the TopologyDescriber of a problem, in the Java process."""
        return self._group(processes, settings), self._topology(tasks)

    def _topology(self, tasks: Iterable[Task]) -> Any:
        counts: dict[str, int] = defaultdict(int)
        stateful = {task.subtopology: task.stateful for task in tasks}
        for task in tasks:
            counts[task.subtopology] += 1
        nothing, none = self._java.Collections.emptySet(), self._java.Collections.emptyMap()
        subtopologies = self._java.TreeMap()
        for name, count in counts.items():
            logs = self._java.HashMap()
            if stateful[name]:
                kept = self._java.Optional.empty()
                logs.put(
                    "log", self._streams.topics.ConfiguredInternalTopic("log", count, kept, none)
                )
            subtopologies.put(
                name,
                self._streams.topics.ConfiguredSubtopology(count, nothing, none, nothing, logs),
            )
        return self._streams.TopologyMetadata(self._no_image, subtopologies)

    def _group(self, processes: Sequence[StreamsProcess], settings: StreamsSettings) -> Any:
        members = self._java.HashMap()
        empty, none = self._java.Optional.empty(), self._java.Collections.emptyMap()
        for process in processes:
            for consumer in process.consumers:
                members.put(
                    consumer.id,
                    self._streams.assignor.AssignmentMemberSpec(
                        empty,
                        empty,
                        self._compact(consumer.active),
                        self._compact(consumer.standby),
                        none,
                        process.id,
                        none,
                        none,
                        none,
                    ),
                )
        configs = self._java.HashMap()
        configs.put("num.standby.replicas", str(settings.standby_replicas))
        return self._streams.assignor.GroupSpecImpl(members, configs)

    def _compact(self, names: Iterable[str]) -> Any:
        partitions = self._java.HashMap()
        for name in names:
            subtopology, partition = name.rsplit("_", 1)
            if not partitions.containsKey(subtopology):
                partitions.put(subtopology, self._java.HashSet())
            partitions.get(subtopology).add(int(partition))
        return partitions


def parse_answer(processes: Sequence[StreamsProcess], text: str) -> list[StreamsProcess]:
    """Parse Kafka's answer into processes that carried it out.

    Its form is `{m=MemberAssignment[activeTasks={0=[0, 1]}, standbyTasks={}, warmupTasks={}], …}`.
    """
    pattern = (
        r"([\w-]+)=MemberAssignment\[activeTasks=\{(.*?)\}, "
        r"standbyTasks=\{(.*?)\}, warmupTasks=\{.*?\}\]"
    )
    tasks_of_member = {
        member: (active, standby) for member, active, standby in re.findall(pattern, text)
    }
    return [
        StreamsProcess(
            id=process.id,
            consumers=[
                StreamsConsumer(
                    id=consumer.id,
                    active=_names(tasks_of_member[consumer.id][0]),
                    standby=_names(tasks_of_member[consumer.id][1]),
                )
                for consumer in process.consumers
            ],
        )
        for process in processes
    ]


def _names(text: str) -> list[str]:
    return [
        f"{subtopology}_{partition}"
        for subtopology, partitions in re.findall(r"(\w+)=\[([^]]*)\]", text)
        for partition in partitions.split(", ")
        if partition
    ]
