"""Record of a group's plan in levelwind.assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Capacity, Epoch, Name, Rank, Time, Whole
from levelwind.assignors.protocol.declared.marks import (
    NEVER_NULL,
    WRITTEN,
    Renamed,
    Shape,
    Spread,
    Within,
)
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records.cut import Cut

Mode: TypeAlias = Literal["managed", "published", "proxy", "advisory"]
Score: TypeAlias = Mapping[str, float | None]


RackSets: TypeAlias = tuple[tuple[str, ...], ...]


def _read_racks(sets: RackSets, of: tuple[int, ...]) -> RackSets:
    if max(of, default=-1) >= len(sets):
        raise WireError("of: an index that is not in sets")
    return tuple([sets[number] for number in of])


def _write_racks(racks: RackSets) -> dict[str, Any]:
    sets = sorted(set(racks))
    index = {each: number for number, each in enumerate(sets)}
    return {"sets": sets, "of": [index[each] for each in racks]}


class PlannedRacks(Struct, frozen=True, kw_only=True):
    """Replica racks that a plan was computed from.

    Written as the distinct sets, and the index of its set for each partition: partitions are many,
    sets are few.
    """

    at: Time
    """Time of the topic's record, in milliseconds since the epoch."""
    racks: Annotated[
        RackSets, Spread({"sets": RackSets, "of": tuple[Whole, ...]}, _read_racks, _write_racks)
    ]
    """Sorted racks of each partition's replicas."""


class PlannedTopic(Struct, frozen=True, kw_only=True):
    """A topic as the plan saw it."""

    id: Name
    """Kafka's topic id."""
    partitions: Whole
    """Number of partitions."""
    racks: Annotated[PlannedRacks | None, WRITTEN] = None
    """Replica racks; None if the plan did not record any."""
    new_from: Whole | None = None
    """The first partition that did not exist when the group's plans began to cover the topic; None
    if all did."""


class PlannedMember(Struct, frozen=True, kw_only=True):
    """A member as the plan saw it."""

    instance: Name
    incarnation: Name
    rack: Name | None
    capacity: Capacity
    priority: Annotated[Rank, WRITTEN, NEVER_NULL] = 0
    topics: Annotated[
        tuple[str, ...] | None, Shape(Whole | None), Renamed("subscription"), WRITTEN
    ] = None
    """Sorted topics that the member subscribed to; None if the plan did not record any.

    Written as an index: members are many, subscriptions are few.
    """
    pattern: Name | None = None
    """Pattern of further topics that it subscribed to; `topics` has those that were there."""


_Subscriptions: TypeAlias = tuple[tuple[str, ...], ...]


def _read_members(
    subscriptions: _Subscriptions | None, members: tuple[PlannedMember, ...]
) -> tuple[PlannedMember, ...]:
    """The members, of such with the index of their topics."""
    return tuple([replace(m, topics=_subscription(m.topics, subscriptions)) for m in members])


def _subscription(
    index: Any,
    subscriptions: _Subscriptions | None,
) -> tuple[str, ...] | None:
    if index is None or subscriptions is None:
        return None
    if index >= len(subscriptions):
        raise WireError("subscription: an index that is not in subscriptions")
    return subscriptions[index]


def _write_members(members: tuple[PlannedMember, ...]) -> dict[str, Any]:
    sets = sorted({member.topics for member in members if member.topics is not None})
    index: dict[Any, Any] = {topics: number for number, topics in enumerate(sets)}
    indexed = [replace(member, topics=index.get(member.topics)) for member in members]
    return {"subscriptions": sets, "members": indexed}


Members: TypeAlias = Annotated[
    tuple[PlannedMember, ...],
    Spread(
        {"subscriptions": _Subscriptions | None, "members": tuple[PlannedMember, ...]},
        _read_members,
        _write_members,
    ),
]
"""Members, and once each their subscriptions."""


class SpentMoves(Struct, frozen=True, kw_only=True):
    """Partitions that plans of one cause have moved within a minute."""

    at: Time
    """When the last of these plans was made, in milliseconds since the epoch."""
    cause: Name
    moves: Whole


class PlannedCauseCooldown(Struct, frozen=True, kw_only=True):
    """Cooldown of one cause of plans."""

    until: Time
    """End of the cooldown, in milliseconds since the epoch."""
    pause_ms: Whole
    """Length of the cooldown."""


class PlannedCooldown(Struct, frozen=True, kw_only=True):
    """Cooldowns of a group after its plan, so that a restarted daemon keeps to them.

    Times are milliseconds since the epoch of the planner's clock.
    """

    until: Time
    """End of the last cooldown of any cause; for versions that keep one cooldown for all causes."""
    pause_ms: Whole
    """Length of the longest cooldown of any cause; for the same versions."""
    skew_before: float | None
    """The skew before the plan, as older versions evaluate its gain; None: no gain in skew."""
    skew_after: float | None
    """The skew that the plan is expected to bring; None with `skew_before`."""
    spent: tuple[SpentMoves, ...]
    """Moves of the last hour."""
    causes: Annotated[Mapping[str, PlannedCauseCooldown] | None, NEVER_NULL] = None
    """Cooldowns by cause; None in a record of such an older version."""
    excess_before: Annotated[float | None, NEVER_NULL] = None
    """Seconds by which the largest load exceeded the least that a plan could reach, before the
    plan; None unless its gain is still to be evaluated."""
    excess_after: Annotated[float | None, NEVER_NULL] = None
    """The same seconds as expected after the plan; None with `excess_before`."""
    handover_ms: Annotated[Whole | None, NEVER_NULL] = None
    """Mean length of the group's hand-overs; None in a record of an older version."""


class CertifiedObjective(Struct, frozen=True, kw_only=True):
    """Value of a plan in one objective, with a bound that no plan can beat; less is better."""

    value: float
    bound: float
    bound_kind: Name
    """Argument that proves the bound."""
    partitions: tuple[str, ...]
    """Partitions that alone force the bound, as topic-number."""


class PlanCertificate(Struct, frozen=True, kw_only=True):
    """Proof of how good a plan is."""

    complete: bool
    """Whether the search was not cut short."""
    cut_by: tuple[str, ...]
    """Limits that cut the search short: "time", "moves"."""
    objectives: Mapping[str, CertifiedObjective]
    """Objectives by name."""
    summary: tuple[str, ...]
    """The certificate in sentences for operators."""


class GroupRecord(Declared, frozen=True, kw_only=True):
    """A group's plan: its cause, its inputs and its scores."""

    KIND: ClassVar = "group"
    V: ClassVar = 2
    WORD: ClassVar = "g"
    KEY_FIELDS: ClassVar = ("group",)

    group: Name
    mode: Mode
    planner_epoch: Epoch
    """Epoch of the planner that made the plan."""
    group_epoch: Epoch
    """Epoch of the plan; with `planner_epoch` it strictly increases."""
    plan_id: Name
    strategy: Name
    cause: str
    """Why the plan was made: membership, topics, operator, racks or skew."""
    lag_at: Annotated[Time | None, Within("inputs")]
    """Time of the oldest lag in the plan's input, in milliseconds since the epoch."""
    metadata_at: Annotated[Time | None, Within("inputs")]
    """Time of the newest topic layout in the plan's input, in milliseconds since the epoch."""
    topics: Mapping[str, PlannedTopic]
    members: Members
    before: Annotated[Score | None, Within("score")]
    """Scores of the assignment before the plan, by name."""
    after: Annotated[Score | None, Within("score")]
    """Scores of the planned assignment, by name."""
    computed_at: Time
    """When the plan was made, in milliseconds since the epoch."""
    digest: str
    """Hash of group, epoch and assignment."""
    certificate: Annotated[PlanCertificate | None, WRITTEN] = None
    """Proof of how good the plan is; None if the strategy gives none."""
    cooldown: Annotated[PlannedCooldown | None, WRITTEN] = None
    """The group's cooldown; None if the record does not say it."""
    shards: Annotated[Cut | None, WRITTEN] = None
    """The shards that hold all of `topics` and `members`, which are empty here; None: the record is
    whole."""
    assignments: Annotated[Cut | None, WRITTEN] = None
    """The shards of key `p` that hold the assignment, for a mode other than `managed`; None: the
    members' own records have it."""
    last_epoch: Annotated[Epoch | None, WRITTEN] = None
    """The highest epoch that any record of the group had, where no other record that is left says
    it; None: the group's records say it."""
    levers: Name | None = None
    """Hash of the levers that the plan was made under; None: there were none."""
    orphans_only: bool | None = None
    """Whether the plan was made while planning was frozen, and gives orphans a reader and moves
    nothing else: the whole plan is still due. None: it is the whole plan."""

    @property
    def new_from(self) -> dict[str, int]:
        """By topic, the first partition that is new to the group; topics without one left out."""
        return {
            name: topic.new_from
            for name, topic in self.topics.items()
            if topic.new_from is not None
        }

    @property
    def newest_epoch(self) -> int:
        """The highest group epoch that the record proves to be used."""
        return max(self.group_epoch, self.last_epoch or 0)
