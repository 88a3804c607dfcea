"""Kafka Streams tasks over processes: another problem than partitions over members, with types of its own."""

from assignors.streams.assign import assign
from assignors.streams.model import Consumer, Process, Settings, Source, Subtopology, Task
from assignors.streams.plan import Assigned, Awaited, Plan

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
