"""An entry of Spark's log of offsets: lines of a version, of the batch and of each source."""

from __future__ import annotations

import json
from typing import Any


def ends_in(entry: bytes, topic: str) -> dict[int, int]:
    """The ends of a batch in a topic by partition, by its entry in the log; none: not named there.

    Raises:
        ValueError: the entry is none of Spark's.
    """
    found: dict[int, int] = {}
    sources = [json.loads(line) for line in entry.split(b"\n")[2:] if line.startswith(b"{")]
    try:
        for source in sources:
            partitions: Any = source.get(topic, {})
            found |= {int(partition): int(offset) for partition, offset in partitions.items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{topic} has no offsets by partition") from error
    return found
