"""Kafka's own codec of subscriptions, assignments and sticky userData, called in the oracle's Java process."""

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind_testing.kafka.kafka_oracle import (
    CONSUMER,
    Kafka,
)

Partitions = Mapping[str, Sequence[int]]


class Codec:
    """Bytes in, bytes out; None where Kafka refuses them."""

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

    def subscription(self, said: ConsumerSubscription, version: int) -> bytes:
        """What Kafka's client writes for it."""
        topics = self._list(said.topics)
        made = self._plugin.Subscription(
            topics,
            None if said.user_data is None else self._wrap(said.user_data),
            self._partitions(said.owned),
            said.generation,
            self._none() if said.rack is None else self._of(said.rack),
        )
        return bytes(self._protocol.serializeSubscription(made, version).array())

    def assignment(self, said: ConsumerAssignment, version: int) -> bytes:
        made = self._plugin.Assignment(
            self._partitions(said.partitions),
            None if said.user_data is None else self._wrap(said.user_data),
        )
        return bytes(self._protocol.serializeAssignment(made, version).array())

    def again(self, kind: str, raw: bytes, version: int) -> bytes | None:
        """Read by Kafka and written by it, in a version that holds all it has."""
        read = getattr(self._protocol, f"deserialize{kind}")
        write = getattr(self._protocol, f"serialize{kind}")
        try:
            return bytes(write(read(self._wrap(raw)), version).array())
        except Py4JJavaError:
            return None

    def user_data(self, strategy: str, held: Partitions, generation: int) -> bytes:
        """What the assignor says at the next join after it was given this."""
        assignor = self._assignors[strategy]()
        assignor.onAssignment(
            self._plugin.Assignment(self._partitions(held)),
            self._metadata("group", generation, "member", self._none()),
        )
        return bytes(assignor.subscriptionUserData(self._jvm.java.util.HashSet()).array())

    def member_data(self, strategy: str, raw: bytes) -> str:
        """What the assignor makes of a subscription's bytes: its MemberData, as text."""
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
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def _partitions(self, partitions: Partitions) -> Any:
        made = self._jvm.org.apache.kafka.common.TopicPartition
        return self._list(
            [made(topic, number) for topic in partitions for number in partitions[topic]]
        )
