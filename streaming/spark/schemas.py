"""Schemas of the tables between operators.

Their rows are `rows.Row`, `rows.SinkRow` and the columns of `ingest.PackedRows`.
"""

from __future__ import annotations

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType


class KafkaColumns:
    """Names of the columns of a Kafka record, as the pipeline reads it."""

    topic = "topic"
    partition = "partition"
    offset = "offset"
    timestamp = "timestamp"
    key = "key"
    value = "value"


KAFKA_COLUMNS = (
    KafkaColumns.topic,
    KafkaColumns.partition,
    KafkaColumns.offset,
    f"unix_millis({KafkaColumns.timestamp}) AS {KafkaColumns.timestamp}",
    KafkaColumns.key,
    KafkaColumns.value,
)


PACKED = StructType(
    [
        StructField("state_key", StringType(), nullable=False),
        StructField("subject", StringType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("reason", StringType()),
        StructField("n", LongType(), nullable=False),
    ]
)

ROWS = StructType(PACKED.fields[:4])


SINK = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("key", BinaryType(), nullable=False),
        StructField("value", BinaryType()),
        StructField("partition", IntegerType(), nullable=False),
    ]
)

STATE = StructType([StructField("value", BinaryType(), nullable=False)])
"""State of a topic, or part of that of a bucket of groups: one packed value."""

TOPIC_NAME = StructType([StructField("topic", StringType(), nullable=False)])
"""Key of a topic's state in that of its bucket."""
