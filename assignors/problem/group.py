"""The problem: who reads what, put in order once and frozen.

Law: names end at this door. Topics, members, racks and containers become dense integers in Kafka's order of strings, and
everything about them becomes a column; two problems that differ only in the order of their input are the same `Group`.
A strategy sees columns and gives back a column.

Subscriptions are stored once for all members that share one, readers once for all topics that share them, and racks once
for all partitions with replicas in the same ones, so that ten thousand members of one subscription cost no more than one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from assignors.problem import subscriptions as wishes
from assignors.problem import validation as intake
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    frozen,
    starts,
    within,
)
from assignors.problem.inputs import (
    Member,
    Topic,
)
from assignors.problem.topic_index import TopicIndex


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """The problem in columns: T topics, M members, P partitions, R racks, D subscriptions, A audiences, K rack sets, C claims.

    Three compressions: a *subscription* is one set of topics, shared by the members that have it; an *audience* is one set
    of members, shared by the topics that it reads; a *rack set* is one set of racks, shared by the partitions whose
    replicas are in these.
    """

    topics: tuple[str, ...]  # by topic, ascending
    members: tuple[str, ...]  # by member, ascending ids
    racks: tuple[str, ...]  # by rack, ascending
    containers: tuple[str, ...]  # by container, ascending

    topic_start: (
        Longs  # T+1: the dense partitions of topic t are topic_start[t] : topic_start[t + 1]
    )
    partition_topic: Ints  # P: the topic of a dense partition
    lag: Longs  # P: records behind; 0 where it was not given
    rate: Floats  # P: records a second; 0 where it was not given
    traffic: Floats  # P: bytes a second, what reading it from another rack costs; 1 where it was not given
    rack_set: Ints  # P: which of the K sets of racks the replicas are in
    rack_local: Bools  # K x R+1: rack r is in set k, which is empty where racks are unknown; the unknown rack, last, is in none

    instances: tuple[str | None, ...]  # by member: its static identity (KIP-345)
    members_in_kafka_order: Ints  # M: members in Kafka's order: static ones by instance id, then the others by member id
    member_rack: Ints  # M: -1 unknown
    generation: Longs  # M: of the member's claims; -1 unknown
    priority: Longs  # M
    capacity: Floats  # M: above 0
    container: Ints  # M: -1 unknown
    joined: Bools  # M: it had an assignment before, if only an empty one

    subscription: Ints  # M: which of the D distinct subscriptions a member has
    subscribed_start: Longs  # D+1: subscription d is subscribed_topic[subscribed_start[d] : subscribed_start[d + 1]]
    subscribed_topic: Ints  # ascending within a subscription; known topics only
    reader_set: Ints  # T: which of the A audiences reads a topic
    reader_start: Longs  # A+1: audience a is reader[reader_start[a] : reader_start[a + 1]]
    reader: Ints  # members, ascending within an audience

    claim_member: Ints  # C: ascending; known topics and partitions only, each pair once
    claim_partition: Ints  # C: dense partition, ascending within a member

    @classmethod
    def build(cls, topics: Mapping[str, Topic] | TopicIndex, members: Iterable[Member]) -> "Group":
        """Intern the names and lay out the columns.

        Subscriptions to and claims of unknown topics and partitions are left out: metadata is often ahead of or behind
        the members.

        Raises:
            ProblemError: the message names the topic or member, the field, and what is expected there.
        """
        known = topics if isinstance(topics, TopicIndex) else TopicIndex.of(topics)
        people = intake.members_in_order(members)
        ids = [member.id for member in people]
        racks, rack_local, member_rack = intake.member_racks(known.racks, known.rack_local, people)
        containers, container = intake.containers(people)
        subscription, subscribed_start, subscribed_topic = wishes.subscriptions(known.place, people)
        reader_set, reader_start, reader = wishes.reader_sets(
            len(known.place), subscription, subscribed_start, subscribed_topic
        )
        claim_member, claim_partition = wishes.claims(known.place, known.topic_start, people)
        instances = intake.instances(people)
        group = cls(
            topics=tuple(known.place),
            members=tuple(ids),
            racks=racks,
            containers=containers,
            topic_start=known.topic_start,
            partition_topic=known.partition_topic,
            lag=known.lag,
            rate=known.rate,
            traffic=known.traffic,
            rack_set=known.rack_set,
            rack_local=rack_local,
            instances=instances,
            members_in_kafka_order=intake.members_in_kafka_order(instances),
            member_rack=member_rack,
            generation=intake.integers("generation", [member.generation for member in people], ids),
            priority=intake.integers("priority", [member.priority for member in people], ids),
            capacity=intake.capacities([member.capacity for member in people], ids),
            container=container,
            joined=np.array([member.owned is not None for member in people], dtype=np.bool_),
            subscription=subscription,
            subscribed_start=subscribed_start,
            subscribed_topic=subscribed_topic,
            reader_set=reader_set,
            reader_start=reader_start,
            reader=reader,
            claim_member=claim_member,
            claim_partition=claim_partition,
        )
        return frozen(group)

    @property
    def partition_count(self) -> int:
        """Partitions of all topics together, P."""
        return int(self.topic_start[-1])

    @property
    def equal_subscriptions(self) -> bool:
        """Every member reads the same known topics."""
        return len(self.subscribed_start) <= 2

    def readers(self, topic: int) -> Ints:
        """The members that read a topic, ascending."""
        reader_set = self.reader_set[topic]
        return self.reader[self.reader_start[reader_set] : self.reader_start[reader_set + 1]]

    def subscribed(self, member: int) -> Ints:
        """The topics that a member reads, ascending."""
        subscription = self.subscription[member]
        return self.subscribed_topic[
            self.subscribed_start[subscription] : self.subscribed_start[subscription + 1]
        ]

    def reads(self, members: Ints, topics: Ints) -> Bools:
        """For each pair of a member and a topic, whether the one reads the other. P log S, no M x T table."""
        if self.equal_subscriptions:
            wanted = np.zeros(len(self.topics), dtype=np.bool_)
            wanted[self.subscribed_topic] = True
            return wanted[topics]
        width = max(len(self.topics), 1)
        sizes = np.diff(self.subscribed_start)
        known = (
            np.repeat(np.arange(len(sizes), dtype=np.int64), sizes) * width + self.subscribed_topic
        )
        if not len(known):
            return np.zeros(len(members), dtype=np.bool_)
        asked = self.subscription[members].astype(np.int64) * width + topics
        found = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.asarray(known[found] == asked)

    def has_reader(self) -> Bools:
        """For each dense partition, whether anybody reads it."""
        read = np.diff(self.reader_start) > 0
        return np.repeat(read[self.reader_set], np.diff(self.topic_start))

    def local(self, members: Ints, partitions: Ints | Longs) -> Bools:
        """For each pair of a member and a partition, whether a replica is in the member's rack."""
        return self.rack_local[self.rack_set[partitions], self.member_rack[members]]

    def racks_known(self) -> Bools:
        """For each dense partition, whether it is known in which racks its replicas are."""
        return np.asarray(self.rack_local.any(axis=1))[self.rack_set]

    @property
    def replica_start(self) -> Longs:
        """P+1: the racks of p's replicas are replica_rack[replica_start[p] : replica_start[p + 1]]."""
        return starts(np.count_nonzero(self.rack_local, axis=1)[self.rack_set])

    @property
    def replica_rack(self) -> Ints:
        """The racks of the partitions' replicas, ascending within each partition."""
        sizes = np.count_nonzero(self.rack_local, axis=1)
        first = np.repeat(starts(sizes)[self.rack_set], sizes[self.rack_set])
        racks = np.nonzero(self.rack_local)[1].astype(np.int32)
        return np.asarray(racks[first + within(sizes[self.rack_set])])
