"""The schemas of the tables that Spark moves; their rows are `rows.Row`, `rows.SinkRow` and the columns of `ingest.PackedRows`."""

from __future__ import annotations

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType


class Kafka:
    """Columns of a Kafka record as the pipeline reads it."""

    topic = "topic"
    partition = "partition"
    offset = "offset"
    timestamp = "timestamp"
    key = "key"
    value = "value"


KAFKA_COLUMNS = (
    Kafka.topic,
    Kafka.partition,
    Kafka.offset,
    f"unix_millis({Kafka.timestamp}) AS {Kafka.timestamp}",
    Kafka.key,
    Kafka.value,
)


PACKED = StructType(
    [
        StructField("state_key", StringType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("reason", StringType()),
        StructField("n", LongType(), nullable=False),
    ]
)

ROWS = StructType(PACKED.fields[:3])


SINK = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("key", BinaryType(), nullable=False),
        StructField("value", BinaryType()),
        StructField("partition", IntegerType(), nullable=False),
    ]
)

STATE = StructType([StructField("value", BinaryType(), nullable=False)])
"""A topic's or a group's state: one packed value."""
