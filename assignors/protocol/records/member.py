"""Record of levelwind.members: a member's announcement."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from assignors.protocol.json_fields import Fields
    from assignors.protocol.partition_ranges import Partitions
    from assignors.protocol.records.metadata import Key

MemberState: TypeAlias = Literal["joining", "active", "left"]

LAST_EPOCH = 2**53
"""Highest epoch in a member's record, so that nobody can push the planner's counter to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    """A planner's record that the member could not apply."""

    epoch: int
    """Epoch of the record; 0 if unknown."""
    code: str
    """Why: "unknown-v" or "malformed"."""

    def value(self) -> dict[str, object]:
        return {"epoch": self.epoch, "code": self.code}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A member's announcement: its properties, heartbeat and acknowledgement."""

    KIND: ClassVar = "member"
    V: ClassVar = 1

    group: str
    instance: str
    """Name of the member, the same in all its lives."""
    incarnation: str
    """Random identifier of this life."""
    client: str
    client_version: str
    topics: tuple[str, ...]
    """Topics that the member subscribes to."""
    rack: str | None
    priority: int
    """Rank for strategies that prefer members: a higher number is preferred."""
    capacity: float
    """Share of the load that the member can take, relative to the others; above 0."""
    state: MemberState
    acked_epoch: int
    """The `member_epoch` of the last record applied; 0 before the first."""
    owned: Partitions
    """Everything that the member may be using."""
    nack: Nack | None
    """The last record that the member could not apply; None after one that it could."""
    features: tuple[str, ...]
    heartbeat: int
    """Number of the announcement in this life."""

    @property
    def key(self) -> Key:
        return ("m", self.group, self.instance, self.incarnation)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "client": self.client,
            "client_version": self.client_version,
            "topics": self.topics,
            "rack": self.rack,
            "priority": self.priority,
            "capacity": self.capacity,
            "state": self.state,
            "acked_epoch": self.acked_epoch,
            "owned": ranges.texts(self.owned),
            "nack": None if self.nack is None else self.nack.value(),
            "features": self.features,
            "heartbeat": self.heartbeat,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> MemberRecord:
        _, group, instance, incarnation = map(str, key)
        return cls(
            group=group,
            instance=instance,
            incarnation=incarnation,
            client=fields.text("client"),
            client_version=fields.text("client_version"),
            topics=fields.texts("topics"),
            rack=fields.optional_text("rack"),
            priority=fields.integer("priority", low=-(2**31), high=2**31 - 1),
            capacity=fields.number("capacity", above=0.0),
            state=fields.one_of("state", ("joining", "active", "left")),
            acked_epoch=fields.integer("acked_epoch", high=LAST_EPOCH),
            owned=fields.partitions("owned"),
            nack=_read_nack(fields.optional_section("nack")),
            features=fields.texts("features"),
            heartbeat=fields.integer("heartbeat"),
        )


def _read_nack(fields: Fields | None) -> Nack | None:
    if fields is None:
        return None
    return Nack(epoch=fields.integer("epoch", high=LAST_EPOCH), code=fields.text("code"))
