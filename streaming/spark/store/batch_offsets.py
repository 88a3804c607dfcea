"""End offsets of the current micro-batch, made available to its tasks.

Spark plans a batch on the driver and writes its end offsets into the checkpoint before the first
task runs; a task knows the batch's number. So an operator can tell how far every partition of the
input is read with this batch, although it sees only its own rows, and a repeated batch gives the
same answer. A task on the driver's machine reads the file; any other asks the driver
(`levelwind.streaming.spark.store.offsets_server`). A task that cannot know the end offsets fails,
and Spark tries it again: with a guess the same input could have another outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark import TaskContext

from levelwind.streaming.errors import PipelineError
from levelwind.streaming.spark.store.offsets_entry import ends_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""Spark's local property with the number of the batch that a task is part of."""
OFFSETS = "offsets"
"""Directory of Spark's log of offsets in a query's checkpoint."""


class OffsetsLog(Protocol):
    """Spark's log of the offsets of batches; sent to the tasks with the operator."""

    def read(self, batch: int) -> bytes | None:
        """The entry of a batch; None: it is not known."""


@dataclass(frozen=True, slots=True)
class OffsetsFiles:
    """The log as files with paths on this machine."""

    query: Path
    """Directory of the query's checkpoint."""

    def read(self, batch: int) -> bytes | None:
        """The entry of a batch; None: there is no such file."""
        try:
            return (self.query / OFFSETS / str(batch)).read_bytes()
        except OSError:
            return None


def current_batch() -> int | None:
    """The number of the batch that this task is part of; None outside of a batch."""
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(BATCH_ID_PROPERTY)
    return int(value) if value is not None and value.isdecimal() else None


def end_offsets(log: OffsetsLog, batch: int, topic: str) -> Mapping[int, int]:
    """The offsets at which a batch stops reading a topic, by partition.

    Args:
        log: Spark's log of offsets.
        batch: the number of the batch.
        topic: the topic's name.

    Raises:
        PipelineError: the entry of the batch is not known, or does not name the topic.
    """
    try:
        found = ends_in(log.read(batch) or b"", topic)
    except ValueError as error:
        raise PipelineError(f"the end offsets of batch {batch} cannot be read") from error
    if not found:
        raise PipelineError(f"the end offsets of batch {batch} are not known")
    return found
