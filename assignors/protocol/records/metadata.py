"""Records of levelwind.metadata: brokers, topics and offsets as the observer saw them."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, TypeAlias

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import ByPartition, Name, Offset, Time, Whole
from levelwind.assignors.protocol.declared.marks import WRITTEN, Shape
from levelwind.assignors.protocol.partition_ranges import WireError


def _ascending(offsets: tuple[int, ...]) -> tuple[int, ...]:
    if len(offsets) % 2 or any(a > b for a, b in pairwise(offsets[2:])):
        raise WireError("expected ascending pairs of offsets")
    return offsets


Gaps: TypeAlias = Annotated[tuple[Whole, ...], Shape(tuple[Whole, ...], _ascending)]
"""Pairs of the first offset and the end of something, ascending behind the first pair."""


class BrokerRecord(Declared, frozen=True, kw_only=True):
    """A broker and its rack; an offline broker keeps its last known rack."""

    KIND: ClassVar = "broker"
    KEY_FIELDS: ClassVar = ("broker",)

    broker: Whole
    at: Time
    """When the broker was seen, in milliseconds since the epoch."""
    rack: Name | None
    online: bool
    follower_fetching: Annotated[bool | None, WRITTEN] = None
    """Whether a consumer in the broker's rack may fetch from its replicas, whichever broker leads
    (KIP-392: `replica.selector.class` is set); None if the observer may not read that setting."""


class TopicRecord(Declared, frozen=True, kw_only=True):
    """A topic's layout, written when it changes; every list is indexed by partition."""

    KIND: ClassVar = "topic"
    KEY_FIELDS: ClassVar = ("topic",)

    topic: Name
    at: Time
    """When the layout was seen, in milliseconds since the epoch."""
    id: Name
    """Kafka's topic id, which a topic recreated under the same name does not share."""
    leader: ByPartition[Offset]
    """Broker that leads each partition; -1 without a leader."""
    replicas: ByPartition[tuple[Whole, ...]]
    """Brokers of each partition's replicas."""
    isr: ByPartition[tuple[Whole, ...]]
    """Brokers of each partition's in-sync replicas."""
    racks: ByPartition[tuple[str, ...]]
    """Sorted, distinct racks of each partition's replicas."""

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.leader)


class OffsetsRecord(Declared, frozen=True, kw_only=True):
    """A sample of a topic's offsets.

    Lists are indexed by partition, except for `offsets_topic_ends`; -1 is an offset that could not
    be read.
    """

    KIND: ClassVar = "offsets"
    V: ClassVar = 2
    KEY_FIELDS: ClassVar = ("topic",)

    topic: Name
    at: Time
    """When the offsets were sampled, in milliseconds since the epoch."""
    id: Name
    """Kafka's topic id."""
    begin: ByPartition[Offset]
    """Log start offset of each partition."""
    stable: ByPartition[Offset]
    """Last stable offset of each partition."""
    high: ByPartition[Offset]
    """High watermark of each partition; at least `stable` where both are known."""
    data_end: ByPartition[Offset] | None = None
    """Offset behind the last record that a read_committed consumer gets.

    It is below `stable` where only markers and aborted transactions follow; -1 where unknown. None
    if no partition has one.
    """
    gaps: ByPartition[Gaps] | None = None
    """Offsets of each partition that hold no record for a read_committed consumer.

    Empty where no such offset is known. Otherwise the first and the end offset of what was examined
    (equal: nothing), then the first and the end offset of each gap in it, ascending. Control
    records, aborted records and what compaction removed make gaps. None if all are empty.
    """
    offsets_topic_ends: tuple[Whole, ...] | None = None
    """Last stable offset of each partition of `__consumer_offsets` at the time of the sample.

    Commits below these offsets were made before the sample. None if one is unknown.
    """
