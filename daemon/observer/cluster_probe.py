"""Cluster probe: the answers of the brokers as plain values.

The cost of a probe is bounded: one request for the list of brokers and topics, whatever their
number, one for the brokers' racks in some probes, one for each `PARTITIONS_DESCRIBED_AT_ONCE`
partitions whose topics are described, and for each kind of offset one request to each broker for
each `clients.PARTITIONS_PER_REQUEST` partitions or fewer. An idle cluster costs little, because the
probe asks only for what can have changed: it describes a topic if the topic list, which costs a
tenth of a description, shows another layout than the last one, and the cluster if the list shows
other brokers, it asks a broker for its settings when it is new, and it reads a stable offset if the
high watermark has moved or was above that offset. What no list shows is asked for in turns
(`ProbeRound`), so that no probe has more than its share of it. librdkafka groups
partitions by leader itself; while it waits for a dead broker it reconnects without pause, so the
probe asks nothing about partitions without a leader and keeps its time-outs short.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.kafka import clients
from levelwind.daemon.observer.cluster_state import UNKNOWN, ClusterSnapshot, ObservedTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.observer.cluster_state import ClusterState
    from levelwind.daemon.observer.probe_round import ProbeRound
    from levelwind.daemon.observer.selection import Selection

Partition = tuple[str, int]
"""A topic name and a partition number."""

PARTITIONS_DESCRIBED_AT_ONCE = 5_000
"""The most partitions of the topics in one request for descriptions, which any broker answers; a
topic with more has a request to itself."""
REPLICA_SELECTOR = "replica.selector.class"
"""Setting of a broker without which consumers fetch from leaders alone (KIP-392)."""


class UnansweredError(Exception):
    """The cluster as a whole did not answer; the caller retries later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Begin offsets, stable offsets and high watermarks by partition; errors of the others."""

    begin: Mapping[Partition, int]
    stable: Mapping[Partition, int]
    high: Mapping[Partition, int]
    failed: Mapping[Partition, str]
    commits: Mapping[int, int] = field(default_factory=dict)
    """Stable offsets of the commits' topic by partition number; unreadable partitions are left
    out."""
    commits_high: Mapping[int, int] = field(default_factory=dict)
    """Its high watermarks."""

    @property
    def unanswered(self) -> frozenset[Partition]:
        """Partitions whose leader answered with no offset at all.

        A request for a begin or a stable offset may fail as a whole, while its leaders answer
        another one: librdkafka asks any broker for the leaders first.
        """
        answered = (self.high, self.stable, self.begin)
        return frozenset(self.failed).difference(*answered)


def probe_cluster(
    client: AdminClient,
    selection: Selection | frozenset[str],
    previous: ClusterState,
    at: int,
    timeout: float,
    *,
    full: bool = True,
    settings: bool = True,
    share: ProbeRound | None = None,
    commits_topic: str = OFFSETS_TOPIC,
) -> ClusterSnapshot:
    """Describe the brokers, and the selected topics whose layout is not the previous one.

    Args:
        client: the admin client.
        selection: the topics to observe, or their names.
        previous: the last published state. Its topics are asked for by name, so that a deleted
            topic differs from one that the observer may not see.
        at: the time of the probe, milliseconds since the epoch.
        timeout: seconds for each request.
        full: describe the brokers and every topic. The list cannot distinguish a topic from a
            re-created one of the same name and layout, and names no racks.
        settings: with `full`, ask every broker for its settings, not only new ones.
        share: what this probe asks for without `full` as well; None: nothing.
        commits_topic: the topic that the pipeline reads commits from.

    Raises:
        UnansweredError: the cluster did not answer.
    """
    known = {number: broker.rack for number, broker in previous.brokers.items() if broker.online}
    try:
        listed, brokers = _listed(
            client, known, timeout, full=full or (share is not None and share.brokers)
        )
        if brokers != known:
            full = True  # a topic's record names the racks of its replicas
        asked = _to_describe(listed, selection, previous, full=full, share=share)
        described = _descriptions(client, asked, listed, timeout)
    except KafkaException as exception:
        raise UnansweredError(clients.kafka_error(exception).str()) from exception
    topics: dict[str, ObservedTopic] = {}
    missing: set[str] = set()
    unreadable: dict[str, str] = {}
    for name, answer in described.items():
        try:
            description = answer.result()
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                missing.add(name)
            elif error.code() in clients.AUTHORIZATION_ERRORS:
                unreadable[name] = error.str()
            else:
                raise UnansweredError(error.str()) from exception
        else:
            topics[name] = _topic(description)
            for partition in description.partitions:
                # A broker that joined between the two answers: its rack must not be missed.
                brokers |= {
                    node.id: _rack(node)
                    for node in partition.replicas
                    if node.host and node.id not in brokers
                }
    asked_brokers = [
        number
        for number in brokers
        if number not in known
        or (full and settings)
        or (share is not None and share.settings_of(number))
        or (
            previous.brokers[number].follower_fetching is None
            and (full or (share is not None and share.retries(number)))
        )
    ]
    return ClusterSnapshot(
        at=at,
        brokers=brokers,
        topics=topics,
        follower_fetching=_follower_fetching(client, asked_brokers, timeout),
        removed=frozenset([name for name in previous.topics if name not in selection]),
        missing=frozenset(missing),
        unreadable=unreadable,
        commit_partitions=len(listed[commits_topic].partitions) if commits_topic in listed else 0,
    )


def _descriptions(
    client: AdminClient, names: Sequence[str], listed: Mapping[str, Any], timeout: float
) -> dict[str, Any]:
    """Futures of the descriptions of some topics, by name, in requests of bounded answers."""
    found: dict[str, Any] = {}
    for part in _parts(names, listed):
        found |= client.describe_topics(TopicCollection(part), request_timeout=timeout)
    return found


def _parts(names: Sequence[str], listed: Mapping[str, Any]) -> Iterator[list[str]]:
    """The names in parts of at most `PARTITIONS_DESCRIBED_AT_ONCE` partitions, or one topic."""
    part: list[str] = []
    size = 0
    for name in names:
        partitions = len(listed[name].partitions) if name in listed else 1
        if part and size + partitions > PARTITIONS_DESCRIBED_AT_ONCE:
            yield part
            part, size = [], 0
        part.append(name)
        size += partitions
    if part:
        yield part


def _follower_fetching(
    client: AdminClient, brokers: Iterable[int], timeout: float
) -> dict[int, bool | None]:
    """Whether each of some brokers lets consumers of its rack fetch from its replicas.

    Costs one request to each of them. A broker that does not answer is left out; one that refuses
    to show its settings is unknown (None).
    """
    asked: dict[int, Any] = {}
    for number in sorted(brokers):
        resource = ConfigResource(ResourceType.BROKER, str(number))
        (asked[number],) = client.describe_configs([resource], request_timeout=timeout).values()
    read: dict[int, bool | None] = {}
    for number, answer in asked.items():
        try:
            entry = answer.result().get(REPLICA_SELECTOR)
        except KafkaException as exception:
            if clients.kafka_error(exception).code() in clients.AUTHORIZATION_ERRORS:
                read[number] = None
        else:
            read[number] = entry is not None and bool(entry.value)
    return read


def _listed(
    client: AdminClient, known: Mapping[int, str | None], timeout: float, *, full: bool
) -> tuple[Mapping[str, Any], dict[int, str | None]]:
    """Topics by name, and the racks of the brokers by number.

    Any broker lists both, but only the controller's description names racks. It is asked for if
    `full`, and where the list shows other brokers than the known ones.

    librdkafka sends the second request to the broker that the newest topic list, which any broker
    may answer, names as the controller. For some seconds brokers may still name one that has just
    died, so a second list can succeed where the first failed.
    """
    for last in (False, True):
        listed = client.list_topics(timeout=timeout)
        if not full and listed.brokers.keys() == known.keys():
            return listed.topics, dict(known)
        try:
            cluster = client.describe_cluster(request_timeout=timeout).result()
        except KafkaException:
            if last:
                raise
        else:
            return listed.topics, {node.id: _rack(node) for node in cluster.nodes}
    raise AssertionError  # the last attempt returns or raises


def _rack(node: Any) -> str | None:
    """The rack of a broker; an empty `broker.rack` is none, and no record may have it."""
    return node.rack or None


def _to_describe(
    listed: Mapping[str, Any],
    selection: Selection | frozenset[str],
    previous: ClusterState,
    *,
    full: bool,
    share: ProbeRound | None = None,
) -> list[str]:
    """Selected topics whose listed layout is new, changed or missing, or whose turn it is.

    All if `full`.
    """
    names = sorted({name for name in (*listed, *previous.topics) if name in selection})
    if full:
        return names
    return [
        name
        for name in names
        if (share is not None and share.describes(name))
        or name not in listed
        or name not in previous.topics
        or not _same_layout(listed[name], previous.topics[name])
    ]


def _same_layout(listed: Any, previous: TopicRecord) -> bool:
    """Whether the topic list shows the previous layout of a topic."""
    return (
        listed.error is None
        and len(listed.partitions) == previous.partitions
        and all(
            (partition := listed.partitions.get(number)) is not None
            and partition.leader == previous.leader[number]
            and tuple(partition.replicas) == previous.replicas[number]
            and tuple(sorted(partition.isrs)) == previous.isr[number]
            for number in range(previous.partitions)
        )
    )


def _topic(description: Any) -> ObservedTopic:
    partitions = sorted(description.partitions, key=lambda partition: partition.id)
    return ObservedTopic(
        # Kafka prints ids in the URL-safe alphabet of base64, librdkafka in the other one.
        id=clients.topic_id(description).translate(str.maketrans("+/", "-_")),
        leader=tuple(
            UNKNOWN if partition.leader is None else partition.leader.id for partition in partitions
        ),
        replicas=tuple(tuple(node.id for node in partition.replicas) for partition in partitions),
        isr=tuple(tuple(sorted(node.id for node in partition.isr)) for partition in partitions),
    )


def read_offsets(
    client: AdminClient,
    partitions: Iterable[Partition],
    begins: Iterable[Partition],
    timeout: float,
    *,
    stable_at_high_watermark: Mapping[Partition, int] | None = None,
    commit_partitions: int = 0,
    commits_topic: str = OFFSETS_TOPIC,
) -> Offsets:
    """Read the ends of some partitions and of the commits' topic, and the begins of some.

    Partitions given in the order of their leaders need the fewest requests, also those of begins.

    Args:
        client: the admin client.
        partitions: the partitions whose ends are read.
        begins: the partitions whose begin offsets are read.
        timeout: seconds for each request.
        stable_at_high_watermark: offsets at which the stable offset last equalled the high
            watermark. It still does while the high watermark has not moved: no transaction can have
            begun or ended meanwhile.
        commit_partitions: number of partitions of the topic that has the commits.
        commits_topic: its name.

    Raises:
        UnansweredError: no partition could be read, and missing permissions are not the reason.
    """
    stable_at_high_watermark = stable_at_high_watermark or {}
    latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()
    wanted = {TopicPartition(*log_partition): latest for log_partition in partitions}
    commits = {TopicPartition(commits_topic, number): latest for number in range(commit_partitions)}
    committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    failed: dict[Partition, str] = {}
    # A commit that the sample counts is older than the ends: none lies beyond its log only because
    # the log grew. The observer may lack the permission to read the offsets topic.
    ends, _ = _answers(clients.list_offsets(client, commits, committed, timeout), {})
    # The first calls of the next three are made before the first answer is awaited.
    high_asked = clients.list_offsets(client, wanted, uncommitted, timeout)
    commits_high_asked = clients.list_offsets(client, commits, uncommitted, timeout)
    begin_asked = clients.list_offsets(
        client,
        {TopicPartition(*log_partition): earliest for log_partition in begins},
        uncommitted,
        timeout,
    )
    high, refused = _answers(high_asked, failed)
    if wanted and not high and not refused:
        raise UnansweredError(next(iter(failed.values())))
    stable = {
        log_partition: end
        for log_partition, end in high.items()
        if stable_at_high_watermark.get(log_partition) == end
    }
    moved = {
        TopicPartition(*log_partition): latest
        for log_partition in high
        if log_partition not in stable
    }
    stable |= _answers(clients.list_offsets(client, moved, committed, timeout), failed)[0]
    begin, _ = _answers(begin_asked, failed)
    highs, _ = _answers(commits_high_asked, {})
    return Offsets(
        begin=begin,
        stable=stable,
        high=high,
        failed=failed,
        commits={number: end for (_, number), end in ends.items()},
        commits_high={number: end for (_, number), end in highs.items()},
    )


def _answers(
    asked: Iterable[tuple[TopicPartition, Any]], failed: dict[Partition, str]
) -> tuple[dict[Partition, int], bool]:
    """Offsets by partition, and whether permission was refused for any; errors go into `failed`."""
    offsets: dict[Partition, int] = {}
    refused = False
    for partition, answer in asked:
        log_partition = (partition.topic, partition.partition)
        try:
            offset = answer.result().offset
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            refused = refused or error.code() in clients.AUTHORIZATION_ERRORS
            failed[log_partition] = error.str()
        else:
            if offset < 0:
                failed[log_partition] = "the leader did not answer in time"
            else:
                offsets[log_partition] = offset
    return offsets, refused


def begins_due(
    topics: Iterable[TopicRecord], previous: Mapping[tuple[str, int], int], *, all_due: bool
) -> set[Partition]:
    """Partitions with a leader whose begin offset is unknown by topic id; all if `all_due`."""
    return {
        (topic.topic, number)
        for topic in topics
        for number in range(topic.partitions)
        if topic.leader[number] != UNKNOWN and (all_due or (topic.id, number) not in previous)
    }
