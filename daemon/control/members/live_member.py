"""Live members, and what a plan depends on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from levelwind.assignors.handover.holding import Holding
from levelwind.assignors.protocol.records import MemberRecord, TopicRecord


class Live(Struct, frozen=True):
    """A live member."""

    record: MemberRecord
    """The last announcement."""
    last_seen: float
    """Readable time at which the announcement was read."""
    holding: Holding | None = None
    """The member's holding in the ledger after the announcement was taken in: while the ledger has
    the same object, the same announcement changes nothing there. None where it might."""
    layouts: Mapping[str, TopicRecord] | None = None
    """The table of layouts by which the announcement was last taken in, if that was later left as
    it was: the same announcement says the same by the same table. None if that is not known."""


class Profile(NamedTuple):
    """Properties of a member that a plan depends on; a heartbeat that repeats them is no change."""

    topics: frozenset[str]
    rack: str | None
    priority: int
    capacity: float

    @classmethod
    def of(cls, record: MemberRecord) -> Profile:
        """Take the properties from an announcement."""
        return cls(frozenset(record.topics), record.rack, record.priority, record.capacity)


class Basis(NamedTuple):
    """Inputs that a plan was made for; a group whose basis is unchanged needs no other plan."""

    members: Mapping[str, Profile]
    """The live members, by instance."""
    topics: Mapping[str, tuple[str, int]]
    """Id and number of partitions of the topics that members read, by name."""
