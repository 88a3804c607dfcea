"""Decoding of a log's records in their order, of which most repeat the one before.

A member announces itself every few seconds, and mostly says the same under the next number. An
announcement with the same bytes around its number has the same fields, so that it need not be read
again: the result is that of `decode`, or where numbers are of no interest, the very record of the
announcement that it repeats. A sample of lag is left unread until somebody needs it, but for the
first one of its key: a writer that breaks the protocol is mostly found at once.

A record that was cut as text is decoded when its head comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from levelwind.assignors.protocol.records import CUT_AS_TEXT, LagRecord, MemberRecord, decode
from levelwind.assignors.protocol.records.member import MOST_ANNOUNCEMENTS
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind.assignors.protocol.unread_lag import UnreadLag, left_unread

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Record, Rejection, Tombstone
    from levelwind.assignors.protocol.topics import TopicKind

NUMBER = b'"heartbeat":'
"""The bytes before the number of an announcement."""

MOST_MEMBERS = 200_000
"""Members of which the last announcement is kept; it takes about two kilobytes."""

NUMBER_DIGITS = len(str(MOST_ANNOUNCEMENTS)) - 1
"""Number of digits up to which every number is one that a record may have."""


class _Announcement(NamedTuple):
    """The last announcement of a member that was read in full."""

    before: bytes
    """Its bytes up to its number."""
    after: bytes
    """Its bytes behind its number."""
    record: MemberRecord
    """The record that was read."""

    def number_in(self, value: bytes) -> bytes | None:
        """Return the number of an announcement that says the same; None if it does not."""
        if not (value.startswith(self.before) and value.endswith(self.after)):
            return None
        digits = value[len(self.before) : len(value) - len(self.after)]
        if not (digits.isdigit() and len(digits) <= NUMBER_DIGITS):
            return None
        return None if digits.startswith(b"0") and digits != b"0" else digits


class RepeatedRecords:
    """Decodes records, and remembers the last announcement of each member."""

    def __init__(self, most_members: int = MOST_MEMBERS, *, lazy: bool = False) -> None:
        """Begin without any.

        Args:
            most_members: members to remember, and samples.
            lazy: whether to leave unread what mostly nobody needs: samples of lag, and the number
                of an announcement that repeats another, which is then that other's.
        """
        self._last: dict[bytes, _Announcement] = {}
        """By key; the one that was read in full longest ago is the first."""
        self._sampled: dict[bytes, tuple[str, str]] = {}
        """Group and topic by the key of a sample of lag that was read."""
        self._reassembly = Reassembly()
        self._most_members = most_members
        self._lazy = lazy

    def decode(
        self, kind: TopicKind, key: bytes | None, value: bytes | None
    ) -> Record | Tombstone | Rejection | UnreadLag | None:
        """Decode a message of one of levelwind's topics; value None is a tombstone.

        None: the message is part of a record that is not whole; its reader keeps what it had.
        """
        if kind in CUT_AS_TEXT:
            return self._decode_whole(kind, key, value)
        if kind != "members" or key is None:
            return decode(kind, key, value)
        last = self._last.get(key)
        if last is not None and value is not None:
            number = last.number_in(value)
            if number is not None:
                return last.record if self._lazy else replace(last.record, heartbeat=int(number))
        record = decode(kind, key, value)
        if last is not None:
            del self._last[key]
        if isinstance(record, MemberRecord) and value is not None:
            self._remember(key, value, record)
        return record

    def _decode_whole(
        self, kind: TopicKind, key: bytes | None, value: bytes | None
    ) -> Record | Tombstone | Rejection | UnreadLag | None:
        """Decode a record that may have been cut as text.

        A sample is left unread if the one before it was a sample as well.
        """
        if kind != "lag" or key is None or not self._lazy:
            found = self._reassembly.take_text(kind, decode(kind, key, value))
            return self._decode_whole(kind, key, found) if isinstance(found, bytes) else found
        names = self._sampled.get(key)
        if names is not None and value is not None:
            unread = left_unread(*names, value)
            if unread is not None:
                return unread
        record = self._reassembly.take_text(kind, decode(kind, key, value))
        if record is None or isinstance(record, bytes):
            return None if record is None else self._decode_whole(kind, key, record)
        self._sampled.pop(key, None)
        if isinstance(record, LagRecord):
            if len(self._sampled) >= self._most_members:
                del self._sampled[next(iter(self._sampled))]
            self._sampled[key] = record.group, record.topic
        return record

    def _remember(self, key: bytes, value: bytes, record: MemberRecord) -> None:
        """Remember an announcement if its number stands in one place alone.

        Without an escape no text can contain a quote, so that the only such bytes are the name of
        the field that was read.
        """
        before, name, rest = value.partition(NUMBER)
        digits = str(record.heartbeat).encode()
        behind = rest[len(digits) :]
        if (
            b"\\" in value
            or value.count(NUMBER[:-1]) != 1
            or not rest.startswith(digits)
            or behind[:1] not in {b",", b"}"}
        ):
            return
        if len(self._last) >= self._most_members:
            del self._last[next(iter(self._last))]
        self._last[key] = _Announcement(before + name, behind, record)
