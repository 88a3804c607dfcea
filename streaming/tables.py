"""The tables that Spark moves: each schema beside its row, so that a column is named once."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from streaming import rows


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


class PackedRow(NamedTuple):
    """What the intake makes of Kafka's records; `reason` and `n` count what is rejected (or, by kind, skipped)."""

    route: str
    kind: int
    payload: bytes
    reason: str | None
    n: int


PACKED = StructType(
    [
        StructField("route", StringType(), nullable=False),
        StructField("kind", IntegerType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("reason", StringType()),
        StructField("n", LongType(), nullable=False),
    ]
)

Row = rows.Row

ROWS = StructType(PACKED.fields[:3])


class SinkRow(NamedTuple):
    """A record to be written to Kafka."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int


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
