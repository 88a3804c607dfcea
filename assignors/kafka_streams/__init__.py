"""Kafka Streams tasks over processes.

A problem of its own, with its own types: tasks have state, copies and lags, which the partitions of
a consumer group have not. It knows nothing of `Group` and its strategies.
"""

from levelwind.assignors.kafka_streams.assign import assign
from levelwind.assignors.kafka_streams.task_model import (
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
