"""Looks at the cluster: what the brokers answer, as values of ours.

The cost of a look is fixed: three requests for brokers and topics, whatever their number, and for each kind of offset one
request to each broker for each `clients.PARTITIONS_PER_REQUEST` partitions or fewer. At rest it is little, since what cannot have changed is not
asked for: a topic is described where the list, which costs a tenth, shows another layout than the known one, and a stable
offset is read where the high watermark has moved or was above it. librdkafka groups partitions by leader itself; while it
waits for a broker that is gone it tries to connect without pause, so nothing is asked of partitions that are known to have
no leader, and time-outs are short.
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
from confluent_kafka.admin import OffsetSpec

from daemon.kafka import clients
from daemon.observer.cluster_state import (
    UNKNOWN,
    Observation,
    ObservedTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka.admin import AdminClient

    from assignors.protocol.records import TopicRecord
    from daemon.observer.cluster_state import (
        ClusterState,
        Selection,
    )

Place = tuple[str, int]

COMMITS = "__consumer_offsets"


class UnansweredError(Exception):
    """The cluster as a whole did not answer: to be tried again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The begin, stable and high offsets that were read, by topic and partition; why others were not."""

    begin: Mapping[Place, int]
    stable: Mapping[Place, int]
    high: Mapping[Place, int]
    failed: Mapping[Place, str]
    commits: Mapping[int, int] = field(default_factory=dict)
    """The stable offsets of the offsets topic, by partition; those that could be read."""


def look(
    client: AdminClient,
    selection: Selection,
    known: ClusterState,
    at: int,
    timeout: float,
    *,
    whole: bool = True,
) -> Observation:
    """Describe the brokers and those of the selected topics that are not as they are known.

    Args:
        client: the admin client.
        selection: which topics matter.
        known: what was there before: topics asked for by name are told apart from those that may not be seen.
        at: the time of the look.
        timeout: seconds for each request.
        whole: describe all topics; the list does not tell a topic from one of the same name and layout made anew.

    Raises:
        UnansweredError: the cluster did not answer.
    """
    try:
        listed, cluster = _listed(client, timeout)
        brokers = {node.id: node.rack for node in cluster.nodes}
        if brokers != {number: one.rack for number, one in known.brokers.items() if one.online}:
            whole = True  # a topic's record names the racks of its replicas
        asked = _to_describe(listed, selection, known, whole=whole)
        described = (
            client.describe_topics(TopicCollection(asked), request_timeout=timeout) if asked else {}
        )
    except KafkaException as exception:
        raise UnansweredError(clients.kafka_error(exception).str()) from exception
    topics: dict[str, ObservedTopic] = {}
    gone = {name for name in known.topics if name not in selection}
    unreadable: dict[str, str] = {}
    for name, answer in described.items():
        try:
            description = answer.result()
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                gone.add(name)
            elif error.code() in clients.AUTHORIZATION_ERRORS:
                unreadable[name] = error.str()
            else:
                raise UnansweredError(error.str()) from exception
        else:
            topics[name] = _topic(description)
            for partition in description.partitions:
                # A broker that came between the two answers: its rack is not to be missed.
                brokers |= {
                    node.id: node.rack
                    for node in partition.replicas
                    if node.host and node.id not in brokers
                }
    return Observation(
        at=at,
        brokers=brokers,
        topics=topics,
        gone=frozenset(gone),
        unreadable=unreadable,
        commit_partitions=len(listed[COMMITS].partitions) if COMMITS in listed else 0,
    )


def _listed(client: AdminClient, timeout: float) -> tuple[Mapping[str, Any], Any]:
    """The topics by name as any broker lists them, and the cluster as its controller describes it.

    librdkafka sends the latter to the broker that the newest list of topics, which any broker may answer, names as
    controller. Brokers name any that they believe alive: the one that has just died too, for seconds, so a second list may
    do better.
    """
    for last in (False, True):
        listed = client.list_topics(timeout=timeout).topics
        try:
            return listed, client.describe_cluster(request_timeout=timeout).result()
        except KafkaException:
            if last:
                raise
    raise AssertionError  # the last attempt returns or raises


def _to_describe(
    listed: Mapping[str, Any], selection: Selection, known: ClusterState, *, whole: bool
) -> list[str]:
    """The selected topics of which the list says something else than what is known, or nothing; or all of them."""
    names = sorted({name for name in (*listed, *known.topics) if name in selection})
    if whole:
        return names
    return [
        name
        for name in names
        if name not in listed
        or name not in known.topics
        or not _same(listed[name], known.topics[name])
    ]


def _same(listed: Any, known: TopicRecord) -> bool:
    """Whether a list shows a topic's layout as it is known."""
    return (
        listed.error is None
        and len(listed.partitions) == known.partitions
        and all(
            (one := listed.partitions.get(number)) is not None
            and one.leader == known.leader[number]
            and tuple(one.replicas) == known.replicas[number]
            and tuple(sorted(one.isrs)) == known.isr[number]
            for number in range(known.partitions)
        )
    )


def _topic(description: Any) -> ObservedTopic:
    partitions = sorted(description.partitions, key=lambda partition: partition.id)
    return ObservedTopic(
        # Kafka prints ids in the URL-safe alphabet of base64, librdkafka in the other one.
        id=str(description.topic_id).translate(str.maketrans("+/", "-_")),
        leader=tuple(
            UNKNOWN if partition.leader is None else partition.leader.id for partition in partitions
        ),
        replicas=tuple(tuple(node.id for node in partition.replicas) for partition in partitions),
        isr=tuple(tuple(sorted(node.id for node in partition.isr)) for partition in partitions),
    )


def read_offsets(
    client: AdminClient,
    places: Iterable[Place],
    begins: Iterable[Place],
    timeout: float,
    *,
    settled: Mapping[Place, int] | None = None,
    commit_partitions: int = 0,
) -> Offsets:
    """Ask for the ends of some partitions and of the offsets topic's, and for the begins of some.

    Partitions that are given one after another, by their leaders, need the fewest requests.

    Args:
        client: the admin client.
        places: the partitions whose ends are read.
        begins: those whose begins are read.
        timeout: seconds for each request.
        settled: where the stable offset last stood at the high watermark. It is there as long as that has not moved: no
            transaction can have begun or ended meanwhile.
        commit_partitions: how many partitions the offsets topic has.

    Raises:
        UnansweredError: not one partition could be read, and not for want of a right.
    """
    settled = settled or {}
    latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()
    wanted = {TopicPartition(*place): latest for place in places}
    commits = {TopicPartition(COMMITS, number): latest for number in range(commit_partitions)}
    committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    failed: dict[Place, str] = {}
    # All three are under way before the first answer is waited for.
    commits_asked = clients.list_offsets(client, commits, committed, timeout)
    high_asked = clients.list_offsets(client, wanted, uncommitted, timeout)
    begin_asked = clients.list_offsets(
        client, {TopicPartition(*place): earliest for place in begins}, uncommitted, timeout
    )
    high, refused = _answers(high_asked, failed)
    if wanted and not high and not refused:
        raise UnansweredError(next(iter(failed.values())))
    stable = {place: end for place, end in high.items() if settled.get(place) == end}
    moved = {TopicPartition(*place): latest for place in high if place not in stable}
    stable |= _answers(clients.list_offsets(client, moved, committed, timeout), failed)[0]
    begin, _ = _answers(begin_asked, failed)
    # To read the offsets topic is a right that an observer may lack.
    ends, _ = _answers(commits_asked, {})
    return Offsets(
        begin=begin,
        stable=stable,
        high=high,
        failed=failed,
        commits={number: end for (_, number), end in ends.items()},
    )


def _answers(
    asked: Mapping[TopicPartition, Any], failed: dict[Place, str]
) -> tuple[dict[Place, int], bool]:
    """The offsets as they come, and whether any was refused; why there is none for the others goes into `failed`."""
    offsets: dict[Place, int] = {}
    refused = False
    for partition, answer in asked.items():
        place = (partition.topic, partition.partition)
        try:
            offset = answer.result().offset
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            refused = refused or error.code() in clients.AUTHORIZATION_ERRORS
            failed[place] = error.str()
        else:
            if offset < 0:
                failed[place] = "the leader did not answer in time"
            else:
                offsets[place] = offset
    return offsets, refused


def begins_due(
    topics: Iterable[TopicRecord], known: Mapping[tuple[str, int], int], *, all_: bool
) -> set[Place]:
    """The partitions whose begin offset has to be asked for: those not known by topic id, or all that can be asked."""
    return {
        (topic.topic, number)
        for topic in topics
        for number in range(topic.partitions)
        if topic.leader[number] != UNKNOWN and (all_ or (topic.id, number) not in known)
    }
