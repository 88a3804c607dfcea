"""What a query died of, told from Spark's text: whether its checkpoint is to blame, and a line that a person can use.

Law: a checkpoint is given up only for what it itself did. What the machine or the cluster did (a disk that is full, a
broker that is away, a right that is missing) passes, and the checkpoint goes on afterwards. The texts are those that
Spark 4.2 was seen to die with on damaged files; an unknown one blames the checkpoint only when the caller finds that it
keeps a query from its first batch again and again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class FailureCause(Enum):
    """Whose fault it is."""

    MACHINE = "machine"
    """The disk or the memory: the same files serve once there is room again."""
    CLUSTER = "cluster"
    """Kafka does not answer, or refuses."""
    CHECKPOINT = "checkpoint"
    """The files of the checkpoint, or what they say of the topics."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a query ended."""

    cause: FailureCause
    summary: str
    """One line; what to do, where we know it."""


_ROOM = "there is no room left where the checkpoint or Spark's own files are"
_RULES: tuple[tuple[FailureCause, str, re.Pattern[str]], ...] = (
    # First what the machine does: a full disk also garbles what is written to it.
    (
        FailureCause.MACHINE,
        f"{_ROOM}: make room; the query goes on from its last batch",
        re.compile(r"No space left on device|Disk quota exceeded|File too large"),
    ),
    (
        FailureCause.MACHINE,
        "the files of the checkpoint cannot be written: see to its file system and rights",
        re.compile(
            r"Read-only file system|Permission denied|Too many open files|Input/output error"
        ),
    ),
    (
        FailureCause.MACHINE,
        "there is not enough memory",
        re.compile(r"OutOfMemoryError|Cannot allocate memory|unable to create native thread"),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint tells of offsets that the topics do not have: one of them was deleted or cut",
        re.compile(r"some data may have been missed|KAFKA_DATA_LOSS|OffsetOutOfRange"),
    ),
    (
        FailureCause.CLUSTER,
        "the Kafka cluster does not answer, or refuses",
        re.compile(r"org\.apache\.kafka\.common\.(errors\.|KafkaException)"),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint's log of offsets or of commits is damaged",
        re.compile(
            r"Incomplete log file|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently"
            r"|batch \d+ doesn't exist|Malformed log|UnsupportedLogVersion|JsonEOFException|JsonParseException"
            r"|Unexpected (end-of-input|character)|com\.fasterxml\.jackson"
        ),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint's state is damaged, or another version's",
        re.compile(
            r"CANNOT_LOAD_STATE_STORE|STATE_STORE_\w+|STATEFUL_PROCESSOR_\w+|STREAMING_STATEFUL_OPERATOR_\w+"
            r"|Stateful operators in the metadata|ChecksumException|CHECKSUM_VERIFICATION"
            r"|RocksDBException: Corruption|\bPackingError\b"
        ),
    ),
)


def explain(error: str) -> Failure:
    """Why a query ended, from the text that Spark gives."""
    line = root(error)
    for cause, meaning, pattern in _RULES:
        if pattern.search(error):
            return Failure(cause=cause, summary=f"{meaning} ({line})")
    return Failure(cause=FailureCause.UNKNOWN, summary=line)


def root(error: str) -> str:
    """The line of a stack trace that says most: the innermost cause, or what a Python worker raised."""
    lines = [line.strip() for line in error.splitlines()]
    for prefix in ("Caused by: ", ""):
        found = [
            line for line in lines if line.startswith(prefix) and line and not _FRAME.match(line)
        ]
        if found:
            line = found[-1] if prefix else found[0]
            return line.removeprefix(prefix)[:_MAX_LENGTH]
    return "no reason given"


_FRAME = re.compile(r"at \S+\(|\.\.\. \d+ more|===")
_MAX_LENGTH = 400
