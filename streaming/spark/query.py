"""The query: Kafka → decoded and packed → by topic → by group → Kafka.

Spark keeps its state, and other packages hold its rules. Every step is DataFrame → DataFrame; only
`source` and `start` know that the data is a stream.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from levelwind.assignors.protocol.topics import LARGEST_WIDE_BYTES
from levelwind.streaming.bucket.state import VALUES
from levelwind.streaming.decoding import ingest
from levelwind.streaming.errors import PipelineError
from levelwind.streaming.messages.buckets import DEFAULT_BUCKETS
from levelwind.streaming.messages.rows import NO_TOPIC
from levelwind.streaming.output import OutputTopics
from levelwind.streaming.sized_output import ENVELOPE_BYTES, SHARDS
from levelwind.streaming.spark import checkpoint, cluster_metadata, session
from levelwind.streaming.spark.batches import progress
from levelwind.streaming.spark.batches.batch_clock import BatchClock
from levelwind.streaming.spark.batches.listener import query_listener
from levelwind.streaming.spark.batches.progress import Progress
from levelwind.streaming.spark.checkpoint import CheckpointShape, TombstoneLife
from levelwind.streaming.spark.processors import GroupProcessor, TopicProcessor
from levelwind.streaming.spark.schemas import KAFKA_COLUMNS, PACKED, ROWS, SINK
from levelwind.streaming.spark.settings import SEVERAL_TASKS
from levelwind.streaming.spark.store.batch_offsets import OFFSETS, OffsetsFiles
from levelwind.streaming.spark.store.hadoop_files import open_files
from levelwind.streaming.spark.store.offsets_server import OffsetsServer
from levelwind.streaming.topic.state import LagRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.streaming.rules.skew import SkewRule
    from levelwind.streaming.spark.batches.progress import QueryNews
    from levelwind.streaming.spark.checkpoint import Checkpoint, SetAside
    from levelwind.streaming.spark.cluster_metadata import ClusterDescription
    from levelwind.streaming.spark.settings import PipelineSettings
    from levelwind.streaming.spark.store.batch_offsets import OffsetsLog
    from levelwind.streaming.spark.store.checkpoint_files import CheckpointFiles

BUSY = 5_000
"""Commits a second, in the mean of a day, from which on several tasks do the work.

One takes less CPU and memory, and shows lag as soon, up to four times as many; in bursts of ten
times as many lag comes later."""
MAX_DECODED_RECORDS = 100_000
MAX_DECODED_BYTES = 256 * 2**20
"""Limits of what is decoded together: commits of one topic are then one row for its operator."""
EARLIEST, LATEST = -2, -1
"""Spark's numbers for the beginning and the end of a partition, as starting offsets."""
READ_DEFAULTS = {
    "isolation.level": "read_committed",  # aborted transactional commits do not count
    # Spark keeps the last poll of each partition, read or not.
    "max.poll.records": "2000",
    # After each poll Spark asks the broker for the partition's ends, on the connection on which the
    # client has just asked for the next records: the broker answers only once it waited for these.
    "fetch.max.wait.ms": "1",
}
WRITE_DEFAULTS = {
    "batch.size": str(256 * 1024),
    "max.request.size": str(LARGEST_WIDE_BYTES + 2**20),
    "buffer.memory": str(32 * 2**20),
}
"""By default a request takes 16 KiB for a partition, which are four lag records, and 1 MiB in all.
"""
WRITE_LIMITS = ("max.request.size", "buffer.memory")
"""Settings of the producer that no message may exceed."""


def pack(records: DataFrame, topics: Topics, buckets: int = DEFAULT_BUCKETS) -> DataFrame:
    """Turn Kafka's records into rows for the operators, and count rejected and skipped ones."""
    schema = to_arrow_schema(PACKED)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _joined_batches(batches):
            records = ingest.read_batch(batch)
            packed = ingest.pack_batch(records, topics, buckets)
            if records.timestamp.size:
                newest = int(records.timestamp.max())
                packed.add_count(progress.NEWEST, newest)
            if packed.followed:
                packed.add_count(progress.FOLLOWED, packed.followed)
            yield pa.RecordBatch.from_pydict(
                {name: getattr(packed, name) for name in PACKED.fieldNames()},
                schema=schema,
            )

    packed = records.mapInArrow(decode, PACKED)
    counted = packed.observe(progress.COUNTS, _counts())
    return counted.where(sql.length("payload") > 0).select(*ROWS.fieldNames())


def _joined_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches to larger ones: Spark's are small, as `session` has it limit them by records."""
    waiting: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        waiting.append(batch)
        records += batch.num_rows
        size += batch.nbytes
        if records >= MAX_DECODED_RECORDS or size >= MAX_DECODED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, records, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _counts() -> Column:
    """All counts as one column.

    Spark plans every batch from scratch, so a column for each count would cost time in each.
    """
    return sql.collect_list(
        sql.when(sql.col("reason").isNotNull(), sql.struct(sql.col("reason"), sql.col("n")))
    ).alias(progress.COUNTS)


def by_topic(
    rows: DataFrame,
    rule: LagRule,
    log: OffsetsLog | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> DataFrame:
    """Apply rows to the states of their topics, giving rows for groups.

    Args:
        rows: rows for the operators.
        rule: how lag is counted.
        log: Spark's log of offsets, for `batch_offsets`; None: no end offsets.
        buckets: the number of buckets that the topics and the groups are in.
    """
    return rows.groupBy("state_key").transformWithState(
        statefulProcessor=TopicProcessor(rule, buckets, log),
        outputStructType=ROWS,
        outputMode="Update",
        timeMode="None",
    )


def by_group(rows: DataFrame, rule: SkewRule, topics: Topics, outputs: OutputTopics) -> DataFrame:
    """Apply rows to the states of their groups, giving records to publish."""
    records = rows.groupBy("state_key").transformWithState(
        statefulProcessor=GroupProcessor((*VALUES, SHARDS), rule, topics, outputs),
        outputStructType=SINK,
        outputMode="Update",
        timeMode="None",
    )
    is_record = sql.col("topic") != NO_TOPIC
    at_stake = sql.count_if(~is_record).alias(progress.AT_STAKE)
    return records.observe(progress.AT_STAKE, at_stake).where(is_record)


def source(
    spark: SparkSession,
    settings: PipelineSettings,
    partitions: Mapping[str, int],
    parallelism: int,
) -> DataFrame:
    """Read all partitions of some topics from their beginning, replays from now on.

    A query with a new checkpoint reads the original records anyway. An old replay could bring back
    a record that was deleted since, as nothing in the new state would show that it is outdated.

    Partitions are assigned by number: under `subscribe` Spark's driver would join a group, and
    write its membership into the very topic that is read.

    Args:
        spark: a session with the Kafka connector.
        settings: settings of the pipeline.
        partitions: numbers of partitions, by topic.
        parallelism: number of tasks that read.
    """
    assigned = {topic: list(range(count)) for topic, count in partitions.items()}
    starting_offsets = {
        topic: dict.fromkeys(
            map(str, numbers), LATEST if topic == settings.topics.replays else EARLIEST
        )
        for topic, numbers in assigned.items()
    }
    # Columns are selected before partitions are joined, so Spark copies a record once, not twice.
    return (
        spark.readStream.format("kafka")
        .options(**_kafka_options(READ_DEFAULTS, settings))
        .option("kafka.bootstrap.servers", settings.bootstrap)
        # Spark's consumers join no group, but ask for one's commits, to which they need a right.
        .option("groupIdPrefix", f"{settings.prefix}pipeline")
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starting_offsets))
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
        .selectExpr(*KAFKA_COLUMNS)
        .coalesce(parallelism)
    )


def _kafka_options(defaults: Mapping[str, str], settings: PipelineSettings) -> dict[str, str]:
    """Settings of Kafka's clients under the names that Spark has for them."""
    return {f"kafka.{name}": value for name, value in {**defaults, **settings.kafka}.items()}


def _writer(settings: PipelineSettings, message_bytes: Mapping[str, int]) -> dict[str, str]:
    """Settings of the producer.

    No batch is larger than each topic takes: the client splits one that was refused into batches of
    its own size, which are refused again until their time is over.

    Args:
        settings: settings of the pipeline.
        message_bytes: the largest message by topic that is written; the limit is that of batches.
    """
    writer = WRITE_DEFAULTS | {name: str(value) for name, value in settings.kafka.items()}
    batch = min(int(writer["batch.size"]), *message_bytes.values())
    return writer | {"batch.size": str(batch)}


def _offsets_log(
    spark: SparkSession, files: CheckpointFiles, prepared: Checkpoint, port: int
) -> OffsetsLog:
    """Spark's log of offsets, as the tasks read it wherever they run.

    Raises:
        PipelineError: the driver cannot listen for their questions.
    """
    if prepared.query is not None and not session.is_everywhere(spark):
        return OffsetsFiles(prepared.query)
    settings = spark.sparkContext.getConf()
    host = settings.get("spark.driver.host")
    bind = settings.get("spark.driver.bindAddress", host)

    def entry(batch: int) -> bytes | None:
        return files.read(f"{prepared.name}/{OFFSETS}/{batch}")

    try:
        return OffsetsServer(entry, bind=bind, host=host, port=port).log
    except OSError as error:
        raise PipelineError(
            f"the driver cannot listen at {bind}:{port} for the questions of its executors:"
            f" {error.strerror or error} (settings pipeline.driver_port, spark.driver.bindAddress)"
        ) from error


def _parallelism(
    spark: SparkSession,
    settings: PipelineSettings,
    files: CheckpointFiles,
    shape: CheckpointShape,
    life: TombstoneLife,
    partitions: Mapping[str, int],
) -> int:
    """The number of tasks: by the setting, else that of the state, else by what is committed.

    A state keeps its number, since with another one it would be built anew: after a crash, when
    lag is waited for most. With one task a batch is one stage: nothing is shuffled, and each
    worker and state store is there once.
    """
    if settings.parallelism:
        return settings.parallelism
    if kept := checkpoint.kept_parallelism(files, shape, life):
        return kept
    if session.is_everywhere(spark):
        return SEVERAL_TASKS
    of_commits = partitions[settings.commits_topic]
    rate = cluster_metadata.records_per_second(spark, settings, of_commits)
    return SEVERAL_TASKS if rate >= BUSY else 1


def _tombstone_life(
    spark: SparkSession,
    settings: PipelineSettings,
    cluster: ClusterDescription,
    compacted: Sequence[str],
    now: datetime,
) -> TombstoneLife:
    """The life of the tombstones of the compacted topics."""
    life = TombstoneLife(
        at=round(now.timestamp() * 1000),
        ms=min(cluster.tombstones_ms[topic] for topic in compacted),
        batch_limit=settings.max_offsets_per_trigger,
    )
    partitions = {topic: cluster.partitions[topic] for topic in compacted}
    first = cluster_metadata.first_offsets(spark, settings, partitions, life.since)
    return replace(life, first=first)


def start(
    spark: SparkSession,
    settings: PipelineSettings,
    on_progress: Callable[[QueryNews], None] | None = None,
    on_set_aside: Callable[[SetAside], None] | None = None,
    written_before: Mapping[str, int] | None = None,
    files: CheckpointFiles | None = None,
    is_watched: Callable[[], bool] = lambda: False,
) -> StreamingQuery:
    """Start the query, from its checkpoint if there is one that can be used.

    Args:
        spark: a session of `session.create`.
        settings: settings of the pipeline.
        on_progress: as for `listener.query_listener`.
        on_set_aside: called with a checkpoint that could not be used.
        written_before: ends of the topics that the query writes, for `checkpoint.unverified`.
        files: the files of the checkpoint; None: opened by the settings.
        is_watched: whether somebody watches what the query publishes; called after each batch.

    Raises:
        PipelineError: the cluster cannot be reached, or lacks a topic.
    """
    topics = settings.topics
    compacted = (settings.commits_topic, topics.metadata, topics.assignments)
    read = (*compacted, topics.replays)
    written = (topics.lag, topics.triggers, topics.dead_letters)
    files = files or open_files(spark, settings.checkpoint)
    operations = dict.fromkeys(read, "READ") | dict.fromkeys(written, "WRITE")
    cluster = cluster_metadata.describe(spark, settings, operations)
    known_by_id = (*read, topics.lag, topics.triggers)
    shape = CheckpointShape(
        cluster_id=cluster.cluster_id,
        prefix=settings.prefix,
        commits=settings.commits_topic,
        topics={name: cluster.ids[name] for name in known_by_id if name in cluster.ids},
    )
    now = datetime.now(UTC)
    life = _tombstone_life(spark, settings, cluster, compacted, now)
    parallelism = _parallelism(spark, settings, files, shape, life, cluster.partitions)
    shape = replace(shape, parallelism=parallelism)
    prepared = checkpoint.prepare(
        files,
        shape,
        now=now.strftime("%Y%m%dT%H%M%SZ"),
        written=written_before,
        life=life,
    )
    if prepared.set_aside is not None and on_set_aside is not None:
        on_set_aside(prepared.set_aside)
    name = f"{settings.prefix}pipeline"
    clock = BatchClock(settings.cadence, is_watched)

    def on_news(news: QueryNews) -> None:
        if isinstance(news, Progress):
            clock.on_batch(news)
        if on_progress is not None:
            on_progress(news)

    spark.streams.addListener(query_listener(on_news, name, frozenset(ingest.REASONS)))
    writer = _writer(settings, cluster.message_bytes)
    outputs = OutputTopics(
        topics=topics,
        lag=cluster.partitions[topics.lag],
        triggers=cluster.partitions[topics.triggers],
        dead_letters=cluster.partitions[topics.dead_letters],
        most_bytes={
            topic: min(cluster.message_bytes[topic], *(int(writer[name]) for name in WRITE_LIMITS))
            - ENVELOPE_BYTES
            for topic in written
        },
    )
    if spark.sparkContext.getConf().get(session.STATE_PARTITIONS) is None:
        spark.conf.set(session.STATE_PARTITIONS, parallelism)
    # A bucket for each task: see `messages.buckets`.
    buckets = parallelism
    partitions = {topic: cluster.partitions[topic] for topic in read}
    rows = pack(source(spark, settings, partitions, parallelism), topics, buckets)
    lag_rule = LagRule(
        end_kind=settings.end_kind,
        reset=settings.reset_policy,
        group_resets=settings.group_reset_policies,
        commits_topic=settings.commits_topic,
    )
    log = _offsets_log(spark, files, prepared, settings.driver_port)
    rows = by_topic(rows, lag_rule, log, buckets)
    if parallelism == 1:
        # Spark does not see that all rows are in one partition, and would shuffle them into one.
        rows = rows.coalesce(1)
    records = by_group(rows, settings.skew, topics, outputs)
    query: StreamingQuery = (
        records.writeStream.format("kafka")
        .queryName(name)
        .outputMode("update")
        .options(**{f"kafka.{name}": value for name, value in writer.items()})
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("checkpointLocation", prepared.location)
        .trigger(processingTime=f"{settings.trigger_interval} milliseconds")
        .start()
    )
    if 0 < settings.trigger_interval < settings.calm_interval:
        clock.pace(query)
    return query
