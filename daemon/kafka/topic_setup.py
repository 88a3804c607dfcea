"""Setup of levelwind's topics: created when missing, checked at every start, never altered.

Existing topics belong to the operator: each difference from the specification is logged, and the
topic stays as it is. Where a missing topic may not be created, the start ends with the commands
that the operator needs. `__consumer_offsets` belongs to the cluster, which creates it when a
group is looked up for the first time.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, TOPIC_KINDS
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.topic_specs import (
    FUTURE,
    TopicSpec,
    differences,
    expected_topics,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.kafka.topic_specs import TopicSettings

PROPAGATION_TIMEOUT_SECONDS = 10.0
"""Longest wait of the start until a broker knows new topics; then it logs a warning and goes on."""


def ensure_topics(
    client_config: Mapping[str, Any],
    topics: Topics,
    settings: TopicSettings,
    log: Any,
    *,
    polled: bool = False,
) -> dict[str, int]:
    """Create missing topics and log how the others differ from their specification.

    Args:
        client_config: the clients' configuration.
        topics: the names of the topics.
        settings: their numbers of partitions and replicas, and the time-out.
        log: the logger.
        polled: whether commits are polled, which needs a topic for them.

    Returns:
        The number of partitions of each topic, by name.

    Raises:
        ClusterUnavailableError: no answer in time, or no right to create a missing topic.
    """
    client = clients.admin(client_config)
    # This also tells the client which broker takes requests to create topics. The broker that the
    # client knew before may be gone, and librdkafka would wait for that one.
    cluster = clients.list_topics(client, client_config, settings.timeout)
    specs = expected_topics(topics, settings, len(cluster.brokers), polled=polled)
    missing = tuple(spec for spec in specs if spec.name not in cluster.topics)
    created = _create(client, missing, topics.prefix, settings.timeout)
    for spec in created:
        log.info(
            "topics.created",
            topic=spec.name,
            partitions=spec.partitions,
            replication=spec.replication,
        )
    if missing:
        names = [spec.name for spec in missing]
        cluster = _await_leaders(client_config, names, settings.timeout)
        _await_propagation(client_config, cluster, names, log)
    made = {spec.name for spec in created}
    existing = tuple(spec for spec in specs if spec.name not in made)
    for found in _describe(client, cluster, existing, settings.timeout, log):
        expected = next(spec for spec in existing if spec.name == found.name)
        for difference in differences(expected, found):
            log.warning(
                "topics.drifted",
                topic=difference.topic,
                setting=difference.setting,
                expected=difference.expected,
                found=difference.found,
            )
    return {spec.name: len(cluster.topics[spec.name].partitions) for spec in specs}


def partition_counts(
    client_config: Mapping[str, Any], topics: Topics, settings: TopicSettings
) -> dict[str, int]:
    """Return the number of partitions of each of levelwind's topics that exists, by name.

    A topic that was created before may have another number than the settings.

    Raises:
        ClusterUnavailableError: no answer in time.
    """
    client = clients.admin(client_config)
    listed = clients.list_topics(client, client_config, settings.timeout).topics
    names = [topics.name(kind) for kind in TOPIC_KINDS if topics.name(kind) in listed]
    return {name: len(listed[name].partitions) for name in names}


def ensure_offsets_topic(
    client_config: Mapping[str, Any], settings: TopicSettings, group: str
) -> int:
    """Make sure that `__consumer_offsets` exists, and return its number of partitions.

    Args:
        client_config: the clients' configuration.
        settings: for the time-out.
        group: any group that the daemon may describe; it need not exist, and is not created.

    Raises:
        NotShownError: no right to describe the topic.
        ClusterUnavailableError: no answer in time, or no right to describe the group.
    """
    # A consumer, though nothing is consumed: librdkafka's admin requests to a group's coordinator
    # end the whole process by a failed assertion when the coordinator moves meanwhile (its issue
    # 4605), as it does while the topic is created.
    errors: list[KafkaError] = []
    required = {"group.id": group, "enable.auto.commit": False, "error_cb": errors.append}
    with closing(clients.consumer(client_config, required)) as consumer:
        for attempt in clients.retrying(NotYetError, settings.timeout):
            with attempt:
                _look_up(consumer, group, min(settings.timeout, 5.0), errors)
                found = clients.list_topics(consumer, client_config, settings.timeout).topics.get(
                    OFFSETS_TOPIC
                )
                if found is None or not found.partitions:
                    # Its partitions' leaders are the coordinators, and one has answered.
                    raise NotShownError(f"this user lacks DESCRIBE on topic {OFFSETS_TOPIC}")
    return len(found.partitions)


class NotYetError(ClusterUnavailableError):
    """A topic or a coordinator is not there yet: worth a retry until the timeout."""


class NotShownError(NotYetError):
    """The brokers show no such topic, though what they answered shows that it exists."""


def _look_up(consumer: Consumer, group: str, timeout: float, errors: Sequence[KafkaError]) -> None:
    try:
        consumer.committed([TopicPartition(OFFSETS_TOPIC, 0)], timeout=timeout)
    except KafkaException as exception:
        message = consumer.poll(0)  # without the right the call only times out; the client says why
        polled = [] if message is None else [message.error()]
        refused = [
            error
            for error in (*errors, *polled)
            if error is not None and error.code() in clients.AUTHORIZATION_ERRORS
        ]
        error = refused[0] if refused else clients.kafka_error(exception)
        if error.code() in clients.AUTHORIZATION_ERRORS:
            raise ClusterUnavailableError(
                f"this user lacks DESCRIBE on group {group}: {error.str()}"
            ) from exception
        raise NotYetError(f"no coordinator for the group {group}: {error.str()}") from exception


def _create(
    client: AdminClient, missing: Sequence[TopicSpec], prefix: str, timeout: float
) -> list[TopicSpec]:
    """Create topics, and return those that this call created.

    A topic may exist after all: another daemon was quicker, or the client's metadata was old.
    Brokers that refuse the settings are asked without the newest one.
    """
    if not missing:
        return []
    new = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=spec.replication,
            config=dict(spec.settings),
        )
        for spec in missing
    ]
    created: list[TopicSpec] = []
    refused: list[TopicSpec] = []
    simpler: list[TopicSpec] = []
    reason = ""
    answers = client.create_topics(new, operation_timeout=timeout, request_timeout=timeout)
    for spec in missing:
        try:
            answers[spec.name].result()
            created.append(spec)
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() in clients.AUTHORIZATION_ERRORS:
                refused.append(spec)
                reason = error.str()
            elif error.code() == KafkaError.INVALID_CONFIG and FUTURE in spec.settings:
                known = {key: value for key, value in spec.settings.items() if key != FUTURE}
                simpler.append(replace(spec, settings=known))
            elif error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ClusterUnavailableError(
                    f"{spec.name} was not created: {error.str()}"
                ) from exception
    if refused:
        raise ClusterUnavailableError(refusal(refused, prefix, reason))
    return [*created, *_create(client, simpler, prefix, timeout)]


def _describe(
    client: AdminClient, cluster: Any, specs: Iterable[TopicSpec], timeout: float, log: Any
) -> list[TopicSpec]:
    resources = {spec.name: ConfigResource(ResourceType.TOPIC, spec.name) for spec in specs}
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
            # The daemon works without the right to read this configuration.
            log.warning("topics.unchecked", topic=name, error=clients.kafka_error(exception).str())
            continue
        partitions = cluster.topics[name].partitions
        replication = min((len(partition.replicas) for partition in partitions.values()), default=0)
        found.append(
            TopicSpec(
                name=name, partitions=len(partitions), replication=replication, settings=settings
            )
        )
    return found


def _await_leaders(client_config: Mapping[str, Any], names: Sequence[str], timeout: float) -> Any:
    """Wait until the broker that a client asks first knows the leaders; return what it says."""
    for attempt in clients.retrying(NotYetError, timeout):
        with attempt:
            # A client that has had an answer may ask any broker that it knows now.
            client = clients.admin(client_config)
            cluster = clients.list_topics(client, client_config, timeout)
            client.poll(0)
            for name in names:
                topic = cluster.topics.get(name)
                if topic is None or any(p.leader < 0 for p in topic.partitions.values()):
                    raise NotYetError(f"{name} was created but has no leaders")
    return cluster


def _await_propagation(
    client_config: Mapping[str, Any], cluster: Any, names: Sequence[str], log: Any
) -> None:
    """Wait until every broker knows the topics, since later requests may go to any of them."""
    for broker in cluster.brokers.values():
        host = f"[{broker.host}]" if ":" in broker.host else broker.host
        config = {**client_config, "bootstrap.servers": f"{host}:{broker.port}"}
        try:
            _await_leaders(config, names, PROPAGATION_TIMEOUT_SECONDS)
        except ClusterUnavailableError as error:
            log.warning("topics.not_propagated", broker=broker.id, error=str(error))
