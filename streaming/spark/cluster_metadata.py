"""What the pipeline must know of the cluster before it starts, asked through the Kafka client that Spark brings along."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from streaming.decoding.offsets_topic import TOPIC as OFFSETS_TOPIC
from streaming.errors import AccessDenied, ClusterUnreachable, PipelineError, TopicMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

POLL = 0.2
ASKED_GROUP = "levelwind-pipeline"
"""Never joined: its coordinator is asked for, which makes a new cluster create the offsets topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A cluster, and of some of its topics the numbers of partitions."""

    cluster_id: str
    partitions: Mapping[str, int]


def describe(
    spark: SparkSession,
    bootstrap: str,
    topics: Iterable[str],
    kafka: Mapping[str, str],
    timeout: int,
) -> Described:
    """Look at the topics; those that are not there yet are waited for, `timeout` milliseconds. Raises `PipelineError`."""
    jvm: Any = spark._jvm  # noqa: SLF001 - pyspark has no other door to its JVM
    properties = jvm.java.util.Properties()
    wait = str(timeout)
    settings = {
        "bootstrap.servers": bootstrap,
        "default.api.timeout.ms": wait,
        "request.timeout.ms": wait,
        **kafka,
    }
    for name, value in settings.items():
        properties.setProperty(name, str(value))
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    except Py4JJavaError as error:
        raise PipelineError(f"Kafka's client refuses its settings: {_root(error)}") from error
    try:
        cluster_id = _answer(admin.describeCluster().clusterId())
        deadline = time.monotonic() + timeout / 1000
        return Described(
            cluster_id=str(cluster_id),
            partitions={topic: _partitions(admin, jvm, topic, deadline) for topic in topics},
        )
    finally:
        admin.close()


def _partitions(admin: Any, jvm: Any, topic: str, deadline: float) -> int:
    names = jvm.java.util.ArrayList()
    names.add(topic)
    while True:
        try:
            return int(
                _answer(admin.describeTopics(names).topicNameValues().get(topic))
                .partitions()
                .size()
            )
        except TopicMissing:
            if time.monotonic() > deadline:
                raise TopicMissing(f"topic {topic} does not exist") from None
        if topic == OFFSETS_TOPIC:
            groups = jvm.java.util.ArrayList()
            groups.add(ASKED_GROUP)
            with contextlib.suppress(PipelineError):  # the topic is what is wanted, not the answer
                _answer(admin.describeConsumerGroups(groups).describedGroups().get(ASKED_GROUP))
        time.sleep(POLL)


def _answer(future: Any) -> Any:
    try:
        return future.get()
    except Py4JJavaError as error:
        reason = _root(error)
        if "UnknownTopicOrPartition" in reason:
            raise TopicMissing(reason) from error
        if "Authorization" in reason or "Authentication" in reason:
            raise AccessDenied(reason) from error
        if "Timeout" in reason:
            raise ClusterUnreachable(reason) from error
        raise PipelineError(reason) from error


def _root(error: Py4JJavaError) -> str:
    exception: Any = error.java_exception
    while exception.getCause() is not None:
        exception = exception.getCause()
    return str(exception.toString())
