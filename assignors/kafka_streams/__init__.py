"""Kafka Streams tasks over processes: another problem than partitions over members, with types of its own."""

from assignors.kafka_streams.assign import assign
from assignors.kafka_streams.task_model import (
    AwaitedCopy,
    SourceTopic,
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Subtopology,
    Task,
    TaskAssignment,
    TaskPlan,
)

__all__ = [
    "AwaitedCopy",
    "SourceTopic",
    "StreamsConsumer",
    "StreamsProcess",
    "StreamsSettings",
    "Subtopology",
    "Task",
    "TaskAssignment",
    "TaskPlan",
    "assign",
]
