"""An admin client of brokers that do not exist, which counts requests and their bytes by broker.

It answers what the observer asks, for as many brokers as a test wants. Requests go where librdkafka
sends them: offsets to the leader of each partition, one request a call and leader; a broker's
settings to that broker; all else to any broker, here each in turn. Sizes are those of Kafka's
protocol, without the headers of TCP.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from confluent_kafka import (
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import ConfigResource

REPLICAS = 3
HEADER_BYTES = 40
"""Of a request and its answer: lengths, versions, ids and throttling."""
OFFSET_BYTES = 17 + 27
"""Of a partition in a request for offsets, and in its answer."""
TOPIC_BYTES = 24
"""Of a topic in an answer, besides its name."""
PARTITION_BYTES = 17 + 8 * REPLICAS
"""Of a partition in an answer with leaders and replicas."""
BROKER_BYTES = 60
SETTINGS_BYTES = 25_000
"""Of all settings of a broker, which it gives together."""


@dataclass(slots=True)
class Traffic:
    """Requests, and the bytes of questions and answers, by broker."""

    requests: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)

    def add(self, broker: int, size: int) -> None:
        self.requests[broker] += 1
        self.bytes[broker] += HEADER_BYTES + size


class Answered:
    """A future that is done."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, _timeout: float | None = None) -> Any:
        return self._value


class Refused:
    """A future of a question about a topic that brokers do not know."""

    def result(self, _timeout: float | None = None) -> Any:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class SimulatedAdmin:
    """A cluster with topics of the same number of partitions, whose leaders take turns."""

    def __init__(self, brokers: int, topics: int, partitions: int) -> None:
        self.traffic = Traffic()
        """Since the last call of `taken`."""
        self.end = 1000
        """The end of every partition."""
        self.unknown: set[str] = set()
        """Topics that the brokers do not know for now."""
        self.recreations: Counter[str] = Counter()
        """How often each topic was deleted and made again."""
        self._brokers = brokers
        self._nodes = {
            number: SimpleNamespace(id=number, host="h", rack=f"rack-{number % 3}")
            for number in range(1, brokers + 1)
        }
        self._topics = {
            f"topic-{number:05}": self._topic(number * partitions, partitions)
            for number in range(topics)
        }
        self._topics["__consumer_offsets"] = self._topic(0, 50)
        self._asked = 0

    def _topic(self, first: int, partitions: int) -> Any:
        return SimpleNamespace(
            error=None,
            partitions={
                number: SimpleNamespace(leader=replicas[0], replicas=replicas, isrs=replicas)
                for number, replicas in (
                    (n, [(first + n + r) % self._brokers + 1 for r in range(REPLICAS)])
                    for n in range(partitions)
                )
            },
        )

    def taken(self) -> Traffic:
        """The traffic since the last call."""
        traffic, self.traffic = self.traffic, Traffic()
        return traffic

    def _any(self) -> int:
        self._asked += 1
        return self._asked % self._brokers + 1

    def _size(self, names: Iterable[str]) -> int:
        return sum(
            TOPIC_BYTES + len(name) + PARTITION_BYTES * len(self._topics[name].partitions)
            for name in names
        )

    def poll(self, _timeout: float) -> None:
        """Deliver nothing."""

    def list_topics(self, **_: Any) -> Any:
        self.traffic.add(self._any(), self._size(self._topics) + BROKER_BYTES * self._brokers)
        listed = {name: t for name, t in self._topics.items() if name not in self.unknown}
        return SimpleNamespace(topics=listed, brokers=self._nodes)

    def describe_cluster(self, **_: Any) -> Any:
        self.traffic.add(self._any(), BROKER_BYTES * self._brokers)
        return Answered(SimpleNamespace(nodes=list(self._nodes.values())))

    def describe_topics(self, topics: TopicCollection, **_: Any) -> dict[str, Any]:
        self.traffic.add(self._any(), self._size(topics.topic_names))
        return {
            name: Refused() if name in self.unknown else Answered(self._described(name))
            for name in topics.topic_names
        }

    def _described(self, name: str) -> Any:
        partitions = self._topics[name].partitions
        return SimpleNamespace(
            topic_id=Uuid(1 + self.recreations[name], hash(name)),
            partitions=[
                SimpleNamespace(
                    id=number,
                    leader=self._nodes[partition.leader],
                    replicas=[self._nodes[broker] for broker in partition.replicas],
                    isr=[self._nodes[broker] for broker in partition.isrs],
                )
                for number, partition in partitions.items()
            ],
        )

    def describe_configs(self, resources: Sequence[ConfigResource], **_: Any) -> dict[Any, Any]:
        for resource in resources:
            self.traffic.add(int(resource.name), SETTINGS_BYTES)
        return {resource: Answered({}) for resource in resources}

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], **_: Any
    ) -> dict[TopicPartition, Any]:
        sizes: Counter[int] = Counter()
        names: set[tuple[int, str]] = set()
        for asked in wanted:
            leader = self._topics[asked.topic].partitions[asked.partition].leader
            sizes[leader] += OFFSET_BYTES
            if (leader, asked.topic) not in names:
                names.add((leader, asked.topic))
                sizes[leader] += 2 * (2 + len(asked.topic))
        for leader, size in sizes.items():
            self.traffic.add(leader, size)
        found = Answered(SimpleNamespace(offset=self.end))
        return dict.fromkeys(wanted, found)
