"""Kafka Streams tasks over processes: another problem than partitions over members, with types of its own."""

from assignors.kafka_streams.assign import assign
from assignors.kafka_streams.task_model import (
    Assigned,
    Awaited,
    Consumer,
    Plan,
    Process,
    Settings,
    Source,
    Subtopology,
    Task,
)

__all__ = [
    "Assigned",
    "Awaited",
    "Consumer",
    "Plan",
    "Process",
    "Settings",
    "Source",
    "Subtopology",
    "Task",
    "assign",
]
