"""Kafka's own assignor classes, called in a Java process.

Problems are passed as bytes of Kafka's protocol (a metadata response, a subscription for each
member), so that a group costs a handful of calls; the answers come back as text.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.deploy.jars import classpath
from levelwind_testing.processes.java_process import JavaProcess

CONSUMER = "org.apache.kafka.clients.consumer"
CLIENT_SIDE = {
    "range": f"{CONSUMER}.RangeAssignor",
    "roundrobin": f"{CONSUMER}.RoundRobinAssignor",
    "sticky": f"{CONSUMER}.StickyAssignor",
    "cooperative-sticky": f"{CONSUMER}.CooperativeStickyAssignor",
}


class Kafka(JavaProcess):
    """One Java process with the jars of the brokers and of Kafka Streams."""

    def __init__(self, *javaopts: str) -> None:
        super().__init__([*classpath("brokers"), *classpath("tools")], "-Xmx4g", *javaopts)
        jvm = self.gateway.jvm
        self._none = jvm.java.util.Optional.empty()
        self._of = jvm.java.util.Optional.of
        self._wrap = jvm.java.nio.ByteBuffer.wrap
        self._subscription = (
            jvm.org.apache.kafka.clients.consumer.internals.ConsumerProtocol.deserializeSubscription
        )
        self._metadata = jvm.org.apache.kafka.common.requests.MetadataResponse.parse
        self._readable = jvm.org.apache.kafka.common.protocol.ByteBufferAccessor
        self._group = getattr(jvm, CONSUMER).ConsumerPartitionAssignor.GroupSubscription
        self._assignors = {name: self._made(path) for name, path in CLIENT_SIDE.items()}

    def _made(self, path: str) -> Any:
        package, name = path.rsplit(".", 1)
        return getattr(getattr(self.gateway.jvm, package), name)()

    def assign(
        self, strategy: str, topics: Mapping[str, Topic], members: Sequence[Member]
    ) -> dict[str, dict[str, list[int]]]:
        """Kafka's assignment by names."""
        answer = self.call(strategy, *self.prepared(strategy, topics, members))
        return named(answer.toString(), members)

    def prepared(
        self, strategy: str, topics: Mapping[str, Topic], members: Sequence[Member]
    ) -> tuple[Any, Any]:
        """The Cluster and the GroupSubscription of a problem, as objects of the Java process."""
        everything = sorted(topics)
        subscriptions = self.gateway.jvm.java.util.HashMap()
        for member in members:
            subscription_topics = everything if member.topics == "*" else list(member.topics)
            subscription = self._subscription(
                self._wrap(subscribed(member, subscription_topics, strategy))
            )
            if member.instance_id is not None:
                subscription.setGroupInstanceId(self._of(member.instance_id))
            subscriptions.put(member.id, subscription)
        return self.cluster(topics), self._group(subscriptions)

    def cluster(self, topics: Mapping[str, Topic]) -> Any:
        """The Cluster of some topics, as an object of the Java process."""
        return self._metadata(self._readable(self._wrap(metadata(topics))), 1).buildCluster()

    def call(self, strategy: str, cluster: Any, group: Any) -> Any:
        """Run the assignor alone, which is what a benchmark measures."""
        return self._assignors[strategy].assign(cluster, group)


def named(text: str, members: Sequence[Member]) -> dict[str, dict[str, list[int]]]:
    """Parse `{m0=Assignment(partitions=[t0-0, t0-1]), ...}`, by member and topic."""
    names: dict[str, dict[str, list[int]]] = {member.id: {} for member in members}
    for member, listed in re.findall(r"([\w-]+)=Assignment\(partitions=\[([^]]*)\]", text):
        by_topic: dict[str, list[int]] = defaultdict(list)
        for pair in filter(None, listed.split(", ")):
            topic, partition = pair.rsplit("-", 1)
            by_topic[topic].append(int(partition))
        names[member] = {topic: sorted(partitions) for topic, partitions in by_topic.items()}
    return names


def string(text: str | None) -> bytes:
    return pack(">h", -1) if text is None else pack(">h", len(text.encode())) + text.encode()


def array(items: Sequence[bytes]) -> bytes:
    return pack(">i", len(items)) + b"".join(items)


def owned_bytes(owned: Mapping[str, Sequence[int]]) -> bytes:
    return array(
        [
            string(topic) + array([pack(">i", partition) for partition in partitions])
            for topic, partitions in owned.items()
        ]
    )


def subscribed(member: Member, subscription_topics: Sequence[str], strategy: str) -> bytes:
    """ConsumerProtocolSubscription v3; `sticky` has its claims in StickyAssignorUserData v1."""
    user_data = pack(">i", -1)
    if strategy == "sticky" and member.owned is not None:
        content = owned_bytes(member.owned) + pack(">i", member.generation)
        user_data = pack(">i", len(content)) + content
    if strategy == "cooperative-sticky":
        user_data = pack(">ii", 4, member.generation)
    return (
        pack(">h", 3)
        + array([string(topic) for topic in subscription_topics])
        + user_data
        + owned_bytes(member.owned or {})
        + pack(">i", member.generation)
        + string(member.rack)
    )


def metadata(topics: Mapping[str, Topic]) -> bytes:
    """MetadataResponse v1 of a cluster with a broker for each rack, and one without a rack."""
    racks = sorted(
        {rack for topic in topics.values() for racks in topic.replica_racks or () for rack in racks}
    )
    node_of = {rack: number + 1 for number, rack in enumerate(racks)}
    brokers = [
        pack(">i", node_of[rack]) + string("h") + pack(">i", 9092) + string(rack) for rack in racks
    ]
    brokers.append(pack(">i", 0) + string("h") + pack(">i", 9092) + string(None))
    described = []
    for name, topic in topics.items():
        partitions = []
        for number in range(topic.partitions):
            replicas = [
                node_of[rack]
                for rack in (topic.replica_racks or {}) and topic.replica_racks[number]
            ] or [0]
            ids = array([pack(">i", node) for node in replicas])
            partitions.append(pack(">hii", 0, number, replicas[0]) + ids + ids)
        described.append(pack(">h", 0) + string(name) + b"\0" + array(partitions))
    return array(brokers) + pack(">i", 0) + array(described)
