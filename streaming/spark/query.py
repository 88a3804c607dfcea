"""The query: Kafka → decoded and packed → by topic → by group → Kafka. Its state is Spark's; its rules are elsewhere.

Every step is DataFrame → DataFrame; only `source` and `start` know that data streams.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql

from streaming.decoding import ingest, offsets_topic
from streaming.messages.rows import (
    PASS_THROUGH_PREFIX,
    Kind,
)
from streaming.output import OutputTopics
from streaming.spark import checkpoint, cluster_metadata, progress
from streaming.spark.listener import query_listener
from streaming.spark.processors import (
    GroupProcessor,
    TopicProcessor,
)
from streaming.spark.schemas import (
    KAFKA_COLUMNS,
    PACKED,
    ROWS,
    SINK,
    Kafka,
)
from streaming.topic.state import LagRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from assignors.protocol.topics import Topics
    from streaming.rules.skew import SkewRule
    from streaming.spark.checkpoint import SetAside
    from streaming.spark.progress import (
        Progress,
        Terminated,
    )
    from streaming.spark.settings import PipelineSettings

RECORDS_AT_ONCE = 100_000
BYTES_AT_ONCE = 256 * 2**20
"""So much is decoded together: what is said of one topic then is one row for its operator."""
EARLIEST, LATEST = -2, -1
"""Spark's words for where a partition is read from."""
READ_DEFAULTS = {
    "isolation.level": "read_committed",  # aborted transactional commits never were
    "max.poll.records": "10000",
    "fetch.max.wait.ms": "20",
}


def pack(records: DataFrame, topics: Topics) -> DataFrame:
    """Kafka's records as rows for the operators, and what was rejected or skipped, counted."""
    names = {
        name: getattr(Kafka, name)
        for name in ("topic", "partition", "offset", "timestamp", "key", "value")
    }

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _together(batches):
            records = ingest.read_batch(batch, names)
            packed = ingest.pack_batch(records, topics)
            if records.timestamp.size:
                newest = int(records.timestamp.max())
                packed.add(PASS_THROUGH_PREFIX, Kind.SKIPPED, b"", reason=progress.NEWEST, n=newest)
            yield pa.RecordBatch.from_pydict(
                {name: getattr(packed, name) for name in PACKED.fieldNames()},
                schema=_arrow_schema(),
            )

    packed = records.mapInArrow(decode, PACKED)
    counted = packed.observe(progress.COUNTS, _counts())
    return counted.where(sql.length("payload") > 0).select(*ROWS.fieldNames())


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches joined to larger ones; Spark's are small, since it may not look at their size."""
    waiting: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        waiting.append(batch)
        records += batch.num_rows
        size += batch.nbytes
        if records >= RECORDS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting, records, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _counts() -> Column:
    """All that is counted, as one column, not one for each: Spark plans each batch anew, with all its expressions."""
    return sql.collect_list(
        sql.when(sql.col("reason").isNotNull(), sql.struct(sql.col("reason"), sql.col("n")))
    ).alias(progress.COUNTS)


def _arrow_schema() -> pa.Schema:
    return pa.schema(
        [
            ("state_key", pa.string()),
            ("kind", pa.int32()),
            ("payload", pa.binary()),
            ("reason", pa.string()),
            ("n", pa.int64()),
        ]
    )


def by_topic(rows: DataFrame, rule: LagRule, query: Path | None = None) -> DataFrame:
    """Topics' rows into their state, and out come rows for groups; `query` is the checkpoint."""
    return rows.groupBy("state_key").transformWithState(
        statefulProcessor=TopicProcessor(rule, query),
        outputStructType=ROWS,
        outputMode="Update",
        timeMode="None",
    )


def by_group(rows: DataFrame, rule: SkewRule, topics: Topics, outputs: OutputTopics) -> DataFrame:
    """Groups' rows into their state, and out come records to publish."""
    return rows.groupBy("state_key").transformWithState(
        statefulProcessor=GroupProcessor(rule, topics, outputs),
        outputStructType=SINK,
        outputMode="Update",
        timeMode="None",
    )


def source(
    spark: SparkSession, settings: PipelineSettings, partitions: Mapping[str, int]
) -> DataFrame:
    """The records of all partitions of some topics, from their beginning.

    Of replays only what comes from now on: a query that begins anew reads the records themselves, and to an old replay of
    one that has gone since nothing would be there to tell it so.

    Partitions are assigned by number: under `subscribe` Spark's driver would join a group, and write its membership into
    the very topic that is read.
    """
    assigned = {topic: list(range(count)) for topic, count in partitions.items()}
    first = {
        topic: dict.fromkeys(
            map(str, numbers), LATEST if topic == settings.topics.replays else EARLIEST
        )
        for topic, numbers in assigned.items()
    }
    kafka = {
        f"kafka.{name}": value for name, value in (READ_DEFAULTS | dict(settings.kafka)).items()
    }
    # The columns are chosen before the partitions are joined: so Spark copies each record once, not twice.
    return (
        spark.readStream.format("kafka")
        .options(**kafka)
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(first))
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
        .selectExpr(*KAFKA_COLUMNS)
        .coalesce(settings.parallelism)
    )


def start(
    spark: SparkSession,
    settings: PipelineSettings,
    on_progress: Callable[[Progress | Terminated], None] | None = None,
    on_set_aside: Callable[[SetAside], None] | None = None,
    written_before: Mapping[str, int] | None = None,
) -> StreamingQuery:
    """Begin, or go on from the checkpoint.

    Args:
        spark: a session of `session.create`.
        settings: what the pipeline depends on.
        on_progress: told of each batch and of the end, in a thread of Spark's; must not block.
        on_set_aside: told of a checkpoint that could not be gone on from.
        written_before: where the topics that it writes end, for `checkpoint.unverified`.

    Raises:
        PipelineError: the cluster cannot be reached, or lacks a topic.
    """
    topics = settings.topics
    read = (offsets_topic.TOPIC, topics.metadata, topics.assignments, topics.replays)
    written = (topics.lag, topics.triggers, topics.dead_letters)
    cluster = cluster_metadata.describe(
        spark, settings.bootstrap, (*read, *written), settings.kafka, settings.start_timeout
    )
    shape = checkpoint.Shape(cluster_id=cluster.cluster_id, prefix=settings.prefix)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    prepared = checkpoint.prepare(settings.checkpoint, shape, now=now, written=written_before)
    if prepared.set_aside is not None and on_set_aside is not None:
        on_set_aside(prepared.set_aside)
    name = f"{settings.prefix}pipeline"
    if on_progress is not None:
        spark.streams.addListener(query_listener(on_progress, name, frozenset(ingest.REASONS)))
    outputs = OutputTopics(
        topics=topics,
        lag=cluster.partitions[topics.lag],
        triggers=cluster.partitions[topics.triggers],
        dead_letters=cluster.partitions[topics.dead_letters],
    )
    rows = pack(
        source(spark, settings, {topic: cluster.partitions[topic] for topic in read}), topics
    )
    rows = by_topic(
        rows, LagRule(end_kind=settings.end_kind, reset=settings.reset_policy), prepared.query
    )
    records = by_group(rows, settings.skew, topics, outputs)
    return (
        records.writeStream.format("kafka")
        .queryName(name)
        .outputMode("update")
        .options(**{f"kafka.{name}": value for name, value in settings.kafka.items()})
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("checkpointLocation", str(prepared.query))
        .trigger(processingTime=f"{settings.trigger_interval} milliseconds")
        .start()
    )
