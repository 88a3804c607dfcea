"""Records of the planner and of its members' assignments, and requests to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from msgspec import field

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import (
    Capacity,
    Epoch,
    Name,
    Share,
    Shares,
    Time,
    Whole,
)
from levelwind.assignors.protocol.declared.marks import NEVER_NULL, WRITTEN
from levelwind.assignors.protocol.records.cut import Cut

AssignmentState: TypeAlias = Literal["active", "evicted", "refused"]
"""State of an incarnation: it may own partitions; everything was taken from it for good; or the
planner cannot serve it, for the reason that its record gives."""
Action: TypeAlias = Literal["rebalance", "apply", "approve"]
"""What an operator asks for: a plan computed now, the very assignment that the request gives, or
the plan that waits for approval."""
ACTIONS: tuple[Action, ...] = get_args(Action)


class PlannerRecord(Declared, frozen=True, kw_only=True):
    """The leading planner; written to every partition, before anything else of its epoch."""

    KIND: ClassVar = "planner"

    planner_epoch: Epoch
    instance: Name
    started_at: Time
    """When the planner took over, in milliseconds since 1970."""


class ProxyRecord(Declared, frozen=True, kw_only=True):
    """How the planner's leader proxy stands to a group, when that last changed."""

    KIND: ClassVar = "proxy"
    KEY_FIELDS: ClassVar = ("group",)

    group: Name
    at: Time
    """When it changed, in milliseconds since the epoch."""
    planner_epoch: Epoch
    standing: Name
    """As an operator reads it: `leading`, `waiting for the lead`, ..."""
    reason: str
    """Why the proxy left the group or stays out of it; else empty."""


class MemberAssignment(Declared, frozen=True, kw_only=True):
    """Partitions that one incarnation may own, will get later, and must still give up."""

    KIND: ClassVar = "member_assignment"
    WORD: ClassVar = "m"
    KEY_FIELDS: ClassVar = ("group", "instance", "incarnation")

    group: Name
    instance: Name
    incarnation: Name
    planner_epoch: Epoch
    group_epoch: Epoch
    member_epoch: Epoch
    """Group epoch at which this record last changed; the member acknowledges it."""
    state: AssignmentState
    assigned: Share
    """Partitions that the incarnation may own now."""
    pending: Share
    """Partitions of its share that another incarnation has not released yet."""
    revoking: Share
    """Partitions that it must give up and has not yet."""
    rack: Name | None
    capacity: Capacity
    """Share of the load that the member can take, relative to the others."""
    reason: str
    """Why the record changed, as free text."""
    shards: Annotated[Cut | None, WRITTEN] = None
    """The shards that hold all of `assigned`, `pending` and `revoking`, which are empty here; None:
    the record is whole."""
    new_from: Annotated[Mapping[str, Whole], NEVER_NULL] = field(default_factory=dict)
    """By topic with such partitions in `assigned`, the first partition that did not exist when the
    group's plans began to cover the topic. From there on, reading begins at the beginning where
    nothing is committed."""


class OperatorRecord(Declared, frozen=True, kw_only=True):
    """An operator's request for a group."""

    KIND: ClassVar = "operator"
    KEY_FIELDS: ClassVar = ("group",)

    group: Name
    at: Time
    """When the operator asked, in milliseconds since the epoch."""
    by: str
    """Name of the operator's account."""
    action: Action
    reason: str
    """The operator's reason, as free text."""
    plan: Name | None = None
    """Name of the plan to approve, or of the plan that `target` repeats; None without one."""
    target: Annotated[Shares | None, NEVER_NULL] = None
    """With `apply`, the partitions of each instance by topic; else None."""
