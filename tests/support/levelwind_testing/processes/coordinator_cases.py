"""Large problems for the group coordinator's assignors, passed in bulk as bytes of its own records.

Everything is as in a broker: subscriptions are views of names on the metadata image, and ownership
comes from a ConsumerGroup. The image has one map of partitions for all topics of one size, since
the assignors look at nothing but the size.

A problem goes to the assignor alone, or to the broker's TargetAssignmentBuilder: from members with
the names of their topics, through the assignor, to a record with listed partitions for each member
whose assignment has changed.
"""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any, NamedTuple

from levelwind.assignors.problem.inputs import Member, Topic
from levelwind_testing.kafka.kafka_oracle import Kafka, subscribed


class Stated(NamedTuple):
    """A problem in the Java process."""

    group: Any  # a GroupSpec
    describer: Any
    builders: Mapping[str, Any]  # by strategy: a TargetAssignmentBuilder


class CoordinatorCases:
    """Kafka's server-side assignors, and problems in their terms."""

    def __init__(self, kafka: Kafka) -> None:
        jvm = kafka.gateway.jvm
        self._util = jvm.java.util
        self._wrap = jvm.java.nio.ByteBuffer.wrap
        self._apache = jvm.org.apache.kafka
        self._group = self._apache.coordinator.group
        self._assignors = {
            "server-range": self._group.assignor.RangeAssignor(),
            "uniform": self._group.assignor.UniformAssignor(),
        }

    def call(self, strategy: str, stated: Stated) -> Any:
        """The assignor alone."""
        return self._assignors[strategy].assign(stated.group, stated.describer)

    def call_by_names(self, strategy: str, stated: Stated) -> Any:
        """From members with names of topics to the records of what each gets."""
        return stated.builders[strategy].build()

    def stated(self, topics: Mapping[str, Topic], members: Sequence[Member]) -> Stated:
        """A problem, in the Java process."""
        image = self._image(topics)
        owners = self._group.modern.consumer.ConsumerGroup(
            self._apache.common.utils.LogContext(),
            self._apache.timeline.SnapshotRegistry(self._apache.common.utils.LogContext()),
            "group",
        )
        specs, people = self._util.HashMap(), self._util.HashMap()
        wishes: dict[tuple[str, ...], tuple[Any, Any]] = {}
        none = self._util.Optional.empty()
        for member in members:
            wish = tuple(sorted(topics) if member.topics == "*" else member.topics)
            if wish not in wishes:
                names = self._names(member, wish)
                wishes[wish] = names, self._group.modern.TopicIds(self._util.HashSet(names), image)
            names, ids = wishes[wish]
            held = self._held(member, topics)
            owners.updateTargetAssignment(member.id, held)
            specs.put(
                member.id,
                self._group.modern.MemberSubscriptionAndAssignmentImpl(none, none, ids, held),
            )
            person = getattr(self._group.modern.consumer, "ConsumerGroupMember$Builder")(member.id)
            people.put(member.id, person.setSubscribedTopicNames(names).build())
        kinds = self._group.api.assignor.SubscriptionType
        kind = kinds.HOMOGENEOUS if len(wishes) == 1 else kinds.HETEROGENEOUS
        return Stated(
            self._group.modern.GroupSpecImpl(specs, kind, owners.invertedTargetAssignment()),
            self._group.modern.SubscribedTopicDescriberImpl(image),
            {name: self._builder(name, people, kind, owners, image) for name in self._assignors},
        )

    def _builder(self, strategy: str, people: Any, kind: Any, owners: Any, image: Any) -> Any:
        made = getattr(
            self._group.modern, "TargetAssignmentBuilder$ConsumerTargetAssignmentBuilder"
        )
        return (
            made("group", 1, self._assignors[strategy])
            .withTime(self._apache.common.utils.Time.SYSTEM)
            .withMembers(people)
            .withSubscriptionType(kind)
            .withTargetAssignment(owners.targetAssignment())
            .withInvertedTargetAssignment(owners.invertedTargetAssignment())
            .withMetadataImage(image)
        )

    def _image(self, topics: Mapping[str, Topic]) -> Any:
        images = self._apache.image
        everything = images.TopicsImage.EMPTY
        by_size: dict[int, Any] = {}
        for number, (name, topic) in enumerate(topics.items()):
            if topic.partitions not in by_size:
                by_size[topic.partitions] = self._partitions(topic.partitions)
            topic_id = self._apache.common.Uuid(1, number + 1)
            everything = everything.including(
                images.TopicImage(name, topic_id, by_size[topic.partitions])
            )
        empty = images.MetadataImage.EMPTY
        whole = images.MetadataImage(
            empty.provenance(),
            empty.features(),
            empty.cluster(),
            everything,
            empty.configs(),
            empty.clientQuotas(),
            empty.producerIds(),
            empty.acls(),
            empty.scram(),
            empty.delegationTokens(),
        )
        return self._apache.coordinator.common.runtime.KRaftCoordinatorMetadataImage(whole)

    def _partitions(self, count: int) -> Any:
        replicas = self._util.Collections.singletonList(0)
        record = (
            self._apache.common.metadata.PartitionRecord().setReplicas(replicas).setIsr(replicas)
        )
        registration = self._apache.metadata.PartitionRegistration(record.setLeader(0))
        partitions = self._util.HashMap()
        for partition in range(count):
            partitions.put(partition, registration)
        return partitions

    def _names(self, member: Member, wish: Sequence[str]) -> Any:
        protocol = self._apache.clients.consumer.internals.ConsumerProtocol
        raw = subscribed(member, wish, "range")
        return protocol.deserializeSubscription(self._wrap(raw)).topics()

    def _held(self, member: Member, topics: Mapping[str, Topic]) -> Any:
        """Read from the bytes of a ConsumerGroupTargetAssignmentMemberValue, version 0."""
        if not member.owned:
            return self._group.modern.Assignment.EMPTY
        number = {name: index + 1 for index, name in enumerate(topics)}
        raw = uvarint(len(member.owned) + 1)
        for topic, partitions in member.owned.items():
            raw += pack(">qq", 1, number[topic]) + uvarint(len(partitions) + 1)
            raw += pack(f">{len(partitions)}i", *partitions) + b"\0"
        readable = self._apache.common.protocol.ByteBufferAccessor(self._wrap(raw + b"\0"))
        record = self._group.generated.ConsumerGroupTargetAssignmentMemberValue(readable, 0)
        return self._group.modern.Assignment.fromRecord(record)


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
