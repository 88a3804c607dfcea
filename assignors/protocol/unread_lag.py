"""Sample of lag whose value is read when it is needed: most samples are replaced before that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from levelwind.assignors.protocol.declared.declaration import declaration_of
from levelwind.assignors.protocol.declared.json_form import decoded
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records import LagRecord, Rejection, decode, encode_key

if TYPE_CHECKING:
    from levelwind.assignors.protocol.declared.fields import Key

_form = declaration_of(LagRecord).form
_head = msgspec.json.Decoder(_form.some("at"))
_figures = msgspec.json.Decoder(_form.some("lag", "rate"))

_begin = re.compile(rb'\{"at":([1-9][0-9]{,17}),').match
"""Of a sample in canonical JSON: any number of so many digits is a time that a record may have."""
BEFORE_LAST: Final = b',"v":%d,"velocity":' % LagRecord.V
"""Bytes before the last list of a sample in canonical JSON, which is its last field."""


class LagFigures(Struct, frozen=True):
    """What a rough look at a sample needs of it."""

    lag: tuple[int, ...]
    """Records behind, by partition."""
    rate: tuple[float | None, ...] | None
    """Records that arrive per second, by partition; None where no rate is known."""


class UnreadLag(Struct, frozen=True, gc=False):
    """A record of `levelwind.lag` of which little has been read.

    It holds nothing that could be in a cycle, so that the collector passes over it and over those
    who hold nothing else.
    """

    group: str
    topic: str
    at: int
    """Time of the sample in milliseconds since the epoch."""
    value: bytes
    """The bytes of the record's value."""

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("lag", self.group, self.topic)

    def figures(self) -> LagFigures | None:
        """Read the figures alone, at a fifth of the cost; None if one breaks the protocol.

        Whether the others do is not found here.
        """
        try:
            read = decoded(_figures, self.value)
        except WireError:
            return None
        return LagFigures(read.lag, read.rate)

    def read(self) -> LagRecord | Rejection:
        """Decode the record; what breaks the protocol is found only here."""
        record = decode("lag", encode_key(self.key), self.value)
        if isinstance(record, LagRecord | Rejection):
            return record
        raise TypeError(f"{self.key} holds {record}")


def left_unread(group: str, topic: str, value: bytes) -> UnreadLag | None:
    """The sample of a group's lag in a topic; None if its value has no time or another version.

    The head of canonical JSON is read from its bytes: the rest may be no JSON, which is found when
    it is read.
    """
    head, last = _begin(value), value.rfind(b"[")
    # Nothing but the end of the value follows the list, so the version is the value's own.
    if head and value.endswith(BEFORE_LAST, 0, last) and value.find(b"]", last) == len(value) - 2:
        return UnreadLag(group, topic, int(head[1]), value)
    try:
        return UnreadLag(group, topic, decoded(_head, value).at, value)
    except WireError:
        return None
