"""What the pipeline published before its state was built anew, and may not stand by any more.

Lag of a group that went away, or a trigger whose cause ended, while nobody kept state: the new state knows nothing of it, so
it would stand for ever. What the new state says it has said again once it has read all that there was. About every other
key the query is asked, through the topic of replays, and ends it if it does not know it (`group_turn`): only the query
itself can tell in the order of its own output. To ask twice, or about what has come back meanwhile, does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors.protocol.records import ReplayRecord, Tombstone, encode_key
from daemon.kafka.record_writer import write_replays
from daemon.kafka.topic_reader import (
    ConsumedRecord,
    read_to_end,
    stable_ends,
)
from daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.protocol.records.metadata import Key
    from assignors.protocol.topics import TopicKind, Topics
    from daemon.config.settings import Settings

KINDS: tuple[TopicKind, ...] = ("lag", "triggers")


def written(settings: Settings) -> dict[str, int]:
    """Where the topics end that the pipeline publishes state to, by "topic/partition".

    Raises:
        NotFoundError: one of them does not exist.
        ClusterUnavailableError: no answer in time.
    """
    names = [settings.topics.name(kind) for kind in KINDS]
    ends = stable_ends(settings.client(), names, settings.topic.timeout)
    return {f"{topic}/{partition}": end for (topic, partition), end in ends.items()}


def unconfirmed_keys(
    entries: Iterable[ConsumedRecord], former: Mapping[str, int], topics: Topics, now: int
) -> list[ReplayRecord]:
    """What stands in the topics, has not been said again since, and is to be asked about.

    Args:
        entries: the topics' records, each partition's in order.
        former: by "topic/partition", where what former states have said ends.
        topics: the names of ours.
        now: when it is asked.
    """
    newest: dict[tuple[TopicKind, Key], ConsumedRecord] = {}
    for entry in entries:
        newest[entry.kind, entry.record.key] = entry
    return [
        ReplayRecord(
            at=now,
            topic=topics.name(kind),
            partition=entry.partition,
            offset=entry.offset,
            timestamp=max(entry.timestamp, 0),
            until=entry.offset + 1,
            raw_key=encode_key(key),
            raw_value=None,
        )
        for (kind, key), entry in newest.items()
        if not isinstance(entry.record, Tombstone)
        and entry.offset < former.get(f"{topics.name(kind)}/{entry.partition}", 0)
    ]


def request_verification(settings: Settings, former: Mapping[str, int]) -> int:
    """Ask the query about what nobody has said again; how many keys that were.

    Raises:
        NotFoundError: a topic of ours does not exist.
        ClusterUnavailableError: no answer in time, or not everything was acknowledged.
    """
    if not any(former.values()):
        return 0
    read = read_to_end(settings.client(), settings.topics, KINDS, timeout=settings.topic.timeout)
    entries = (entry for entry in read if isinstance(entry, ConsumedRecord))
    asked = unconfirmed_keys(entries, former, settings.topics, now_ms())
    if asked:
        said = [(replay.key, replay) for replay in asked]
        write_replays(settings.client(), settings.topics, settings.topic, said)
    return len(asked)
