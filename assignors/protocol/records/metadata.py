"""Records of levelwind.metadata: what the observer saw of brokers, topics and offsets."""

# ruff: noqa: D102 - key, value and read are the same three of every record: its key, its JSON, and the way back.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from assignors.protocol.json_fields import Fields

Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """A broker and its rack; one that went away keeps its last known rack."""

    KIND: ClassVar = "broker"
    V: ClassVar = 1

    broker: int
    at: int
    rack: str | None
    online: bool

    @property
    def key(self) -> Key:
        return ("broker", self.broker)

    def value(self) -> dict[str, object]:
        return {"v": self.V, "at": self.at, "rack": self.rack, "online": self.online}

    @classmethod
    def read(cls, key: Key, fields: Fields) -> BrokerRecord:
        _, broker = key
        return cls(
            broker=int(broker),
            at=fields.integer("at"),
            rack=fields.optional_text("rack"),
            online=fields.flag("online"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic's layout, written when it changes; every list is indexed by partition."""

    KIND: ClassVar = "topic"
    V: ClassVar = 1

    topic: str
    at: int
    id: str
    leader: tuple[int, ...]
    """-1: none."""
    replicas: tuple[tuple[int, ...], ...]
    isr: tuple[tuple[int, ...], ...]
    racks: tuple[tuple[str, ...], ...]
    """The set of replica racks, sorted."""

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
        same_length(
            leader=record.leader, replicas=record.replicas, isr=record.isr, racks=record.racks
        )
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRecord:
    """A sample of a topic's offsets; the lists but `offsets_topic_ends` are indexed by partition, -1 where it could not be read."""

    KIND: ClassVar = "offsets"
    V: ClassVar = 2

    topic: str
    at: int
    id: str
    begin: tuple[int, ...]
    stable: tuple[int, ...]
    high: tuple[int, ...]
    data_end: tuple[int, ...] | None = None
    """Where the records end that a read_committed consumer is given, below `stable` where only markers and aborted
    transactions follow; -1 where nobody has looked."""
    offsets_topic_ends: tuple[int, ...] | None = None
    """The stable end of each partition of the offsets topic at that time: the commits below it had been made."""

    @property
    def key(self) -> Key:
        return ("offsets", self.topic)

    def value(self) -> dict[str, object]:
        later = {"data_end": self.data_end, "offsets_topic_ends": self.offsets_topic_ends}
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
            offsets_topic_ends=fields.optional_integers("offsets_topic_ends"),
        )
        same_length(
            begin=record.begin,
            stable=record.stable,
            high=record.high,
            **({} if record.data_end is None else {"data_end": record.data_end}),
        )
        return record


def same_length(**columns: tuple[object, ...]) -> None:
    """Refuse columns that are not all indexed by the same partitions."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise WireError(f"lists of one topic differ in length: {lengths}")
