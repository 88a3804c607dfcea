"""Records of levelwind.members: a member's announcement, and the planner's canary."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import (
    Capacity,
    Epoch,
    Rank,
    Share,
    ShortName,
    Whole,
)

MemberState: TypeAlias = Literal["joining", "active", "left"]
CanaryState: TypeAlias = Literal["leading", "stopped"]

LONGEST_WAIT_MS = 3_600_000
"""Longest lease, and longest wait for a commit, that a member may ask for."""
LONGEST_POLL_INTERVAL_MS = 86_400_000
MOST_ANNOUNCEMENTS = 2**53
"""Highest number of an announcement."""
WaitMs: TypeAlias = Annotated[int, Meta(ge=1, le=LONGEST_WAIT_MS)]


class Nack(Struct, frozen=True, kw_only=True):
    """A planner's record that the member could not apply."""

    epoch: Epoch
    """Epoch of the record; 0 if unknown."""
    code: ShortName
    """Why: `unknown-v` or `malformed` (it cannot be read), or `start-failed` (it can, but the
    committed offsets of its new partitions cannot be read)."""


class MemberRecord(Declared, frozen=True, kw_only=True):
    """A member's announcement: its properties, heartbeat and acknowledgement."""

    KIND: ClassVar = "member"
    V: ClassVar = 2
    WORD: ClassVar = "m"
    KEY_FIELDS: ClassVar = ("group", "instance", "incarnation")

    group: ShortName
    instance: ShortName
    """Name of the member, the same in all its lives."""
    incarnation: ShortName
    """Random identifier of this life."""
    client: ShortName
    """Name of the client that the member runs on."""
    client_version: ShortName
    """The client's version."""
    topics: tuple[str, ...]
    """Topics that the member subscribes to."""
    rack: ShortName | None
    """Where the member runs; None if it does not say."""
    priority: Rank
    """Rank for strategies that prefer members: a higher number is preferred."""
    capacity: Capacity
    """Share of the load that the member can take, relative to the others; above 0."""
    state: MemberState
    """Whether the member owns nothing yet (`joining`), takes part, or has left."""
    planner_epoch: Epoch
    """The `planner_epoch` of the last record that the member applied in full; 0 before the
    first."""
    acked_epoch: Epoch
    """The `member_epoch` of that record; 0 before the first."""
    owned: Share
    """Every partition that the member may be using: from before it starts until after it has
    stopped and committed."""
    starting: Share
    """The owned partitions that the member was granted and does not read yet."""
    nack: Nack | None
    """The last record that the member could not apply; None after one that it could."""
    features: tuple[str, ...]
    """Abilities of the client beyond the protocol."""
    heartbeat: Annotated[int, Meta(ge=0, le=MOST_ANNOUNCEMENTS)]
    """Number of the announcement in this life."""
    hold_ms: WaitMs
    """Length of the member's lease: how long it may go on without news from the planner."""
    commit_ms: WaitMs
    """Longest wait of the member for a commit whose outcome is unknown."""
    max_poll_interval_ms: Annotated[int, Meta(ge=1, le=LONGEST_POLL_INTERVAL_MS)]
    """Longest time that the application may work on what it got before it gives up partitions."""
    transactional_id: ShortName | None
    """Transactional id of the member's commits; None if its commits are not transactional.

    It is `<prefix><group>/<instance>`, where a slash in a name is `%2F` and a percent sign `%25`.
    The planner fences no id of another form, but the one without these escapes, which older clients
    have.
    """
    pattern: ShortName | None = None
    """Pattern of further topics to read, in the syntax of a finite automaton; None without.

    The planner matches it as topics come and go, and refuses a member whose pattern it cannot use.
    """

    def repeats(self, other: MemberRecord) -> bool:
        """Whether two announcements say the same, apart from their number."""
        return _WITHOUT_NUMBER(self) == _WITHOUT_NUMBER(other)


_WITHOUT_NUMBER = attrgetter(
    *(name for name in MemberRecord.__struct_fields__ if name != "heartbeat")
)


class CanaryRecord(Declared, frozen=True, kw_only=True):
    """A sign of life of the leading planner, which it writes to every partition and reads back.

    A canary that was read back proves that the planner has read everything that its partition held
    when the canary was sent. So the planner may conclude something from a member's silence, and a
    standby knows that it is not needed.
    """

    KIND: ClassVar = "canary"

    planner_epoch: Epoch
    instance: ShortName
    """The planner's daemon, as in `PlannerRecord`."""
    number: Whole
    """Number of the canary, rising."""
    state: CanaryState
    """"stopped" is a planner's last canary: a standby may take over at once."""
