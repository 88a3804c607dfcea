"""Sample of lag whose value is read when it is needed: most samples are replaced before that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.protocol import json_fields
from levelwind.assignors.protocol.json_fields import MAX_INT64, Fields
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records import LagRecord, Rejection, decode, encode_key

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Key

AT, LAG, RATE = b'"at":', b'"lag":[', b'"rate":['
"""The bytes before the figures that can be read alone."""

MOST_DIGITS = len(str(MAX_INT64))


class LagFigures(NamedTuple):
    """What a rough look at a sample needs of it."""

    lag: tuple[int, ...]
    """Records behind, by partition."""
    rate: tuple[float | None, ...] | None
    """Records that arrive per second, by partition; None where no rate is known."""


class UnreadLag(NamedTuple):
    """A record of `levelwind.lag` in the shape of one that was read: its numbers alone differ."""

    group: str
    topic: str
    value: bytes
    """The bytes of the record's value, which `has_plain_figures`."""

    @property
    def key(self) -> Key:
        """The key of the record."""
        return ("lag", self.group, self.topic)

    @property
    def at(self) -> int | None:
        """Time of the sample in milliseconds since the epoch; None if the record breaks there."""
        begin = self.value.index(AT) + len(AT)
        digits, behind, _ = self.value[begin : begin + MOST_DIGITS + 1].partition(b",")
        return int(digits) if digits.isdigit() and behind else None

    def figures(self) -> LagFigures | None:
        """Read the figures alone, at a quarter of the cost; None if one breaks the protocol.

        Whether the others do is not found here.
        """
        found = [self._column(name) for name in (LAG, RATE) if name in self.value]
        try:
            fields = Fields(json_fields.loads(b"{" + b",".join(found) + b"}"))
            return LagFigures(lag=fields.integers("lag"), rate=fields.optional_numbers("rate"))
        except WireError:
            return None

    def _column(self, name: bytes) -> bytes:
        """Return a field whose value is a list of numbers, with its name."""
        begin = self.value.index(name)
        return self.value[begin : self.value.index(b"]", begin) + 1]

    def read(self) -> LagRecord | Rejection:
        """Decode the record; a number that breaks the protocol is found only here."""
        record = decode("lag", encode_key(self.key), self.value)
        if isinstance(record, LagRecord | Rejection):
            return record
        raise TypeError(f"{self.key} holds {record}")


def has_plain_figures(value: bytes) -> bool:
    """Whether each figure stands in one place alone in the value of a record that can be read.

    No text can contain their names with the quotes: in a text a quote is escaped.
    """
    return value.count(AT) == 1 and value.count(LAG) == 1 and value.count(RATE) <= 1
