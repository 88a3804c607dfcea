"""Schemas of the tables between operators.

Their rows are `rows.Row`, `rows.SinkRow` and the columns of `ingest.PackedRows`.
"""

from __future__ import annotations

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

KAFKA_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp",
    "key",
    "value",
)
"""A Kafka record as the pipeline reads it: the fields of `ingest.RecordColumns`, as expressions."""

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
