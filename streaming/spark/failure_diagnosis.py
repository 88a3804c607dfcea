"""Diagnosis of a query's death from Spark's error text: its cause, and a line for an operator.

Guarantees: a checkpoint is given up only for its own damage. Trouble of the machine or the cluster
(a full disk, an absent broker, a missing right) passes, and the checkpoint is continued afterwards.
The texts are those that Spark 4.2 was seen to die with on damaged files. An unknown text does not
blame the checkpoint; the caller does, if queries die again and again before their first batch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class FailureCause(Enum):
    """The cause of a query's end."""

    MACHINE = "machine"
    """The disk or the memory; the same checkpoint serves once there is room again."""
    CLUSTER = "cluster"
    """Kafka does not answer, or refuses a request."""
    CHECKPOINT = "checkpoint"
    """The checkpoint is damaged, or its offsets do not exist in the topics any more."""
    UNKNOWN = "unknown"
    """No rule matches the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The diagnosis of a query that ended."""

    cause: FailureCause
    summary: str
    """One line for the log: the meaning, what to do if that is known, Spark's innermost cause."""


_NO_ROOM = "there is no room left on the disk of the checkpoint or of Spark's own files"
_RULES: tuple[tuple[FailureCause, str, re.Pattern[str]], ...] = (
    # The machine's trouble first: a full disk also garbles what is written to it.
    (
        FailureCause.MACHINE,
        f"{_NO_ROOM}: make room; the query continues from its last batch",
        re.compile(r"No space left on device|Disk quota exceeded|File too large"),
    ),
    (
        FailureCause.MACHINE,
        "the files of the checkpoint cannot be written: check its file system and permissions",
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
        "the checkpoint has offsets that the topics do not: a topic was deleted or truncated",
        re.compile(r"some data may have been missed|KAFKA_DATA_LOSS|OffsetOutOfRange"),
    ),
    (
        FailureCause.CLUSTER,
        "the Kafka cluster does not answer, or refuses a request",
        re.compile(r"org\.apache\.kafka\.common\.(errors\.|KafkaException)"),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint's log of offsets or of commits is damaged",
        re.compile(
            r"Incomplete log file|CONCURRENT_STREAM_LOG_UPDATE"
            r"|Multiple streaming queries are concurrently"
            r"|batch \d+ doesn't exist|Malformed log|UnsupportedLogVersion"
            r"|JsonEOFException|JsonParseException"
            r"|Unexpected (end-of-input|character)|com\.fasterxml\.jackson"
        ),
    ),
    (
        FailureCause.CHECKPOINT,
        "the checkpoint's state is damaged, or of another version",
        re.compile(
            r"CANNOT_LOAD_STATE_STORE|STATE_STORE_\w+|STATEFUL_PROCESSOR_\w+|STREAMING_STATEFUL_OPERATOR_\w+"
            r"|Stateful operators in the metadata|ChecksumException|CHECKSUM_VERIFICATION"
            r"|RocksDBException: Corruption|\bPackingError\b"
        ),
    ),
)


def diagnose(error: str) -> Failure:
    """Diagnose why a query ended; `error` is the text that Spark gives."""
    line = innermost_cause(error)
    for cause, meaning, pattern in _RULES:
        if pattern.search(error):
            return Failure(cause=cause, summary=f"{meaning} ({line})")
    return Failure(cause=FailureCause.UNKNOWN, summary=line)


def innermost_cause(error: str) -> str:
    """The most telling line of a stack trace: the innermost cause, or a Python worker's error."""
    lines = [line.strip() for line in error.splitlines()]
    for prefix in ("Caused by: ", ""):
        found = [
            line
            for line in lines
            if line.startswith(prefix) and line and not _STACK_FRAME.match(line)
        ]
        if found:
            line = found[-1] if prefix else found[0]
            return line.removeprefix(prefix)[:_MAX_LENGTH]
    return "no reason given"


_STACK_FRAME = re.compile(r"at \S+\(|\.\.\. \d+ more|===")
_MAX_LENGTH = 400
