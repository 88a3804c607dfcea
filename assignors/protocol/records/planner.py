"""Records of the planner and of its members' assignments, and requests to it."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.json_fields import LATEST_MS
from levelwind.assignors.protocol.records.cut import Cut
from levelwind.assignors.protocol.records.member import LAST_EPOCH, LEAST_CAPACITY, MOST_CAPACITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records.metadata import Key

AssignmentState: TypeAlias = Literal["active", "evicted", "refused"]
"""State of an incarnation: it may own partitions; everything was taken from it for good; or the
planner cannot serve it, for the reason that its record gives."""
Action: TypeAlias = Literal["rebalance", "apply", "approve"]
"""What an operator asks for: a plan computed now, the very assignment that the request gives, or
the plan that waits for approval."""
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRecord:
    """The leading planner; written to every partition, before anything else of its epoch."""

    KIND: ClassVar = "planner"
    V: ClassVar = 1

    planner_epoch: int
    instance: str
    started_at: int
    """When the planner took over, in milliseconds since 1970."""

    @property
    def key(self) -> Key:
        return ("planner",)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "planner_epoch": self.planner_epoch,
            "instance": self.instance,
            "started_at": self.started_at,
        }

    @classmethod
    def read(cls, _key: Key, fields: Fields) -> PlannerRecord:
        return cls(
            planner_epoch=fields.integer("planner_epoch", high=LAST_EPOCH),
            instance=fields.text("instance"),
            started_at=fields.integer("started_at", high=LATEST_MS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRecord:
    """How the planner's leader proxy stands to a group, when that last changed."""

    KIND: ClassVar = "proxy"
    V: ClassVar = 1

    group: str
    at: int
    """When it changed, in milliseconds since the epoch."""
    planner_epoch: int
    standing: str
    """As an operator reads it: `leading`, `waiting for the lead`, ..."""
    reason: str
    """Why the proxy left the group or stays out of it; else empty."""

    @property
    def key(self) -> Key:
        return ("proxy", self.group)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "planner_epoch": self.planner_epoch,
            "standing": self.standing,
            "reason": self.reason,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> ProxyRecord:
        _, group = key
        return cls(
            group=str(group),
            at=fields.integer("at", high=LATEST_MS),
            planner_epoch=fields.integer("planner_epoch", high=LAST_EPOCH),
            standing=fields.text("standing"),
            reason=fields.text("reason", empty=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """Partitions that one incarnation may own, will get later, and must still give up."""

    KIND: ClassVar = "member_assignment"
    V: ClassVar = 1

    group: str
    instance: str
    incarnation: str
    planner_epoch: int
    group_epoch: int
    member_epoch: int
    """Group epoch at which this record last changed; the member acknowledges it."""
    state: AssignmentState
    assigned: Partitions
    """Partitions that the incarnation may own now."""
    pending: Partitions
    """Partitions of its share that another incarnation has not released yet."""
    revoking: Partitions
    """Partitions that it must give up and has not yet."""
    rack: str | None
    capacity: float
    """Share of the load that the member can take, relative to the others."""
    reason: str
    """Why the record changed, as free text."""
    shards: Cut | None = None
    """The shards that hold all of `assigned`, `pending` and `revoking`, which are empty here; None:
    the record is whole."""
    new_from: Mapping[str, int] = field(default_factory=dict)
    """By topic with such partitions in `assigned`, the first partition that did not exist when the
    group's plans began to cover the topic. From there on, reading begins at the beginning where
    nothing is committed."""

    @property
    def key(self) -> Key:
        return ("m", self.group, self.instance, self.incarnation)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "planner_epoch": self.planner_epoch,
            "group_epoch": self.group_epoch,
            "member_epoch": self.member_epoch,
            "state": self.state,
            "assigned": ranges.texts(self.assigned),
            "pending": ranges.texts(self.pending),
            "revoking": ranges.texts(self.revoking),
            "rack": self.rack,
            "capacity": self.capacity,
            "reason": self.reason,
            "shards": None if self.shards is None else self.shards.value(),
            **({"new_from": self.new_from} if self.new_from else {}),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> MemberAssignment:
        _, group, instance, incarnation = map(str, key)
        shards = fields.optional_section("shards") if fields.has("shards") else None
        return cls(
            group=group,
            instance=instance,
            incarnation=incarnation,
            planner_epoch=fields.integer("planner_epoch", high=LAST_EPOCH),
            group_epoch=fields.integer("group_epoch", high=LAST_EPOCH),
            member_epoch=fields.integer("member_epoch", high=LAST_EPOCH),
            state=fields.one_of("state", ("active", "evicted", "refused")),
            assigned=fields.partitions("assigned"),
            pending=fields.partitions("pending"),
            revoking=fields.partitions("revoking"),
            rack=fields.optional_text("rack"),
            capacity=fields.number("capacity", low=LEAST_CAPACITY, high=MOST_CAPACITY),
            reason=fields.text("reason", empty=True),
            shards=None if shards is None else Cut.read(shards),
            new_from=fields.counts("new_from") if fields.has("new_from") else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """An operator's request for a group."""

    KIND: ClassVar = "operator"
    V: ClassVar = 1

    group: str
    at: int
    """When the operator asked, in milliseconds since the epoch."""
    by: str
    """Name of the operator's account."""
    action: Action
    reason: str
    """The operator's reason, as free text."""
    plan: str | None = None
    """Name of the plan to approve, or of the plan that `target` repeats; None without one."""
    target: Mapping[str, Partitions] | None = None
    """With `apply`, the partitions of each instance by topic; else None."""

    @property
    def key(self) -> Key:
        return ("operator", self.group)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "by": self.by,
            "action": self.action,
            "reason": self.reason,
            **({} if self.plan is None else {"plan": self.plan}),
            **(
                {}
                if self.target is None
                else {"target": {name: ranges.texts(own) for name, own in self.target.items()}}
            ),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> OperatorRecord:
        _, group = key
        action = fields.one_of("action", ACTIONS)
        return cls(
            group=str(group),
            at=fields.integer("at", high=LATEST_MS),
            by=fields.text("by", empty=True),
            action=action,
            reason=fields.text("reason", empty=True),
            plan=fields.optional_missing_text("plan"),
            target=fields.partitions_by_name("target") if fields.has("target") else None,
        )
