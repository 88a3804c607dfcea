"""The assignors of Kafka's group coordinator (KIP-848), called in the oracle's Java process.

Building a metadata image costs a call for each partition, so one image with some topics of every
size serves all problems: each topic of a problem is represented by a topic of its size.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind_testing.kafka.kafka_oracle import Kafka

MAX_PARTITIONS, TOPICS_PER_SIZE = 12, 8
PACKAGE = "org.apache.kafka.coordinator.group"


class CoordinatorAssignors:
    """Kafka's server-side assignors, blind to racks."""

    def __init__(self, kafka: Kafka) -> None:
        jvm = kafka.gateway.jvm
        self._java = jvm.java.util
        self._apache = jvm.org.apache.kafka
        self._group = self._apache.coordinator.group
        self._none = self._java.Optional.empty()
        self._topics: dict[tuple[int, int], Any] = {}
        self._describer = self._described()
        self._assignors = {
            "server-range": self._group.assignor.RangeAssignor(),
            "uniform": self._group.assignor.UniformAssignor(),
        }

    def _described(self) -> Any:
        delta = getattr(self._apache.image, "MetadataDelta$Builder")().build()
        records = self._apache.common.metadata
        leader = self._java.Collections.singletonList(0)
        for size in range(1, MAX_PARTITIONS + 1):
            for number in range(TOPICS_PER_SIZE):
                uuid = self._apache.common.Uuid(size, number + 1)
                self._topics[size, number] = uuid
                delta.replay(records.TopicRecord().setName(f"t{size}-{number}").setTopicId(uuid))
                for partition in range(size):
                    record = records.PartitionRecord().setTopicId(uuid).setPartitionId(partition)
                    delta.replay(record.setReplicas(leader).setIsr(leader).setLeader(0))
        image = delta.apply(self._apache.image.MetadataProvenance.EMPTY)
        adapter = self._apache.coordinator.common.runtime.KRaftCoordinatorMetadataImage(image)
        return self._group.modern.SubscribedTopicDescriberImpl(adapter)

    def assign(
        self, strategy: str, topics: Mapping[str, Topic], members: Sequence[Member]
    ) -> dict[str, dict[str, list[int]]]:
        """Kafka's assignment by names; topics without partitions are left out."""
        uuids, names = self._stand_ins(topics)
        specs = self._java.HashMap()
        owners: dict[str, Any] = {}
        subscriptions = set()
        for member in members:
            subscription = frozenset(
                uuids if member.topics == "*" else uuids.keys() & set(member.topics)
            )
            subscriptions.add(subscription)
            subscribed = self._java.HashSet()
            for topic in subscription:
                subscribed.add(uuids[topic])
            held = self._held(member, uuids, owners)
            specs.put(member.id, self._spec(member, subscribed, held))
        kinds = self._group.api.assignor.SubscriptionType
        inverted = self._java.HashMap()
        for topic, by_partition in owners.items():
            inverted.put(uuids[topic], by_partition)
        kind = kinds.HOMOGENEOUS if len(subscriptions) == 1 else kinds.HETEROGENEOUS
        group = self._group.modern.GroupSpecImpl(specs, kind, inverted)
        return named(
            self._assignors[strategy].assign(group, self._describer).toString(), names, members
        )

    def _stand_ins(self, topics: Mapping[str, Topic]) -> tuple[dict[str, Any], dict[str, str]]:
        used: dict[int, int] = {}
        uuids, names = {}, {}
        for name, topic in sorted(topics.items()):
            if topic.partitions:
                number = used.get(topic.partitions, 0)
                used[topic.partitions] = number + 1
                uuids[name] = self._topics[topic.partitions, number]
                names[uuids[name].toString()] = name
        return uuids, names

    def _held(self, member: Member, uuids: Mapping[str, Any], owners: dict[str, Any]) -> Any:
        if not member.owned:
            return self._group.modern.Assignment.EMPTY
        held = self._java.HashMap()
        for topic, partitions in member.owned.items():
            numbers = self._java.HashSet()
            for partition in partitions:
                numbers.add(partition)
                owners.setdefault(topic, self._java.HashMap()).put(partition, member.id)
            held.put(uuids[topic], numbers)
        return self._group.modern.Assignment(held)

    def _spec(self, member: Member, subscribed: Any, held: Any) -> Any:
        instance = (
            self._none if member.instance_id is None else self._java.Optional.of(member.instance_id)
        )
        return self._group.modern.MemberSubscriptionAndAssignmentImpl(
            self._none, instance, subscribed, held
        )


def named(
    text: str, names: Mapping[str, str], members: Sequence[Member]
) -> dict[str, dict[str, list[int]]]:
    """Parse an assignment, by member and topic.

    Its text is `{m=MemberAssignment(partitions={uuid=[0, 1],
    uuid=RangeSet(from=0 (inclusive), to=2 (exclusive))}), ...}`.
    """
    answer: dict[str, dict[str, list[int]]] = {member.id: {} for member in members}
    entry_pattern = (
        r"([\w-]{22})=(?:\[([^]]*)\]|RangeSet\(from=(\d+) \(inclusive\), to=(\d+) \(exclusive\)\))"
    )
    for member, listed in re.findall(r"(\w+)=MemberAssignment\(partitions=\{(.*?)\}\)", text):
        for uuid, numbers, first, end in re.findall(entry_pattern, listed):
            partitions = (
                range(int(first), int(end)) if end else map(int, filter(None, numbers.split(", ")))
            )
            if found := sorted(partitions):
                answer[member][names[uuid]] = found
    return answer
