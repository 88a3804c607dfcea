"""Records published by an earlier checkpoint that the rebuilt state may no longer confirm.

A group may have been deleted, or a trigger cleared, while no state was kept: the rebuilt state does
not know their records, which would stay for ever. Once the query has caught up, it has published
again everything that it confirms. For every other key the pipeline's process asks the query,
through the topic of replays, to publish a tombstone if its state does not know the key
(`levelwind.streaming.group.update`): only the query can tell, in the order of its own output. A
request that is repeated, or is about a key that has come back meanwhile, does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import (
    PipelineRecord,
    ReplayRecord,
    Tombstone,
    decode,
    encode_key,
)
from levelwind.daemon.kafka.record_writer import write_replays
from levelwind.daemon.kafka.topic_reader import ConsumedRecord, read_to_end, stable_ends
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.declared.fields import Key
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.daemon.config.settings import Settings

KINDS: tuple[TopicKind, ...] = ("lag", "triggers")


def published_ends(settings: Settings) -> dict[str, int]:
    """Return the end offsets of the topics of the pipeline's state, by "topic/partition".

    Raises:
        NotFoundError: one of them does not exist.
        ClusterUnavailableError: no answer in time.
    """
    names = [settings.topics.name(kind) for kind in KINDS]
    ends = stable_ends(settings.client(), names, settings.topic.timeout)
    return {f"{topic}/{partition}": end for (topic, partition), end in ends.items()}


def unconfirmed_keys(
    records: Iterable[ConsumedRecord], ends: Mapping[str, int], topics: Topics, now: int
) -> list[ReplayRecord]:
    """Return a request for each key that was not published again since the rebuild.

    Args:
        records: the records of the topics, each partition's in order.
        ends: by "topic/partition", the end of what earlier checkpoints published.
        topics: the names of levelwind's topics.
        now: the time of the requests, in milliseconds since the epoch.
    """
    newest: dict[tuple[TopicKind, Key], ConsumedRecord] = {}
    for read in records:
        newest[read.kind, read.record.key] = read
    return [
        ReplayRecord(
            at=now,
            topic=topics.name(kind),
            partition=read.partition,
            offset=read.offset,
            timestamp=max(read.timestamp, 0),
            until=read.offset + 1,
            raw_key=encode_key(key),
            raw_value=None,
        )
        for (kind, key), read in newest.items()
        # The query does not know the pipeline's own record, which its process writes.
        if not isinstance(read.record, Tombstone | PipelineRecord)
        and read.offset < ends.get(f"{topics.name(kind)}/{read.partition}", 0)
    ]


def request_verification(settings: Settings, ends: Mapping[str, int]) -> int:
    """Have the query verify the keys that were not published again; return their number.

    Args:
        settings: the settings of the daemon.
        ends: by "topic/partition", the end of what earlier checkpoints published.

    Raises:
        NotFoundError: one of levelwind's topics does not exist.
        ClusterUnavailableError: no answer in time, or not everything was acknowledged.
    """
    if not any(ends.values()):
        return 0
    # Each shard of a record that was cut has a key of its own, which may be outdated alone.
    read = read_to_end(
        settings.client(), settings.topics, KINDS, timeout=settings.topic.timeout, decode=decode
    )
    requests = unconfirmed_keys(read, ends, settings.topics, now_ms())
    if requests:
        replays = [(request.key, request) for request in requests]
        write_replays(settings.client(), settings.topics, settings.topic, replays)
    return len(requests)
