"""Names of levelwind's topics, and the partition of a name's records."""

# ruff: noqa: D102 - a property for each topic, named after it.

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

TopicKind: TypeAlias = Literal[
    "metadata",
    "lag",
    "triggers",
    "dead_letters",
    "replays",
    "members",
    "assignments",
    "control",
    "decisions",
]
OFFSETS_TOPIC = "__consumer_offsets"
"""Kafka's own topic of what groups have committed and who their members are."""
LARGEST_WIDE_BYTES = 8 * 2**20
"""The most that a message may have in the topics whose records list the partitions of a topic, the
lag and the metadata. Managed services allow no more."""
TOPIC_KINDS: tuple[TopicKind, ...] = get_args(TopicKind)


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of one installation; installations with different prefixes can share a cluster."""

    prefix: str = "levelwind."

    @property
    def metadata(self) -> str:
        return self.prefix + "metadata"

    @property
    def lag(self) -> str:
        return self.prefix + "lag"

    @property
    def triggers(self) -> str:
        return self.prefix + "triggers"

    @property
    def dead_letters(self) -> str:
        return self.prefix + "dead-letters"

    @property
    def replays(self) -> str:
        return self.prefix + "replays"

    @property
    def members(self) -> str:
        return self.prefix + "members"

    @property
    def assignments(self) -> str:
        return self.prefix + "assignments"

    @property
    def control(self) -> str:
        return self.prefix + "control"

    @property
    def decisions(self) -> str:
        return self.prefix + "decisions"

    @property
    def commits(self) -> str:
        """Not of levelwind's records: what was polled, in the format of `__consumer_offsets`."""
        return self.prefix + "commits"

    def name(self, kind: TopicKind) -> str:
        """The name of the topic of a kind."""
        return self.prefix + kind.replace("_", "-")

    def kind(self, name: str) -> TopicKind | None:
        """The kind of a topic by its name; None if the topic is not this installation's."""
        return _kinds(self.prefix).get(name)


@lru_cache(maxsize=16)
def _kinds(prefix: str) -> dict[str, TopicKind]:
    """The kinds of an installation's topics by their names: every message is looked up in it."""
    return {Topics(prefix).name(kind): kind for kind in TOPIC_KINDS}


@lru_cache(maxsize=65_536)
def partition_for(name: str, partitions: int) -> int:
    """The partition of a name's records.

    The result is that of Kafka's default partitioner for a key of the name's UTF-8 bytes.
    """
    return (murmur2(name.encode()) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Murmur2 with Kafka's seed, as an unsigned 32-bit integer."""
    mix, mask = 0x5BD1E995, 0xFFFFFFFF
    state = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        block = int.from_bytes(data[start : start + 4], "little") * mix & mask
        block = (block ^ block >> 24) * mix & mask
        state = (state * mix & mask) ^ block
    if tail := data[whole:]:
        state = (state ^ int.from_bytes(tail, "little")) * mix & mask
    state = (state ^ state >> 13) * mix & mask
    return state ^ state >> 15
