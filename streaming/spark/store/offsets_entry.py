"""An entry of Spark's log of offsets: lines of a version, of the batch and of each source."""

from __future__ import annotations

import json


def ends_in(entry: bytes, topic: str) -> dict[int, int]:
    """The ends of a batch in a topic by partition, by its entry in the log; none: not named there.

    Raises:
        ValueError: the entry is none of Spark's.
    """
    return {number: end for (name, number), end in all_ends(entry).items() if name == topic}


def all_ends(entry: bytes) -> dict[tuple[str, int], int]:
    """The ends of a batch by topic and partition, by its entry in the log.

    Raises:
        ValueError: the entry is none of Spark's.
    """
    sources = [json.loads(line) for line in entry.split(b"\n")[2:] if line.startswith(b"{")]
    try:
        return {
            (topic, int(partition)): int(end)
            for source in sources
            for topic, partitions in source.items()
            for partition, end in partitions.items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError("a topic has no offsets by partition") from error


def planned_at(entry: bytes) -> int:
    """The time of a batch by the driver's clock, by its entry; milliseconds since the epoch.

    Raises:
        ValueError: the entry is none of Spark's.
    """
    try:
        return int(json.loads(entry.split(b"\n")[1])["batchTimestampMs"])
    except (LookupError, TypeError) as error:
        raise ValueError("a batch has no time") from error
