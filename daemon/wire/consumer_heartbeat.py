"""The heartbeat by which a member of a KIP-848 group joins, lives and leaves. Pure.

What is left out is as the member has said before. Source: ConsumerGroupHeartbeatRequest.json of
Apache Kafka, version 1, in which the member chooses its id (KIP-1082).
"""

# ruff: noqa: D102 - as other requests: body (its fields), read (its response's).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from levelwind.assignors.protocol.kafka.types import (
    compact_array,
    compact_string,
    int32,
    uvarint,
)

if TYPE_CHECKING:
    from levelwind.assignors.protocol.kafka.types import Reader

JOINING = 0
"""Epoch of a member that joins, or joins again."""
LEAVING = -1
"""Epoch of a member that leaves."""

TOPIC_AUTHORIZATION_FAILED = 29
FENCED_MEMBER_EPOCH = 110
UNSUPPORTED_ASSIGNOR = 112

REBALANCE_TIMEOUT_MS = 45_000
"""Time that the coordinator lets the member revoke partitions in; it never has any."""
_UNCHANGED = -1


class ConsumerHeartbeatResponse(NamedTuple):
    """State of the group for this member."""

    error: int
    message: str | None
    member_id: str
    epoch: int
    """The member's, which is that of the target assignment that it has caught up with."""
    interval_ms: int
    """Milliseconds to the next heartbeat, as the coordinator wishes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatRequest:
    """Sign of life of a member without partitions."""

    KEY: ClassVar = 68
    VERSION: ClassVar = 1
    FLEXIBLE: ClassVar = True

    group: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    assignor: str | None = None

    def body(self) -> bytes:
        joins = self.epoch == JOINING
        topics = None if self.topics is None else [*map(compact_string, self.topics)]
        return (
            compact_string(self.group)
            + compact_string(self.member_id)
            + int32(self.epoch)
            + compact_string(None)  # group instance id
            + compact_string(self.rack_id)
            + int32(REBALANCE_TIMEOUT_MS if joins else _UNCHANGED)
            + (uvarint(0) if topics is None else compact_array(topics))
            + compact_string(None)  # pattern
            + compact_string(self.assignor)
            + (compact_array([]) if joins else uvarint(0))  # partitions
            + b"\0"
        )

    def read(self, fields: Reader) -> ConsumerHeartbeatResponse:
        fields.int32()  # throttle time
        return ConsumerHeartbeatResponse(
            fields.int16(),
            fields.nullable_string(compact=True),
            fields.nullable_string(compact=True) or "",
            fields.int32(),
            fields.int32(),
        )
