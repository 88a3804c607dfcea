"""How far the batch reads that is being worked on, told to its tasks.

Spark plans a batch on the driver and writes its end offsets into the checkpoint before the first task runs; a task knows
the batch's number. So an operator can know how far every partition of the input is read with this batch, the same
whenever the batch is repeated, though nothing but its own rows comes to it. Where the checkpoint is no directory of this
machine, as under a cluster with a store of its own, that is not known, and the input is taken to be read evenly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BATCH = "streaming.sql.batchId"
"""Spark's name for the number of the batch that a task is part of."""


def current_batch() -> int | None:
    """The number of the batch that this task is part of."""
    context = TaskContext.get()
    said = None if context is None else context.getLocalProperty(BATCH)
    return int(said) if said is not None and said.isdecimal() else None


def end_offsets(query: Path, number: int, topic: str) -> Mapping[int, int] | None:
    """By partition of a topic, the offset that reading comes to with a batch; None: not known.

    Args:
        query: the query's checkpoint.
        number: the batch's.
        topic: the topic's name.
    """
    try:
        lines = (query / "offsets" / str(number)).read_text().split("\n")
        sources = [json.loads(line) for line in lines[2:] if line.startswith("{")]
    except (OSError, ValueError):
        return None
    found: dict[int, int] = {}
    for source in sources:
        partitions: Any = source.get(topic, {})
        found |= {int(partition): int(offset) for partition, offset in partitions.items()}
    return found or None
