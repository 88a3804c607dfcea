"""End offsets of the current micro-batch, made available to its tasks.

Spark plans a batch on the driver and writes its end offsets into the checkpoint before the first
task runs; a task knows the batch's number. So an operator can tell how far every partition of the
input is read with this batch, although it sees only its own rows, and a repeated batch gives the
same answer. Where the checkpoint is no directory of this machine, as on a cluster with a store of
its own, the end offsets are unknown, and the input counts as read evenly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""Spark's local property with the number of the batch that a task is part of."""


def current_batch() -> int | None:
    """The number of the batch that this task is part of; None outside of a batch."""
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(BATCH_ID_PROPERTY)
    return int(value) if value is not None and value.isdecimal() else None


def end_offsets(query: Path, batch: int, topic: str) -> Mapping[int, int] | None:
    """The offsets at which a batch stops reading a topic, by partition; None: unknown.

    Args:
        query: the directory of the query's checkpoint.
        batch: the number of the batch.
        topic: the topic's name.
    """
    try:
        lines = (query / "offsets" / str(batch)).read_text().split("\n")
        sources = [json.loads(line) for line in lines[2:] if line.startswith("{")]
    except (OSError, ValueError):
        return None
    found: dict[int, int] = {}
    for source in sources:
        partitions: Any = source.get(topic, {})
        found |= {int(partition): int(offset) for partition, offset in partitions.items()}
    return found or None
