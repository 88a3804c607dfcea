"""Our topics: made when they are missing, checked at every start, never silently altered.

What exists is the operator's: a topic that differs from its shape is said, difference by difference, and left
as it is. What is missing and may not be created ends the start with the commands that the operator needs.
`__consumer_offsets` is the cluster's own; it comes into being with the first look-up of a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from assignors.protocol.topics import TOPIC_KINDS
from daemon.errors import ClusterUnavailableError
from daemon.kafka import clients
from daemon.kafka.topic_specs import (
    TopicSpec,
    differences,
    refusal,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignors.protocol.topics import Topics
    from daemon.kafka.topic_specs import TopicSettings

CONSUMER_OFFSETS = "__consumer_offsets"
PROPAGATED_WITHIN = 10.0
"""Seconds until a broker that has not heard of new topics is left behind, with a word."""


def ensure_topics(
    client_config: Mapping[str, Any], topics: Topics, settings: TopicSettings, log: Any
) -> dict[str, int]:
    """Make the topics that are missing, say how the others differ, and tell how many partitions each has, by name.

    Raises:
        ClusterUnavailableError: no answer in time, or no right to make what is missing.
    """
    client = clients.admin(client_config)
    # Asked first, and not only for the answer: it also tells the client which broker takes requests to create. One that
    # it learned of earlier may be gone, and librdkafka would wait for it.
    cluster = clients.list_topics(client, client_config, settings.timeout)
    shapes = wanted(topics, settings, len(cluster.brokers))
    missing = tuple(shape for shape in shapes if shape.name not in cluster.topics)
    created = _create(client, missing, topics.prefix, settings.timeout)
    for shape in created:
        log.info(
            "topics.created",
            topic=shape.name,
            partitions=shape.partitions,
            replication=shape.replication,
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
                "topics.drifted",
                topic=one.topic,
                setting=one.setting,
                expected=one.expected,
                found=one.found,
            )
    return _counts(cluster, topics)


def partition_counts(
    client_config: Mapping[str, Any], topics: Topics, settings: TopicSettings
) -> dict[str, int]:
    """Tell how many partitions those of our topics have that are there, by name; it may be another number than the settings'.

    Raises:
        ClusterUnavailableError: no answer in time.
    """
    return _counts(
        clients.list_topics(clients.admin(client_config), client_config, settings.timeout), topics
    )


def _counts(cluster: Any, topics: Topics) -> dict[str, int]:
    known = cluster.topics
    names = [topics.name(kind) for kind in TOPIC_KINDS if topics.name(kind) in known]
    return {name: len(known[name].partitions) for name in names}


def ensure_offsets_topic(
    client_config: Mapping[str, Any], settings: TopicSettings, group: str
) -> int:
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
                found = clients.list_topics(asking, client_config, settings.timeout).topics.get(
                    CONSUMER_OFFSETS
                )
                if found is None or not found.partitions:
                    raise _NotYetError(
                        f"{CONSUMER_OFFSETS} is not there, or may not be described by us"
                    )
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
        if error.code() in clients.AUTHORIZATION_ERRORS:
            raise ClusterUnavailableError(
                f"no right to describe the group {group}: {error.str()}"
            ) from exception
        raise _NotYetError(f"no coordinator for the group {group}: {error.str()}") from exception


def _create(
    client: AdminClient, missing: Sequence[TopicSpec], prefix: str, timeout: float
) -> list[TopicSpec]:
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
    made: list[TopicSpec] = []
    refused: list[TopicSpec] = []
    reason = ""
    created = client.create_topics(new, operation_timeout=timeout, request_timeout=timeout)
    for shape in missing:
        try:
            created[shape.name].result()
            made.append(shape)
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() in clients.AUTHORIZATION_ERRORS:
                refused.append(shape)
                reason = error.str()
            elif error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClusterUnavailableError(
                    f"{shape.name} was not created: {error.str()}"
                ) from exception
    if refused:
        raise ClusterUnavailableError(refusal(refused, prefix, reason))
    return made


def _found(
    client: AdminClient, cluster: Any, shapes: Iterable[TopicSpec], timeout: float, log: Any
) -> list[TopicSpec]:
    resources = {shape.name: ConfigResource(ResourceType.TOPIC, shape.name) for shape in shapes}
    answers = (
        client.describe_configs(list(resources.values()), request_timeout=timeout)
        if resources
        else {}
    )
    found: list[TopicSpec] = []
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
            TopicSpec(
                name=name, partitions=len(partitions), replication=replication, settings=settings
            )
        )
    return found


def _await_leaders(
    client: AdminClient, client_config: Mapping[str, Any], names: Sequence[str], timeout: float
) -> Any:
    for attempt in _patiently(timeout):
        with attempt:
            cluster = clients.list_topics(client, client_config, timeout)
            known = cluster.topics
            for name in names:
                if name not in known or any(
                    one.leader < 0 for one in known[name].partitions.values()
                ):
                    raise _NotYetError(f"{name} was created but has no leaders")
    return cluster


def _await_everywhere(
    client_config: Mapping[str, Any], cluster: Any, names: Sequence[str], log: Any
) -> None:
    """Wait until every broker knows the topics: what asks for them next may ask any."""
    for broker in cluster.brokers.values():
        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        config = {**client_config, "bootstrap.servers": f"{host}:{broker.port}"}
        try:
            _await_leaders(clients.admin(config), config, names, PROPAGATED_WITHIN)
        except ClusterUnavailableError as error:
            log.warning("topics.not_propagated", broker=broker.id, error=str(error))
