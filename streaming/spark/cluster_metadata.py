"""Cluster metadata that the pipeline needs at its start, read with Spark's own Kafka client."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.streaming.errors import AccessDenied, ClusterUnreachable, PipelineError, TopicMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from levelwind.streaming.spark.settings import PipelineSettings

POLL_SECONDS = 0.2
"""Time between two looks for a topic that does not exist yet."""
BROKER_MESSAGE_BYTES = 1_000_000
"""Largest message that a topic takes by default, or a little less."""
BROKER_TOMBSTONES_MS = 86_400_000
"""Time for which a topic keeps its tombstones by default."""
RATED_MS, SHORTEST_RATED_MS = 86_400_000, 60_000
"""Longest and shortest time that the rate of a topic's records is the mean of."""
OFFSETS_TIMEOUT_MS = 3_000
"""Time for the answers of the leaders, of which some may be gone."""
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic, as Kafka's client writes it, on brokers that give none."""
PROBE_GROUP = "levelwind-pipeline"
"""A group that nobody joins: asking for its coordinator makes a new cluster create the offsets
topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster, and what the pipeline needs to know of some of its topics."""

    cluster_id: str
    partitions: Mapping[str, int]
    """Number of partitions by topic."""
    message_bytes: Mapping[str, int]
    """By topic that is written, the largest message that it takes."""
    tombstones_ms: Mapping[str, int]
    """By topic that is read, the time for which it keeps its tombstones, if it is compacted."""
    ids: Mapping[str, str]
    """Id of each topic, where the brokers give ids."""


class _ExistingTopic(NamedTuple):
    id: str
    partitions: int
    shows_settings: bool
    """Whether its settings may be asked for."""


def describe(
    spark: SparkSession, settings: PipelineSettings, topics: Mapping[str, str]
) -> ClusterDescription:
    """Describe the cluster and some of its topics, waiting for topics that do not exist yet.

    Args:
        spark: a session with the Kafka connector.
        settings: settings of the pipeline; `start_timeout` is for all topics to exist, too.
        topics: the operation that the pipeline does on each topic, by the topic's name.

    Raises:
        PipelineError: no answer in time, a topic that is missing, a right that is missing, or
            settings that the client refuses.
    """
    jvm = _jvm(spark)
    with _admin_client(spark, settings) as admin:
        cluster_id = _result(admin.describeCluster().clusterId())
        deadline = time.monotonic() + settings.start_timeout / 1000
        existing = {
            topic: _existing(admin, jvm, topic, operation, deadline)
            for topic, operation in topics.items()
        }
        read = [topic for topic, operation in topics.items() if operation == "READ"]
        return ClusterDescription(
            cluster_id=str(cluster_id),
            partitions={topic: found.partitions for topic, found in existing.items()},
            message_bytes={
                topic: _setting(admin, jvm, topic, "max.message.bytes", BROKER_MESSAGE_BYTES)
                for topic in topics
                if topic not in read
            },
            # No right is asked for that the pipeline can do without.
            tombstones_ms={
                topic: _setting(admin, jvm, topic, "delete.retention.ms", BROKER_TOMBSTONES_MS)
                if existing[topic].shows_settings
                else BROKER_TOMBSTONES_MS
                for topic in read
            },
            ids={topic: found.id for topic, found in existing.items() if found.id != NO_ID},
        )


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm  # noqa: SLF001 - pyspark has no other access to its JVM


@contextlib.contextmanager
def _admin_client(spark: SparkSession, settings: PipelineSettings) -> Iterator[Any]:
    """Make Kafka's admin client in the JVM, and close it.

    Raises:
        PipelineError: the client refuses its settings, or is not there.
    """
    jvm = _jvm(spark)
    properties = jvm.java.util.Properties()
    client = {
        "bootstrap.servers": settings.bootstrap,
        "default.api.timeout.ms": settings.start_timeout,
        "request.timeout.ms": settings.start_timeout,
        **settings.kafka,
    }
    for name, value in client.items():
        properties.setProperty(name, str(value))
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    except Py4JJavaError as error:
        raise PipelineError(
            f"the Kafka client refuses its settings: {_root_cause(error)}"
        ) from error
    except TypeError as error:  # py4j takes the name of a class that does not exist for a package
        raise PipelineError(
            "the Kafka client is not on Spark's class path: install levelwind's jars anew"
        ) from error
    try:
        yield admin
    finally:
        admin.close()


def _existing(admin: Any, jvm: Any, topic: str, operation: str, deadline: float) -> _ExistingTopic:
    """Describe a topic, and wait for it until `deadline` (monotonic).

    Raises:
        AccessDenied: the user may not do the operation.
    """
    names = jvm.java.util.ArrayList()
    names.add(topic)
    options = jvm.org.apache.kafka.clients.admin.DescribeTopicsOptions()
    options.includeAuthorizedOperations(True)
    while True:
        try:
            description = _result(admin.describeTopics(names, options).topicNameValues().get(topic))
        except TopicMissing:
            if time.monotonic() > deadline:
                raise TopicMissing(f"topic {topic} does not exist") from None
        except AccessDenied as error:
            raise _lacking(operation, topic, str(error)) from error
        else:
            listed = description.authorizedOperations()
            allowed = None if listed is None else {str(one) for one in listed}
            if allowed is not None and operation not in allowed:
                raise _lacking(operation, topic, "the brokers do not list it as allowed")
            return _ExistingTopic(
                id=str(description.topicId()),
                partitions=int(description.partitions().size()),
                shows_settings=allowed is None or "DESCRIBE_CONFIGS" in allowed,
            )
        if topic == OFFSETS_TOPIC:
            groups = jvm.java.util.ArrayList()
            groups.add(PROBE_GROUP)
            # Only the topic matters, which the request creates; its answer does not.
            with contextlib.suppress(PipelineError):
                _result(admin.describeConsumerGroups(groups).describedGroups().get(PROBE_GROUP))
        time.sleep(POLL_SECONDS)


def _setting(admin: Any, jvm: Any, topic: str, name: str, default: int) -> int:
    """A number among a topic's settings; the brokers' default where it may not be asked for."""
    kind = jvm.org.apache.kafka.common.config.ConfigResource.Type.TOPIC
    resource = jvm.org.apache.kafka.common.config.ConfigResource(kind, topic)
    resources = jvm.java.util.ArrayList()
    resources.add(resource)
    try:
        described = _result(admin.describeConfigs(resources).values().get(resource))
    except AccessDenied:
        return default
    entry = described.get(name)
    return default if entry is None else int(entry.value())


def records_per_second(spark: SparkSession, settings: PipelineSettings, partitions: int) -> float:
    """The rate at which the commits' topic grows.

    The mean of a day, or since its first record of that day, by offsets, which compaction does not
    change. A partition whose leader does not answer in `OFFSETS_TIMEOUT_MS` counts as idle.

    Args:
        spark: a session with the Kafka connector.
        settings: settings of the pipeline.
        partitions: the number of the topic's partitions.

    Raises:
        PipelineError: the client refuses its settings.
    """
    jvm, now = _jvm(spark), time.time() * 1000
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    ends, begins, asked = jvm.java.util.HashMap(), jvm.java.util.HashMap(), []
    for number in range(partitions):
        partition = jvm.org.apache.kafka.common.TopicPartition(settings.commits_topic, number)
        asked.append(partition)
        ends.put(partition, spec.latest())
        begins.put(partition, spec.forTimestamp(int(now - RATED_MS)))
    options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions().timeoutMs(OFFSETS_TIMEOUT_MS)
    rate = 0.0
    with _admin_client(spark, settings) as admin:
        answers = [admin.listOffsets(specs, options) for specs in (ends, begins)]
        for partition in asked:
            with contextlib.suppress(PipelineError):
                end, begin = (_result(answer.partitionResult(partition)) for answer in answers)
                if begin.offset() >= 0:  # else nothing was written in that time
                    lasted = max(now - begin.timestamp(), SHORTEST_RATED_MS)
                    rate += (end.offset() - begin.offset()) / lasted * 1000
    return rate


def first_offsets(
    spark: SparkSession, settings: PipelineSettings, partitions: Mapping[str, int], since: int
) -> dict[str, dict[int, int]]:
    """The offset of the first record of each partition since a time, by topic and partition.

    By the records' own times. A partition is left out that has no such record below the first
    open transaction, behind which nothing is compacted, or whose leader does not answer in
    `OFFSETS_TIMEOUT_MS`.

    Args:
        spark: a session with the Kafka connector.
        settings: settings of the pipeline.
        partitions: the number of partitions by topic; the topics may be read.
        since: the time, milliseconds since the epoch.

    Raises:
        PipelineError: the client refuses its settings.
    """
    jvm = _jvm(spark)
    classes = jvm.org.apache.kafka.clients.admin
    spec, asked = classes.OffsetSpec.forTimestamp(since), jvm.java.util.HashMap()
    named = {
        (topic, number): jvm.org.apache.kafka.common.TopicPartition(topic, number)
        for topic, count in partitions.items()
        for number in range(count)
    }
    for partition in named.values():
        asked.put(partition, spec)
    isolation = jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
    options = classes.ListOffsetsOptions(isolation).timeoutMs(OFFSETS_TIMEOUT_MS)
    found: dict[str, dict[int, int]] = {topic: {} for topic in partitions}
    with _admin_client(spark, settings) as admin:
        answer = admin.listOffsets(asked, options)
        for (topic, number), partition in named.items():
            with contextlib.suppress(PipelineError):
                offset = int(_result(answer.partitionResult(partition)).offset())
                if offset >= 0:
                    found[topic][number] = offset
    return found


def _lacking(operation: str, topic: str, reason: str) -> AccessDenied:
    return AccessDenied(
        f"the pipeline's user lacks {operation} on topic {topic}; `levelwind acls --role pipeline`"
        f" prints the commands that grant all rights ({reason})"
    )


def _result(future: Any) -> Any:
    """The result of a Kafka future; its error becomes a `PipelineError` by whose fault it is."""
    try:
        return future.get()
    except Py4JJavaError as error:
        reason = _root_cause(error)
        if "UnknownTopicOrPartition" in reason:
            raise TopicMissing(reason) from error
        if "Authorization" in reason or "Authentication" in reason:
            raise AccessDenied(reason) from error
        if "Timeout" in reason:
            raise ClusterUnreachable(reason) from error
        raise PipelineError(reason) from error


def _root_cause(error: Py4JJavaError) -> str:
    """The innermost cause of a Java exception, as text."""
    exception: Any = error.java_exception
    while exception.getCause() is not None:
        exception = exception.getCause()
    return str(exception.toString())
