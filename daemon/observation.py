"""Looks at the cluster: what the brokers answer, as values of ours.

The cost of a look is fixed: three requests for brokers and topics, whatever their number, and for each kind of offset one
request to each broker for each `AT_ONCE` partitions or fewer. librdkafka groups partitions by leader itself; while it waits
for a broker that is gone it tries to connect without pause, so nothing is asked of partitions that are known to have no
leader, and time-outs are short.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from daemon import clients
from daemon.cluster_state import UNKNOWN, Observation, ObservedTopic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka.admin import AdminClient

    from assignors.protocol.records import TopicRecord
    from daemon.cluster_state import Selection

Place = tuple[str, int]

COMMITS = "__consumer_offsets"
AT_ONCE = 500
"""Partitions a call: what a call takes grows with their square. Of 10,000 one took 0.73 s of CPU, twenty took 0.12 s."""


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
    client: AdminClient, selection: Selection, known: Collection[str], at: int, timeout: float
) -> Observation:
    """Describe the brokers and the selected topics.

    Args:
        client: the admin client.
        selection: which topics matter.
        known: the topics that were there before: asked for by name, they are told apart from those that may not be seen.
        at: the time of the look.
        timeout: seconds for each request.

    Raises:
        UnansweredError: the cluster did not answer.
    """
    try:
        described, cluster, commit_partitions = _described(client, selection, known, timeout)
    except KafkaException as exception:
        raise UnansweredError(clients.kafka_error(exception).str()) from exception
    brokers = {node.id: node.rack for node in cluster.nodes}
    topics: dict[str, ObservedTopic] = {}
    gone = {name for name in known if name not in selection}
    unreadable: dict[str, str] = {}
    for name, answer in described.items():
        try:
            description = answer.result()
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                gone.add(name)
            elif error.code() in clients.REFUSED:
                unreadable[name] = error.str()
            else:
                raise UnansweredError(error.str()) from exception
        else:
            topics[name] = _topic(description)
            for partition in description.partitions:
                # A broker that came between the two answers: its rack is not to be missed.
                brokers |= {
                    node.id: node.rack for node in partition.replicas if node.host and node.id not in brokers
                }
    return Observation(
        at=at,
        brokers=brokers,
        topics=topics,
        gone=frozenset(gone),
        unreadable=unreadable,
        commit_partitions=commit_partitions,
    )


def _described(
    client: AdminClient, selection: Selection, known: Collection[str], timeout: float
) -> tuple[Mapping[str, Any], Any, int]:
    """Ask for topics and cluster: the answers for each topic, and the cluster's; and of the offsets topic its partitions.

    librdkafka sends these to the broker that the newest list of topics, which any broker may answer, names as controller.
    Brokers name any that they believe alive: the one that has just died too, for seconds, so a second list may do better.
    """
    for last in (False, True):
        listed = client.list_topics(timeout=timeout).topics
        names = sorted({name for name in (*listed, *known) if name in selection})
        asked = client.describe_topics(TopicCollection(names), request_timeout=timeout) if names else {}
        try:
            commits = listed[COMMITS].partitions if COMMITS in listed else ()
            return asked, client.describe_cluster(request_timeout=timeout).result(), len(commits)
        except KafkaException:
            if last:
                raise
    raise AssertionError  # the last attempt returns or raises


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
    commit_partitions: int = 0,
) -> Offsets:
    """Ask for the ends of some partitions and of the offsets topic's, and for the begins of some.

    Partitions that are given one after another, by their leaders, need the fewest requests.

    Raises:
        UnansweredError: not one partition could be read, and not for want of a right.
    """
    latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()
    wanted = {TopicPartition(*place): latest for place in places}
    commits = {TopicPartition(COMMITS, number): latest for number in range(commit_partitions)}
    committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    # All three are under way before the first answer is waited for.
    asked = (
        _asked(client, wanted | commits, committed, timeout),
        _asked(client, wanted, uncommitted, timeout),
        _asked(client, {TopicPartition(*place): earliest for place in begins}, uncommitted, timeout),
    )
    failed: dict[Place, str] = {}
    commit_ends: dict[int, int] = {}
    refused = False
    answers: list[dict[Place, int]] = []
    for kind in asked:
        answers.append({})
        for partition, answer in kind:
            place = (partition.topic, partition.partition)
            try:
                offset = answer.result().offset
            except KafkaException as exception:
                error = clients.kafka_error(exception)
                if partition.topic == COMMITS:
                    continue  # a right that an observer may lack
                refused = refused or error.code() in clients.REFUSED
                failed[place] = error.str()
            else:
                if partition.topic == COMMITS:
                    commit_ends |= {partition.partition: offset} if offset >= 0 else {}
                elif offset < 0:
                    failed[place] = "the leader did not answer in time"
                else:
                    answers[-1][place] = offset
    stable, high, begin = answers
    if wanted and not stable and not refused:
        raise UnansweredError(next(iter(failed.values())))
    return Offsets(begin=begin, stable=stable, high=high, failed=failed, commits=commit_ends)


def _asked(
    client: AdminClient, wanted: Mapping[TopicPartition, Any], isolation: Any, timeout: float
) -> list[tuple[TopicPartition, Any]]:
    """Each partition with the answer to come, in calls of so many that each costs little."""
    partitions = list(wanted.items())
    calls = [dict(partitions[first : first + AT_ONCE]) for first in range(0, len(partitions), AT_ONCE)]
    return [pair for call in calls for pair in clients.offsets(client, call, isolation, timeout).items()]


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
