"""Sample of lag whose value is read when it is needed: most samples are replaced before that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors.protocol.records import LagRecord, Rejection, decode, encode_key

if TYPE_CHECKING:
    from assignors.protocol.records import Key


@dataclass(frozen=True, slots=True)
class UnreadLag:
    """A record of `levelwind.lag` in the shape of one that was read: its numbers alone differ."""

    group: str
    topic: str
    value: bytes
    """The bytes of the record's value."""

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("lag", self.group, self.topic)

    def read(self) -> LagRecord | Rejection:
        """Decode the record; a number that breaks the protocol is found only here."""
        record = decode("lag", encode_key(self.key), self.value)
        if isinstance(record, LagRecord | Rejection):
            return record
        raise TypeError(f"{self.key} holds {record}")
