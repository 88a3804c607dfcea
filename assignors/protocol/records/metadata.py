"""Records of levelwind.metadata: brokers, topics and offsets as the observer saw them."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from levelwind.assignors.protocol.json_fields import Fields

Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """A broker and its rack; an offline broker keeps its last known rack."""

    KIND: ClassVar = "broker"
    V: ClassVar = 1

    broker: int
    at: int
    """When the broker was seen, in milliseconds since the epoch."""
    rack: str | None
    online: bool
    follower_fetching: bool | None = None
    """Whether a consumer in the broker's rack may fetch from its replicas, whichever broker leads
    (KIP-392: `replica.selector.class` is set); None if the observer may not read that setting."""

    @property
    def key(self) -> Key:
        return ("broker", self.broker)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "rack": self.rack,
            "online": self.online,
            "follower_fetching": self.follower_fetching,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> BrokerRecord:
        _, broker = key
        return cls(
            broker=int(broker),
            at=fields.integer("at"),
            rack=fields.optional_text("rack"),
            online=fields.flag("online"),
            follower_fetching=fields.optional_flag("follower_fetching"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic's layout, written when it changes; every list is indexed by partition."""

    KIND: ClassVar = "topic"
    V: ClassVar = 1

    topic: str
    at: int
    """When the layout was seen, in milliseconds since the epoch."""
    id: str
    """Kafka's topic id, which a topic recreated under the same name does not share."""
    leader: tuple[int, ...]
    """Broker that leads each partition; -1 without a leader."""
    replicas: tuple[tuple[int, ...], ...]
    """Brokers of each partition's replicas."""
    isr: tuple[tuple[int, ...], ...]
    """Brokers of each partition's in-sync replicas."""
    racks: tuple[tuple[str, ...], ...]
    """Sorted, distinct racks of each partition's replicas."""

    @property
    def key(self) -> Key:
        return ("topic", self.topic)

    @property
    def partitions(self) -> int:
        return len(self.leader)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "id": self.id,
            "leader": self.leader,
            "replicas": self.replicas,
            "isr": self.isr,
            "racks": self.racks,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> TopicRecord:
        _, topic = key
        record = cls(
            topic=str(topic),
            at=fields.integer("at"),
            id=fields.text("id"),
            leader=fields.integers("leader", low=-1),
            replicas=fields.integer_lists("replicas"),
            isr=fields.integer_lists("isr"),
            racks=fields.text_lists("racks"),
        )
        require_same_length(
            leader=record.leader, replicas=record.replicas, isr=record.isr, racks=record.racks
        )
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRecord:
    """A sample of a topic's offsets.

    Lists are indexed by partition, except for `offsets_topic_ends`; -1 is an offset that could not
    be read.
    """

    KIND: ClassVar = "offsets"
    V: ClassVar = 2

    topic: str
    at: int
    """When the offsets were sampled, in milliseconds since the epoch."""
    id: str
    """Kafka's topic id."""
    begin: tuple[int, ...]
    """Log start offset of each partition."""
    stable: tuple[int, ...]
    """Last stable offset of each partition."""
    high: tuple[int, ...]
    """High watermark of each partition; at least `stable` where both are known."""
    data_end: tuple[int, ...] | None = None
    """Offset behind the last record that a read_committed consumer gets.

    It is below `stable` where only markers and aborted transactions follow; -1 where unknown. None
    if no partition has one.
    """
    gaps: tuple[tuple[int, ...], ...] | None = None
    """Offsets of each partition that hold no record for a read_committed consumer.

    Empty where no such offset is known. Otherwise the first and the end offset of what was examined
    (equal: nothing), then the first and the end offset of each gap in it, ascending. Control
    records, aborted records and what compaction removed make gaps. None if all are empty.
    """
    offsets_topic_ends: tuple[int, ...] | None = None
    """Last stable offset of each partition of `__consumer_offsets` at the time of the sample.

    Commits below these offsets were made before the sample. None if one is unknown.
    """

    @property
    def key(self) -> Key:
        return ("offsets", self.topic)

    def value(self) -> dict[str, object]:
        later: dict[str, object] = {
            "data_end": self.data_end,
            "gaps": self.gaps,
            "offsets_topic_ends": self.offsets_topic_ends,
        }
        return {name: column for name, column in later.items() if column is not None} | {
            "v": self.V,
            "at": self.at,
            "id": self.id,
            "begin": self.begin,
            "stable": self.stable,
            "high": self.high,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> OffsetsRecord:
        _, topic = key
        record = cls(
            topic=str(topic),
            at=fields.integer("at"),
            id=fields.text("id"),
            begin=fields.integers("begin", low=-1),
            stable=fields.integers("stable", low=-1),
            high=fields.integers("high", low=-1),
            data_end=fields.optional_integers("data_end", low=-1),
            gaps=fields.optional_integer_lists("gaps"),
            offsets_topic_ends=fields.optional_integers("offsets_topic_ends"),
        )
        optional: dict[str, tuple[object, ...] | None] = {
            "data_end": record.data_end,
            "gaps": record.gaps,
        }
        require_same_length(
            begin=record.begin,
            stable=record.stable,
            high=record.high,
            **{name: column for name, column in optional.items() if column is not None},
        )
        for offsets in record.gaps or ():
            if len(offsets) % 2 or any(a > b for a, b in pairwise(offsets[2:])):
                raise WireError("gaps: expected ascending pairs of offsets")
        return record


def require_same_length(**columns: tuple[object, ...]) -> None:
    """Raise `WireError` unless all columns have the same length."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise WireError(f"lists of one topic differ in length: {lengths}")
