"""Records of levelwind.members: a member's announcement, and the planner's canary."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records.metadata import Key

MemberState: TypeAlias = Literal["joining", "active", "left"]
CanaryState: TypeAlias = Literal["leading", "stopped"]

LAST_EPOCH = 2**40
"""Highest epoch of any record.

A planner that publishes a thousand epochs a second reaches it after 34 years. A member that claims
a higher one is refused, so that nobody can push the planner's counter to its end.
"""
LEAST_CAPACITY, MOST_CAPACITY = 1e-6, 1e6
"""Bounds of a capacity: plans divide by it, and add what they divided."""
LONGEST_WAIT_MS = 3_600_000
"""Longest lease, and longest wait for a commit, that a member may ask for."""
LONGEST_POLL_INTERVAL_MS = 86_400_000
MOST_ANNOUNCEMENTS = 2**53
"""Highest number of an announcement."""
MOST_CHARACTERS = 1024
"""Longest name or version that an announcement may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    """A planner's record that the member could not apply."""

    epoch: int
    """Epoch of the record; 0 if unknown."""
    code: str
    """Why: "unknown-v" or "malformed" (it cannot be read), or "start-failed" (it can, but the
    committed offsets of its new partitions cannot be read)."""

    def value(self) -> dict[str, object]:
        return {"epoch": self.epoch, "code": self.code}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A member's announcement: its properties, heartbeat and acknowledgement."""

    KIND: ClassVar = "member"
    V: ClassVar = 2

    group: str
    instance: str
    """Name of the member, the same in all its lives."""
    incarnation: str
    """Random identifier of this life."""
    client: str
    client_version: str
    topics: tuple[str, ...]
    """Topics that the member subscribes to."""
    rack: str | None
    priority: int
    """Rank for strategies that prefer members: a higher number is preferred."""
    capacity: float
    """Share of the load that the member can take, relative to the others; above 0."""
    state: MemberState
    planner_epoch: int
    """The `planner_epoch` of the last record applied; 0 before the first."""
    acked_epoch: int
    """The `member_epoch` of the last record applied; 0 before the first."""
    owned: Partitions
    """Everything that the member may be using."""
    starting: Partitions
    """The owned partitions that the member was granted and does not read yet."""
    nack: Nack | None
    """The last record that the member could not apply; None after one that it could."""
    features: tuple[str, ...]
    heartbeat: int
    """Number of the announcement in this life."""
    hold_ms: int
    """Length of the member's lease: how long it may go on without news from the planner."""
    commit_ms: int
    """Longest wait of the member for a commit whose outcome is unknown."""
    max_poll_interval_ms: int
    """Longest time that the application may work on what it got before it gives up partitions."""
    transactional_id: str | None = None
    """Transactional id of the member's commits; None if its commits are not transactional."""
    pattern: str | None = None
    """Pattern of further topics to read, which the planner matches as topics come and go; None
    without. `levelwind.assignors.protocol.patterns` has its syntax."""

    @property
    def key(self) -> Key:
        return ("m", self.group, self.instance, self.incarnation)

    def repeats(self, other: MemberRecord) -> bool:
        """Whether two announcements say the same, apart from their number."""
        return _WITHOUT_NUMBER(self) == _WITHOUT_NUMBER(other)

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
            "planner_epoch": self.planner_epoch,
            "acked_epoch": self.acked_epoch,
            "owned": ranges.texts(self.owned),
            "starting": ranges.texts(self.starting),
            "nack": None if self.nack is None else self.nack.value(),
            "features": self.features,
            "heartbeat": self.heartbeat,
            "hold_ms": self.hold_ms,
            "commit_ms": self.commit_ms,
            "max_poll_interval_ms": self.max_poll_interval_ms,
            "transactional_id": self.transactional_id,
            **({} if self.pattern is None else {"pattern": self.pattern}),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> MemberRecord:
        _, group, instance, incarnation = map(str, key)
        return cls(
            group=_short(group, "group"),
            instance=_short(instance, "instance"),
            incarnation=_short(incarnation, "incarnation"),
            client=_short(fields.text("client"), "client"),
            client_version=_short(fields.text("client_version"), "client_version"),
            topics=fields.texts("topics"),
            rack=_optional_short(fields.optional_text("rack"), "rack"),
            priority=fields.integer("priority", low=-(2**31), high=2**31 - 1),
            capacity=fields.number("capacity", low=LEAST_CAPACITY, high=MOST_CAPACITY),
            state=fields.one_of("state", ("joining", "active", "left")),
            planner_epoch=fields.integer("planner_epoch", high=LAST_EPOCH),
            acked_epoch=fields.integer("acked_epoch", high=LAST_EPOCH),
            owned=fields.partitions("owned"),
            starting=fields.partitions("starting"),
            nack=_read_nack(fields.optional_section("nack")),
            features=fields.texts("features"),
            heartbeat=fields.integer("heartbeat", high=MOST_ANNOUNCEMENTS),
            hold_ms=fields.integer("hold_ms", low=1, high=LONGEST_WAIT_MS),
            commit_ms=fields.integer("commit_ms", low=1, high=LONGEST_WAIT_MS),
            max_poll_interval_ms=fields.integer(
                "max_poll_interval_ms", low=1, high=LONGEST_POLL_INTERVAL_MS
            ),
            transactional_id=_optional_short(
                fields.optional_text("transactional_id"), "transactional_id"
            ),
            pattern=_optional_short(fields.optional_missing_text("pattern"), "pattern"),
        )


_WITHOUT_NUMBER = attrgetter(
    *(field.name for field in fields(MemberRecord) if field.name != "heartbeat")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRecord:
    """A sign of life of the leading planner, which it writes to every partition and reads back.

    A canary that was read back proves that the planner has read everything that its partition held
    when the canary was sent. So the planner may conclude something from a member's silence, and a
    standby knows that it is not needed.
    """

    KIND: ClassVar = "canary"
    V: ClassVar = 1

    planner_epoch: int
    instance: str
    """The planner's daemon, as in `PlannerRecord`."""
    number: int
    """Number of the canary, rising."""
    state: CanaryState
    """"stopped" is a planner's last canary: a standby may take over at once."""

    @property
    def key(self) -> Key:
        return ("canary",)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "planner_epoch": self.planner_epoch,
            "instance": self.instance,
            "number": self.number,
            "state": self.state,
        }

    @classmethod
    def read(cls, _key: Key, fields: Fields) -> CanaryRecord:
        return cls(
            planner_epoch=fields.integer("planner_epoch", high=LAST_EPOCH),
            instance=_short(fields.text("instance"), "instance"),
            number=fields.integer("number"),
            state=fields.one_of("state", ("leading", "stopped")),
        )


def _read_nack(fields: Fields | None) -> Nack | None:
    if fields is None:
        return None
    return Nack(
        epoch=fields.integer("epoch", high=LAST_EPOCH), code=_short(fields.text("code"), "code")
    )


def _short(text: str, name: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise WireError(f"{name}: expected at most {MOST_CHARACTERS} characters, got {len(text)}")
    return text


def _optional_short(text: str | None, name: str) -> str | None:
    return None if text is None else _short(text, name)
