"""The record of levelwind.members: what a member says about itself."""

# ruff: noqa: D102 - key, value and read are the same three of every record: its key, its JSON, and the way back.

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
"""Epochs of members' records end here, so that no stranger can push the planner's counter to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    """A record of the planner's that the member refused."""

    epoch: int
    code: str

    def value(self) -> dict[str, object]:
        return {"epoch": self.epoch, "code": self.code}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A member's announcement, which is its heartbeat and its acknowledgement too."""

    KIND: ClassVar = "member"
    V: ClassVar = 1

    group: str
    instance: str
    incarnation: str
    client: str
    client_version: str
    topics: tuple[str, ...]
    rack: str | None
    priority: int
    capacity: float
    state: MemberState
    acked_epoch: int
    """The `member_epoch` of the last record applied; 0 before the first."""
    owned: Partitions
    nack: Nack | None
    features: tuple[str, ...]
    heartbeat: int

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
