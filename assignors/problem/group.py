"""Group: the problem in columns, put in order once and frozen.

Guarantees: `Group.build` is where names end. Topics, members, racks and containers become dense
integers in Kafka's order of strings, and every attribute becomes a column; two problems that differ
only in the order of their input give the same `Group`. A strategy reads columns and returns a
column.

A subscription is stored once for all members that share it, a reader set once for all topics that
share it, and a rack set once for all partitions that share it, so that ten thousand members of one
subscription cost no more than one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem import subscriptions, validation
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs, frozen, starts, within
from levelwind.assignors.problem.drain import resolve_capacities
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.topic_index import TopicIndex


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """The problem in columns.

    Dimensions: T topics, M members, P partitions, R racks, D subscriptions, S reader sets, K rack
    sets, C claims.

    Three compressions: a *subscription* is one set of topics, shared by the members that have it; a
    *reader set* is one set of members, shared by the topics that it reads; a *rack set* is one set
    of racks, shared by the partitions whose replicas are in these racks.
    """

    topics: tuple[str, ...]
    """T: names, ascending in Kafka's order."""
    members: tuple[str, ...]
    """M: member ids, ascending in Kafka's order."""
    racks: tuple[str, ...]
    """R: names, ascending."""
    containers: tuple[str, ...]
    """Names by container, ascending."""

    topic_start: Longs
    """T+1: the dense partitions of topic t are topic_start[t] : topic_start[t + 1]."""
    partition_topic: Ints
    """P: topic of a dense partition."""
    lag: Longs
    """P: records behind the log end; 0 where it was not given."""
    rate: Floats
    """P: records that arrive per second; 0 where it was not given."""
    traffic: Floats
    """P: bytes that arrive per second, the cost of reading from another rack; 1 where it was not
    given."""
    rack_set: Ints
    """P: rack set of the replicas, an index below K."""
    rack_local: Bools
    """K x R+1: whether rack r is in set k. A set is empty where racks are unknown; the last column,
    the unknown rack, is in no set."""

    instances: tuple[str | None, ...]
    """M: static identity of a member (KIP-345); None for a dynamic member."""
    members_in_kafka_order: Ints
    """M: members in Kafka's order: static ones by instance id, then the others by member id."""
    member_rack: Ints
    """M: rack of a member; -1 if unknown."""
    generation: Longs
    """M: generation of a member's claims; -1 if unknown."""
    priority: Longs
    """M: priority for `failover`; the highest number comes first."""
    announced: Floats
    """M: announced capacity, above 0, relative to the other members."""
    capacity: Floats
    """M: records per second that the member can read, above 0."""
    assumed: bool
    """Whether no member's speed is known, so that the unit of `capacity` is assumed."""
    container: Ints
    """M: container of a member; -1 if unknown."""
    joined: Bools
    """M: whether a member had an assignment before, if only an empty one."""

    subscription: Ints
    """M: subscription of a member, an index below D."""
    subscribed_start: Longs
    """D+1: subscription d is subscribed_topic[subscribed_start[d] : subscribed_start[d + 1]]."""
    subscribed_topic: Ints
    """Topics, ascending within a subscription; known topics only."""
    reader_set: Ints
    """T: reader set of a topic, an index below S."""
    reader_start: Longs
    """S+1: reader set s is reader[reader_start[s] : reader_start[s + 1]]."""
    reader: Ints
    """Members, ascending within a reader set."""

    claim_member: Ints
    """C: claiming members, ascending; known topics and partitions only, each pair once."""
    claim_partition: Ints
    """C: claimed dense partitions, ascending within a member."""

    @classmethod
    def build(cls, topics: Mapping[str, Topic] | TopicIndex, members: Iterable[Member]) -> "Group":
        """Intern the names and lay out the columns.

        Subscriptions to and claims of unknown topics and partitions are left out: metadata is often
        ahead of the members or behind them.

        Raises:
            ProblemError: the message names the topic or member, the field, and what is expected.
        """
        index = topics if isinstance(topics, TopicIndex) else TopicIndex.of(topics)
        ordered = validation.members_in_order(members)
        ids = [member.id for member in ordered]
        racks, rack_local, member_rack = validation.member_racks(
            index.racks, index.rack_local, ordered
        )
        containers, container = validation.containers(ordered)
        subscription, subscribed_start, subscribed_topic = subscriptions.subscriptions(
            index.number, ordered
        )
        reader_set, reader_start, reader = subscriptions.reader_sets(
            len(index.number), subscription, subscribed_start, subscribed_topic
        )
        claim_member, claim_partition = subscriptions.claims(
            index.number, index.topic_start, ordered
        )
        instances = validation.instances(ordered)
        generations = [member.generation for member in ordered]
        priorities = [member.priority for member in ordered]
        announced = validation.capacities([member.capacity for member in ordered], ids)
        speed = validation.speeds([member.speed for member in ordered], ids)
        read = np.repeat((np.diff(reader_start) > 0)[reader_set], np.diff(index.topic_start))
        everything = bool(read.all())
        capacities = resolve_capacities(
            announced,
            speed,
            float((index.lag if everything else index.lag[read]).sum()),
            float((index.rate if everything else index.rate[read]).sum()),
            reading=np.diff(subscribed_start)[subscription] > 0,
        )
        group = cls(
            topics=tuple(index.number),
            members=tuple(ids),
            racks=racks,
            containers=containers,
            topic_start=index.topic_start,
            partition_topic=index.partition_topic,
            lag=index.lag,
            rate=index.rate,
            traffic=index.traffic,
            rack_set=index.rack_set,
            rack_local=rack_local,
            instances=instances,
            members_in_kafka_order=validation.members_in_kafka_order(instances),
            member_rack=member_rack,
            generation=validation.integers("generation", generations, ids),
            priority=validation.integers("priority", priorities, ids),
            announced=announced,
            capacity=capacities.records_per_second,
            assumed=capacities.assumed,
            container=container,
            joined=np.array([member.owned is not None for member in ordered], dtype=np.bool_),
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
        """P, the number of partitions of all topics together."""
        return int(self.topic_start[-1])

    @property
    def equal_subscriptions(self) -> bool:
        """Whether every member reads the same known topics."""
        return len(self.subscribed_start) <= 2

    @property
    def relative_capacity(self) -> Floats:
        """Capacity of each member (M), as announced where no speed is known.

        For strategies that only compare loads: no assumed unit is in their figures.
        """
        return self.announced if self.assumed else self.capacity

    def readers(self, topic: int) -> Ints:
        """Members that read a topic, ascending."""
        reader_set = self.reader_set[topic]
        return self.reader[self.reader_start[reader_set] : self.reader_start[reader_set + 1]]

    def subscribed(self, member: int) -> Ints:
        """Topics that a member reads, ascending."""
        subscription = self.subscription[member]
        return self.subscribed_topic[
            self.subscribed_start[subscription] : self.subscribed_start[subscription + 1]
        ]

    def reads(self, members: Ints, topics: Ints) -> Bools:
        """Whether the member of each pair reads the topic of the pair.

        Cost: P log N for P pairs and N subscribed topics; no M x T table is made.
        """
        if self.equal_subscriptions:
            subscribed = np.zeros(len(self.topics), dtype=np.bool_)
            subscribed[self.subscribed_topic] = True
            return subscribed[topics]
        width = max(len(self.topics), 1)
        sizes = np.diff(self.subscribed_start)
        pairs = (
            np.repeat(np.arange(len(sizes), dtype=np.int64), sizes) * width + self.subscribed_topic
        )
        if not len(pairs):
            return np.zeros(len(members), dtype=np.bool_)
        wanted = self.subscription[members].astype(np.int64) * width + topics
        found = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        return np.asarray(pairs[found] == wanted)

    def standing_claims(self) -> Bools:
        """Whether each claim (C) stands against the other claims of its partition.

        A member that does not read the topic gives the partition up in any case, so its claim
        stands only where no reader has one. Of the claims that are left, those of the highest
        generation stand; several of one generation all do.
        """
        partition, generation = self.claim_partition, self.generation[self.claim_member]
        reads = self.reads(self.claim_member, self.partition_topic[partition])
        claimed_by_reader = np.zeros(self.partition_count, dtype=np.bool_)
        claimed_by_reader[partition[reads]] = True
        stands = reads | ~claimed_by_reader[partition]
        newest = np.full(self.partition_count, np.iinfo(np.int64).min)
        np.maximum.at(newest, partition[stands], generation[stands])
        return np.asarray(stands & (generation == newest[partition]))

    def has_reader(self) -> Bools:
        """Whether each dense partition (P) has a reader."""
        read = np.diff(self.reader_start) > 0
        return np.repeat(read[self.reader_set], np.diff(self.topic_start))

    def local(self, members: Ints, partitions: Ints | Longs) -> Bools:
        """Whether the partition of each pair has a replica in the rack of the pair's member."""
        return self.rack_local[self.rack_set[partitions], self.member_rack[members]]

    def racks_known(self) -> Bools:
        """Whether the racks of each dense partition's replicas (P) are known."""
        return np.asarray(self.rack_local.any(axis=1))[self.rack_set]

    @property
    def replica_start(self) -> Longs:
        """P+1: racks of partition p are replica_rack[replica_start[p] : replica_start[p + 1]]."""
        return starts(np.count_nonzero(self.rack_local, axis=1)[self.rack_set])

    @property
    def replica_rack(self) -> Ints:
        """Racks of the partitions' replicas, ascending within each partition."""
        sizes = np.count_nonzero(self.rack_local, axis=1)
        first = np.repeat(starts(sizes)[self.rack_set], sizes[self.rack_set])
        racks = np.nonzero(self.rack_local)[1].astype(np.int32)
        return np.asarray(racks[first + within(sizes[self.rack_set])])
