"""Resumption: which records of members count at a start, and as what. Pure.

Law: a start takes in the newest record of each life, in the order in which they were written, by
the function that takes in the same record live (`group_records.apply`), on the group that the
planner's own records describe. So both believe the same of each life. A life that the ledger has
and that is not live yet resumes: it was a member of the last planner, and stays one.

With what no record keeps, a start begins anew:

- All waits begin at the start: those of silence, of patience and of evictions.
- Conflicts, bars and freezes are forgotten. They come about again where their cause goes on.
- The order in which lives of one instance began is not known, since each announcement replaces the
  one before. The life that wrote last is live.
- A refused life is judged again, by the timers of this daemon (`recover_ledger`).
- The announcement of a life is lost if the ledger has the life, and neither the announcement nor
  its tombstone is known. The life is evicted.
- An ended life is known for as long as the tombstone of its assignment is, and the group has
  another record.
- The grants of a life count as made at the epoch of its newest record (`recover_holding`): a member
  that could not start what an older record granted tries again when it reads the newest.
- That a group waits for members whose records are lost is known by the claims of others alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol.records import MemberRecord, Tombstone

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator


def believed(
    members: Iterable[MemberRecord | Tombstone], holders: Container[Incarnation]
) -> Iterator[MemberRecord | Tombstone]:
    """Yield the records of members that count at a start, as if each were read just now.

    The newest of each life counts, and all that it says but the record that the member could not
    apply: `reported` has that, when all members are known. That a life is gone counts if the
    planner's records have it: there may be tombstones of a day's lives.

    Args:
        members: the newest announcement or tombstone of each life, in the order in which they were
            written.
        holders: the lives that the planner's records have.
    """
    for record in members:
        if isinstance(record, Tombstone):
            _, _, instance, incarnation = record.key
            if Incarnation(str(instance), str(incarnation)) in holders:
                yield record
        elif record.nack is not None:
            yield replace(record, nack=None)
        else:
            yield record


def reported(
    members: Iterable[MemberRecord | Tombstone], known: Container[Incarnation]
) -> Iterator[MemberRecord]:
    """Yield the announcements that a start takes in once more, for what members report in them.

    Who else reads a topic decides whether a member that could not start it is barred from it.

    Args:
        members: the newest announcement or tombstone of each life.
        known: the lives that are live or refused after all of these were taken in.
    """
    for record in members:
        if (
            isinstance(record, MemberRecord)
            and record.nack is not None
            and Incarnation(record.instance, record.incarnation) in known
        ):
            yield record
