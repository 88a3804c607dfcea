"""What a pipeline has published, to be compared with what an undisturbed one publishes."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.protocol.records import PipelineRecord, encode_key
from levelwind_testing.pipeline.installation import PARTITIONS, Installation

PROCESS_RECORD = encode_key(PipelineRecord.KEY)
"""Key of the record that the pipeline's process writes; it is no outcome of the query."""


@dataclass(frozen=True, slots=True)
class PublishedTopics:
    """Topics of a pipeline that somebody else made."""

    bootstrap: str
    prefix: str
    partitions: Mapping[str, int]
    """Numbers of partitions of `lag` and `triggers`."""


def outcome(
    lw: Installation | PublishedTopics, since: Mapping[tuple[str, int], int] | None = None
) -> dict[str, Any]:
    """Compacted lag and triggers, by topic and key, of what was published since some offsets."""
    newest = {key: values[-1] for key, values in published_values(lw, since).items()}
    return {key: json.loads(value) for key, value in sorted(newest.items()) if value is not None}


def published_values(
    lw: Installation | PublishedTopics, since: Mapping[tuple[str, int], int] | None = None
) -> dict[str, list[bytes | None]]:
    """All values of each lag and trigger since some offsets, in order, by topic and key."""
    found: dict[str, list[bytes | None]] = defaultdict(list)
    reader = Consumer(
        {"bootstrap.servers": lw.bootstrap, "group.id": "x", "enable.auto.commit": False}
    )
    for (name, partition), end in ends(lw).items():
        start = TopicPartition(lw.prefix + name, partition, (since or {}).get((name, partition), 0))
        reader.assign([start])
        position = start.offset
        while position < end:
            message = reader.poll(10)
            assert message is not None
            assert message.error() is None, message.error()
            position = message.offset() + 1
            if message.key() != PROCESS_RECORD:
                found[f"{name} {message.key().decode()}"].append(message.value())
    reader.close()
    return found


def ends(lw: Installation | PublishedTopics) -> dict[tuple[str, int], int]:
    partitions = PARTITIONS if isinstance(lw, Installation) else lw.partitions
    reader = Consumer({"bootstrap.servers": lw.bootstrap, "group.id": "x"})
    found = {
        (name, partition): reader.get_watermark_offsets(
            TopicPartition(lw.prefix + name, partition)
        )[1]
        for name in ("lag", "triggers")
        for partition in range(partitions[name])
    }
    reader.close()
    return found


def outdated_repeats(values: list[bytes | None]) -> list[bytes | None]:
    """Values with an older source than some earlier value that are not repeats of one."""
    sources = [json.loads(value)["source"] if value is not None else {} for value in values]
    return [
        value
        for number, (value, source) in enumerate(zip(values, sources, strict=True))
        if any(
            earlier.get(partition, -1) > source[partition]
            for earlier in sources[:number]
            for partition in source
        )
        and value not in values[:number]
    ]
