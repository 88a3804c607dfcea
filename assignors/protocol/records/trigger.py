"""Records of levelwind.triggers: causes to plan a group again, with their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Name, Number, Offset, Time, Whole
from levelwind.assignors.protocol.declared.marks import Cases, Renamed, Spread
from levelwind.assignors.protocol.partition_ranges import WireError

TriggerKind: TypeAlias = Literal["racks", "skew"]


class RackChange(Struct, frozen=True, kw_only=True):
    """Replica racks of a partition at the last plan (`before`) and now (`after`)."""

    before: Annotated[tuple[str, ...], Renamed("from")]
    after: Annotated[tuple[str, ...], Renamed("to")]


MOST_DIGITS = 10
"""Most digits of a partition's number."""
PartitionNumber: TypeAlias = Annotated[int, Meta(ge=0, lt=10**MOST_DIGITS)]
Changes: TypeAlias = Mapping[str, Mapping[PartitionNumber, RackChange]]
_Number: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": "^(0|[1-9][0-9]{0,9})$"})]


def _read_changes(
    topics: Mapping[str, Mapping[str, RackChange]], partitions: int
) -> dict[str, dict[int, RackChange]]:
    read = {
        topic: {_number(text): change for text, change in changes.items()}
        for topic, changes in topics.items()
    }
    if partitions != sum(map(len, read.values())):
        raise WireError("partitions is not the number of partitions in topics")
    return read


def _write_changes(topics: Changes) -> dict[str, Any]:
    written = {
        topic: {str(number): change for number, change in changes.items()}
        for topic, changes in topics.items()
    }
    return {"topics": written, "partitions": sum(map(len, written.values()))}


def _number(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS:
        number = int(text)
        if str(number) == text:
            return number
    raise WireError("a key that is no partition number")


class RacksEvidence(Struct, frozen=True, kw_only=True):
    """Partitions whose replica racks differ from those of the last plan, by topic and number."""

    topics: Annotated[
        Changes,
        Spread(
            {"topics": Mapping[str, Mapping[_Number, RackChange]], "partitions": Whole},
            _read_changes,
            _write_changes,
        ),
    ]

    @property
    def partitions(self) -> int:
        """Number of partitions that changed."""
        return sum(map(len, self.topics.values()))


class MemberLoad(Struct, frozen=True, kw_only=True):
    """Load of a member, with its parts."""

    seconds: Number
    """The load: backlog and the horizon's arrivals, over the capacity."""
    backlog: Whole
    """Records that wait for the member."""
    arrivals: Number
    """Records that arrive for it per second."""
    capacity: Number
    """Records per second that it can read."""


class SkewEvidence(Struct, frozen=True, kw_only=True):
    """Uneven distribution of a group's work over its members.

    Loads are seconds, as `levelwind.assignors.problem.drain` defines them; rates and capacities are
    records a second.
    """

    heaviest: Number
    """Largest load of a member."""
    best: Number
    """Largest load that no assignment is below."""
    threshold: Number
    """Ratio of the two from which skew counts."""
    floor_seconds: Number
    """Difference of the two from which skew counts."""
    utilisation: Number
    """Largest share of its capacity that the arrivals of a member need."""
    best_utilisation: Number
    """Largest such share that no assignment is below."""
    utilisation_limit: Number
    """Utilisation from which it counts as skew, if a plan could lower it."""
    backlog: Whole
    """Records that wait for the whole group."""
    arrivals: Number
    """Records that arrive for the whole group."""
    capacity: Number
    """Records that all members together can read."""
    assumed: bool
    """Whether no member's speed is known, so that capacities and seconds are assumed."""
    horizon: Number
    """Seconds of arrivals that count: the group's own time to drain, within its bounds."""
    skew: Number
    """Largest load of a member, relative to the mean; 1 without any load."""
    members: Mapping[str, MemberLoad]
    """Load by instance."""


class TriggerRecord(Declared, frozen=True, kw_only=True):
    """A cause to plan a group again: active until a tombstone clears it."""

    KIND: ClassVar = "trigger"
    V: ClassVar = 2
    WORD: ClassVar = None
    KEY_FIELDS: ClassVar = ("kind", "group")
    KEY_IN_VALUE: ClassVar = True

    group: Name
    at: Time
    """Time of the evidence, in milliseconds since the epoch."""
    since: Time
    """Time since which the cause has lasted, in milliseconds since the epoch."""
    evidence: Annotated[
        RacksEvidence | SkewEvidence,
        Cases("kind", {"racks": RacksEvidence, "skew": SkewEvidence}),
    ]
    source: Mapping[str, Offset]
    """Offset up to which each input partition was read, by "topic/partition"."""

    @property
    def kind(self) -> TriggerKind:
        """The cause."""
        return "racks" if isinstance(self.evidence, RacksEvidence) else "skew"
