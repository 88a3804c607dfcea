"""Our topics: made when they are missing, checked at every start, never silently altered.

What exists is the operator's: a topic that differs from what it should be is said, difference by difference, and left
as it is. What is missing and may not be created ends the start with the commands that the operator needs.
`__consumer_offsets` is the cluster's own; it comes into being with the first look-up of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from assignors.protocol.topics import TOPIC_KINDS
from daemon import clients
from daemon.errors import ClusterUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignors.protocol.topics import Topics

CONSUMER_OFFSETS = "__consumer_offsets"
PROPAGATED_WITHIN = 10.0
"""Seconds until a broker that has not heard of new topics is left behind, with a word."""
DAY = 24 * 60 * 60 * 1000

# Every reader starts from the beginning, so what is outdated must go soon: small segments that close within minutes, and
# cleaning as soon as a tenth of the log is. A tombstone stays a day for readers that were away.
COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(60 * 60 * 1000),
    "delete.retention.ms": str(DAY),
}
KEPT: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(30 * DAY),
    "segment.ms": str(DAY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How our topics are made."""

    partitions: int = 4
    """Of each topic but `control`, which has one; a topic that exists keeps its number."""
    replication: int | None = None
    """None: three, or as many as there are brokers."""
    timeout: float = 30.0
    """Seconds until a cluster that does not answer ends the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """What a topic should be, or is."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which a topic is not what it should be."""

    topic: str
    setting: str
    expected: str
    found: str


def wanted(topics: Topics, settings: TopicSettings, brokers: int) -> tuple[TopicShape, ...]:
    """Say what our topics should be in a cluster of so many brokers."""
    replication = settings.replication or min(3, max(brokers, 1))

    def shape(name: str, base: Mapping[str, str], partitions: int = settings.partitions) -> TopicShape:
        return TopicShape(
            name=name,
            partitions=partitions,
            replication=replication,
            settings={**base, **_durable(replication)},
        )

    return (
        *(
            shape(name, COMPACTED)
            for name in (topics.metadata, topics.lag, topics.triggers, topics.members, topics.assignments)
        ),
        shape(topics.control, COMPACTED, 1),
        shape(topics.dead_letters, KEPT),
        shape(topics.replays, {**KEPT, "retention.ms": str(7 * DAY)}),
    )


def _durable(replication: int) -> Mapping[str, str]:
    return {
        "min.insync.replicas": "2" if replication >= 3 else "1",
        "unclean.leader.election.enable": "false",
    }


def differences(expected: TopicShape, found: TopicShape) -> tuple[Difference, ...]:
    """Compare a topic with what it should be.

    More replicas than expected are none: brokers that are away at this start would otherwise make every topic differ. What
    hangs on the replication is judged by the topic's own.
    """
    pairs: list[tuple[str, str, str]] = []
    if found.partitions != expected.partitions:
        pairs.append(("partitions", str(expected.partitions), str(found.partitions)))
    if found.replication < expected.replication:
        pairs.append(("replication.factor", str(expected.replication), str(found.replication)))
    for key, value in sorted({**expected.settings, **_durable(found.replication)}.items()):
        if (actual := found.settings.get(key, "")) != value:
            pairs.append((key, value, actual))
    return tuple(
        Difference(topic=expected.name, setting=setting, expected=value, found=actual)
        for setting, value, actual in pairs
    )


def refusal(missing: Sequence[TopicShape], prefix: str, reason: str) -> str:
    """Tell the operator which topics to make, or which right to grant."""
    lines = [
        f"the cluster lets us make none of the topics that are missing ({reason}); make them:",
        *(
            f"  kafka-topics.sh --create --topic {shape.name} --partitions {shape.partitions}"
            f" --replication-factor {shape.replication}"
            + "".join(f" --config {key}={value}" for key, value in sorted(shape.settings.items()))
            for shape in missing
        ),
        "or grant the daemon's principal the right to:",
        (
            "  kafka-acls.sh --add --allow-principal User:NAME --operation Create --operation Describe"
            f" --operation DescribeConfigs --resource-pattern-type prefixed --topic {prefix}"
        ),
    ]
    return "\n".join(lines)


def ensure(
    client_config: Mapping[str, Any], topics: Topics, settings: TopicSettings, log: Any
) -> dict[str, int]:
    """Make the topics that are missing, say how the others differ, and tell how many partitions each has, by name.

    Raises:
        ClusterUnavailableError: no answer in time, or no right to make what is missing.
    """
    client = clients.admin(client_config)
    # Asked first, and not only for the answer: it also tells the client which broker takes requests to create. One that
    # it learned of earlier may be gone, and librdkafka would wait for it.
    cluster = clients.listed(client, client_config, settings.timeout)
    shapes = wanted(topics, settings, len(cluster.brokers))
    missing = tuple(shape for shape in shapes if shape.name not in cluster.topics)
    created = _create(client, missing, topics.prefix, settings.timeout)
    for shape in created:
        log.info(
            "topics.created", topic=shape.name, partitions=shape.partitions, replication=shape.replication
        )
    if missing:
        names = [shape.name for shape in missing]
        cluster = _await_leaders(client, client_config, names, settings.timeout)
        _await_everywhere(client_config, cluster, names, log)
    existing = tuple(shape for shape in shapes if shape not in created)
    for found in _found(client, cluster, existing, settings.timeout, log):
        expected = next(shape for shape in existing if shape.name == found.name)
        for one in differences(expected, found):
            log.warning(
                "topics.drifted", topic=one.topic, setting=one.setting, expected=one.expected, found=one.found
            )
    return _counts(cluster, topics)


def partition_counts(
    client_config: Mapping[str, Any], topics: Topics, settings: TopicSettings
) -> dict[str, int]:
    """Tell how many partitions those of our topics have that are there, by name; it may be another number than the settings'.

    Raises:
        ClusterUnavailableError: no answer in time.
    """
    return _counts(clients.listed(clients.admin(client_config), client_config, settings.timeout), topics)


def _counts(cluster: Any, topics: Topics) -> dict[str, int]:
    known = cluster.topics
    names = [topics.name(kind) for kind in TOPIC_KINDS if topics.name(kind) in known]
    return {name: len(known[name].partitions) for name in names}


def offsets_partitions(client_config: Mapping[str, Any], settings: TopicSettings, group: str) -> int:
    """Make sure that `__consumer_offsets` exists and tell how many partitions it has.

    Args:
        client_config: the clients' configuration.
        settings: for the time-out.
        group: any group that we may describe; it need not exist, and does not by this.

    Raises:
        ClusterUnavailableError: no answer in time, or no right to describe the group or the topic.
    """
    # A consumer, though there is nothing to be consumed: librdkafka's admin requests to a group's coordinator end the whole
    # process by a failed assertion when the coordinator moves meanwhile (its issue 4605), as it does while the topic is made.
    asking = clients.consumer(client_config, {"group.id": group, "enable.auto.commit": False})
    try:
        for attempt in _patiently(settings.timeout):
            with attempt:
                _look_up(asking, group, min(settings.timeout, 5.0))
                found = clients.listed(asking, client_config, settings.timeout).topics.get(CONSUMER_OFFSETS)
                if found is None or not found.partitions:
                    raise _NotYetError(f"{CONSUMER_OFFSETS} is not there, or may not be described by us")
    finally:
        asking.close()
    return len(found.partitions)


class _NotYetError(ClusterUnavailableError):
    """Worth another try until the time is over."""


def _patiently(timeout: float) -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(_NotYetError),
        stop=stop_after_delay(timeout),
        wait=wait_exponential(multiplier=0.1, max=1),
        reraise=True,
    )


def _look_up(asking: Consumer, group: str, timeout: float) -> None:
    try:
        asking.committed([TopicPartition(CONSUMER_OFFSETS, 0)], timeout=timeout)
    except KafkaException as exception:
        error = clients.kafka_error(exception)
        if error.code() in clients.REFUSED:
            raise ClusterUnavailableError(
                f"no right to describe the group {group}: {error.str()}"
            ) from exception
        raise _NotYetError(f"no coordinator for the group {group}: {error.str()}") from exception


def _create(
    client: AdminClient, missing: Sequence[TopicShape], prefix: str, timeout: float
) -> list[TopicShape]:
    """Make topics; those that were there after all (another daemon was quicker, or we were told late) are not in the answer."""
    if not missing:
        return []
    new = [
        NewTopic(
            shape.name,
            num_partitions=shape.partitions,
            replication_factor=shape.replication,
            config=dict(shape.settings),
        )
        for shape in missing
    ]
    made: list[TopicShape] = []
    refused: list[TopicShape] = []
    reason = ""
    created = client.create_topics(new, operation_timeout=timeout, request_timeout=timeout)
    for shape in missing:
        try:
            created[shape.name].result()
            made.append(shape)
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() in clients.REFUSED:
                refused.append(shape)
                reason = error.str()
            elif error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClusterUnavailableError(f"{shape.name} was not created: {error.str()}") from exception
    if refused:
        raise ClusterUnavailableError(refusal(refused, prefix, reason))
    return made


def _found(
    client: AdminClient, cluster: Any, shapes: Iterable[TopicShape], timeout: float, log: Any
) -> list[TopicShape]:
    resources = {shape.name: ConfigResource(ResourceType.TOPIC, shape.name) for shape in shapes}
    answers = client.describe_configs(list(resources.values()), request_timeout=timeout) if resources else {}
    found: list[TopicShape] = []
    for name, resource in resources.items():
        try:
            settings = {key: str(entry.value) for key, entry in answers[resource].result().items()}
        except KafkaException as exception:
            # Not to be allowed to look is no reason not to start.
            log.warning("topics.unchecked", topic=name, error=clients.kafka_error(exception).str())
            continue
        partitions = cluster.topics[name].partitions
        replication = min((len(one.replicas) for one in partitions.values()), default=0)
        found.append(
            TopicShape(name=name, partitions=len(partitions), replication=replication, settings=settings)
        )
    return found


def _await_leaders(
    client: AdminClient, client_config: Mapping[str, Any], names: Sequence[str], timeout: float
) -> Any:
    for attempt in _patiently(timeout):
        with attempt:
            cluster = clients.listed(client, client_config, timeout)
            known = cluster.topics
            for name in names:
                if name not in known or any(one.leader < 0 for one in known[name].partitions.values()):
                    raise _NotYetError(f"{name} was created but has no leaders")
    return cluster


def _await_everywhere(client_config: Mapping[str, Any], cluster: Any, names: Sequence[str], log: Any) -> None:
    """Wait until every broker knows the topics: what asks for them next may ask any."""
    for broker in cluster.brokers.values():
        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        config = {**client_config, "bootstrap.servers": f"{host}:{broker.port}"}
        try:
            _await_leaders(clients.admin(config), config, names, PROPAGATED_WITHIN)
        except ClusterUnavailableError as error:
            log.warning("topics.not_everywhere", broker=broker.id, error=str(error))
