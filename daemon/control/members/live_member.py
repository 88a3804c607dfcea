"""Live members, and what a plan depends on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from levelwind.assignors.handover.holding import Holding
from levelwind.assignors.protocol.records import GroupRecord, MemberRecord, TopicRecord


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

    @classmethod
    def of(
        cls,
        members: Mapping[str, Profile],
        read: Iterable[str],
        layouts: Mapping[str, TopicRecord],
    ) -> Basis:
        """Return the basis of a plan made now, without topics whose layouts are not known."""
        known = {name: layouts[name] for name in sorted(read) if name in layouts}
        return cls(members, {name: (topic.id, topic.partitions) for name, topic in known.items()})

    @classmethod
    def planned(cls, plan: GroupRecord, known: Mapping[str, Profile]) -> Basis:
        """Return the basis that a plan was made for, as its record says.

        The record of an older planner has no subscriptions: those of `known` stand in for them.
        """
        return cls(
            {
                member.instance: Profile(
                    topics=known[member.instance].topics
                    if member.topics is None and member.instance in known
                    else frozenset(member.topics or ()),
                    rack=member.rack,
                    priority=member.priority,
                    capacity=member.capacity,
                )
                for member in plan.members
            },
            {name: (topic.id, topic.partitions) for name, topic in plan.topics.items()},
        )
