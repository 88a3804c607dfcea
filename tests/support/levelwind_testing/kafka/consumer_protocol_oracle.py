"""Kafka's own codec of subscriptions, assignments and userData, in the oracle's Java process."""

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind_testing.kafka.kafka_oracle import CONSUMER, Kafka

Partitions = Mapping[str, Sequence[int]]


class Codec:
    """Kafka's serializers and deserializers."""

    def __init__(self, kafka: Kafka) -> None:
        self._jvm = kafka.gateway.jvm
        self._new_array = kafka.gateway.new_array
        self._of = self._jvm.java.util.Optional.of
        self._none = self._jvm.java.util.Optional.empty
        self._wrap = self._jvm.java.nio.ByteBuffer.wrap
        self._protocol = self._jvm.org.apache.kafka.clients.consumer.internals.ConsumerProtocol
        self._plugin = getattr(self._jvm, CONSUMER).ConsumerPartitionAssignor
        self._metadata = getattr(self._jvm, CONSUMER).ConsumerGroupMetadata
        self._assignors = {
            "sticky": getattr(self._jvm, CONSUMER).StickyAssignor,
            "cooperative-sticky": getattr(self._jvm, CONSUMER).CooperativeStickyAssignor,
        }

    def subscription(self, value: ConsumerSubscription, version: int) -> bytes:
        """The bytes that Kafka's client writes for a subscription."""
        topics = self._list(value.topics)
        result = self._plugin.Subscription(
            topics,
            None if value.user_data is None else self._wrap(value.user_data),
            self._partitions(value.owned),
            value.generation,
            self._none() if value.rack is None else self._of(value.rack),
        )
        return bytes(self._protocol.serializeSubscription(result, version).array())

    def assignment(self, value: ConsumerAssignment, version: int) -> bytes:
        result = self._plugin.Assignment(
            self._partitions(value.partitions),
            None if value.user_data is None else self._wrap(value.user_data),
        )
        return bytes(self._protocol.serializeAssignment(result, version).array())

    def rewritten(
        self,
        raw: bytes,
        version: int,
        *,
        kind: type[ConsumerSubscription] | type[ConsumerAssignment],
    ) -> bytes | None:
        """The bytes after Kafka has read and written them; None where Kafka refuses them."""
        name = "Subscription" if kind is ConsumerSubscription else "Assignment"
        read = getattr(self._protocol, f"deserialize{name}")
        write = getattr(self._protocol, f"serialize{name}")
        try:
            return bytes(write(read(self._wrap(raw)), version).array())
        except Py4JJavaError:
            return None

    def user_data(self, strategy: str, held: Partitions, generation: int) -> bytes:
        """The userData that the assignor sends at the next join after this assignment."""
        assignor = self._assignors[strategy]()
        assignor.onAssignment(
            self._plugin.Assignment(self._partitions(held)),
            self._metadata("group", generation, "member", self._none()),
        )
        return bytes(assignor.subscriptionUserData(self._jvm.java.util.HashSet()).array())

    def member_data(self, strategy: str, raw: bytes) -> str:
        """The MemberData that the assignor reads from a subscription's bytes, as text."""
        assignor = self._assignors[strategy]()
        subscription = self._protocol.deserializeSubscription(self._wrap(raw))
        kinds = self._new_array(self._jvm.java.lang.Class, 1)
        kinds[0] = subscription.getClass()
        method = assignor.getClass().getDeclaredMethod("memberData", kinds)
        method.setAccessible(True)
        arguments = self._new_array(self._jvm.java.lang.Object, 1)
        arguments[0] = subscription
        data = method.invoke(assignor, arguments)
        fields = []
        for name in ("partitions", "generation"):
            field = data.getClass().getField(name)
            field.setAccessible(True)
            fields.append(str(field.get(data).toString()))
        return " ".join(fields)

    def _list(self, items: Sequence[Any]) -> Any:
        result = self._jvm.java.util.ArrayList()
        for item in items:
            result.add(item)
        return result

    def _partitions(self, partitions: Partitions) -> Any:
        result = self._jvm.org.apache.kafka.common.TopicPartition
        return self._list(
            [result(topic, number) for topic in partitions for number in partitions[topic]]
        )
