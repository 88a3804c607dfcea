"""Records of levelwind.assignments (the planner's decisions) and levelwind.control (requests)."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from assignors.protocol import partition_ranges as ranges
from assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.json_fields import Fields
    from assignors.protocol.partition_ranges import Partitions
    from assignors.protocol.records.metadata import Key

Mode: TypeAlias = Literal["managed", "published", "advisory"]
AssignmentState: TypeAlias = Literal["active", "evicted", "refused"]
"""State of an incarnation: it may own partitions; everything was taken from it for good; or the
planner cannot serve it, for the reason that its record gives."""
Action: TypeAlias = Literal["rebalance"]
Score: TypeAlias = "Mapping[str, float | None]"


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
            planner_epoch=fields.integer("planner_epoch"),
            instance=fields.text("instance"),
            started_at=fields.integer("started_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRacks:
    """Replica racks that a plan was computed from.

    Written as the distinct sets, and the index of its set for each partition: partitions are many,
    sets are few.
    """

    at: int
    """Time of the topic's record, in milliseconds since the epoch."""
    racks: tuple[tuple[str, ...], ...]
    """Sorted racks of each partition's replicas."""

    def value(self) -> dict[str, object]:
        sets = sorted(set(self.racks))
        index = {racks: number for number, racks in enumerate(sets)}
        return {"at": self.at, "sets": sets, "of": [index[racks] for racks in self.racks]}

    @classmethod
    def read(cls, fields: Fields) -> PlannedRacks:
        sets, of = fields.text_lists("sets"), fields.integers("of")
        if max(of, default=-1) >= len(sets):
            raise WireError("racks.of: an index that is not in racks.sets")
        return cls(at=fields.integer("at"), racks=tuple(sets[number] for number in of))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A topic as the plan saw it."""

    id: str
    """Kafka's topic id."""
    partitions: int
    """Number of partitions."""
    racks: PlannedRacks | None = None
    """Replica racks; None if the plan did not record any."""

    def value(self) -> dict[str, object]:
        racks = None if self.racks is None else self.racks.value()
        return {"id": self.id, "partitions": self.partitions, "racks": racks}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMember:
    """A member as the plan saw it."""

    instance: str
    incarnation: str
    rack: str | None
    capacity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedObjective:
    """Value of a plan in one objective, with a bound that no plan can beat; less is better."""

    value: float
    bound: float
    bound_kind: str
    """Argument that proves the bound."""
    partitions: tuple[str, ...]
    """Partitions that alone force the bound, as topic-number."""

    @classmethod
    def read(cls, fields: Fields) -> CertifiedObjective:
        return cls(
            value=fields.number("value"),
            bound=fields.number("bound"),
            bound_kind=fields.text("bound_kind"),
            partitions=fields.texts("partitions"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCertificate:
    """Proof of how good a plan is."""

    complete: bool
    """Whether the search was not cut short."""
    cut_by: tuple[str, ...]
    """Limits that cut the search short: "time", "moves"."""
    objectives: Mapping[str, CertifiedObjective]
    """Objectives by name."""
    summary: tuple[str, ...]
    """The certificate in sentences for operators."""

    def value(self) -> dict[str, object]:
        return {
            "complete": self.complete,
            "cut_by": list(self.cut_by),
            "objectives": {
                name: {
                    "value": objective.value,
                    "bound": objective.bound,
                    "bound_kind": objective.bound_kind,
                    "partitions": list(objective.partitions),
                }
                for name, objective in self.objectives.items()
            },
            "summary": list(self.summary),
        }

    @classmethod
    def read(cls, fields: Fields) -> PlanCertificate:
        return cls(
            complete=fields.flag("complete"),
            cut_by=fields.texts("cut_by"),
            objectives=fields.by_name("objectives", CertifiedObjective.read),
            summary=fields.texts("summary"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group's plan: its cause, its inputs and its scores."""

    KIND: ClassVar = "group"
    V: ClassVar = 2

    group: str
    mode: Mode
    planner_epoch: int
    """Epoch of the planner that made the plan."""
    group_epoch: int
    """Epoch of the plan; with `planner_epoch` it strictly increases."""
    plan_id: str
    strategy: str
    cause: str
    """Why the plan was made: membership, topics, operator, racks or skew."""
    lag_at: int | None
    """Time of the oldest lag in the plan's input, in milliseconds since the epoch."""
    metadata_at: int | None
    """Time of the newest topic layout in the plan's input, in milliseconds since the epoch."""
    topics: Mapping[str, PlannedTopic]
    members: tuple[PlannedMember, ...]
    before: Score | None
    """Scores of the assignment before the plan, by name."""
    after: Score | None
    """Scores of the planned assignment, by name."""
    computed_at: int
    """When the plan was made, in milliseconds since the epoch."""
    digest: str
    """Hash of group, epoch and assignment."""
    certificate: PlanCertificate | None = None
    """Proof of how good the plan is; None if the strategy gives none."""

    @property
    def key(self) -> Key:
        return ("g", self.group)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "mode": self.mode,
            "planner_epoch": self.planner_epoch,
            "group_epoch": self.group_epoch,
            "plan_id": self.plan_id,
            "strategy": self.strategy,
            "cause": self.cause,
            "inputs": {"lag_at": self.lag_at, "metadata_at": self.metadata_at},
            "topics": {name: topic.value() for name, topic in self.topics.items()},
            "members": [
                {
                    "instance": member.instance,
                    "incarnation": member.incarnation,
                    "rack": member.rack,
                    "capacity": member.capacity,
                }
                for member in self.members
            ],
            "score": {
                "before": None if self.before is None else dict(self.before),
                "after": None if self.after is None else dict(self.after),
            },
            "computed_at": self.computed_at,
            "digest": self.digest,
            "certificate": None if self.certificate is None else self.certificate.value(),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> GroupRecord:
        _, group = key
        inputs = fields.section("inputs")
        score = fields.section("score")
        return cls(
            group=str(group),
            mode=fields.one_of("mode", ("managed", "published", "advisory")),
            planner_epoch=fields.integer("planner_epoch"),
            group_epoch=fields.integer("group_epoch"),
            plan_id=fields.text("plan_id"),
            strategy=fields.text("strategy"),
            cause=fields.text("cause", empty=True),
            lag_at=inputs.optional_integer("lag_at"),
            metadata_at=inputs.optional_integer("metadata_at"),
            topics=fields.by_name("topics", _read_topic),
            members=tuple(map(_read_member, fields.sections("members"))),
            before=score.figures("before"),
            after=score.figures("after"),
            computed_at=fields.integer("computed_at"),
            digest=fields.text("digest", empty=True),
            certificate=_read_certificate(fields),
        )


def _read_certificate(fields: Fields) -> PlanCertificate | None:
    inner = fields.optional_section("certificate") if fields.has("certificate") else None
    return None if inner is None else PlanCertificate.read(inner)


def _read_topic(fields: Fields) -> PlannedTopic:
    racks = fields.optional_section("racks") if fields.has("racks") else None
    return PlannedTopic(
        id=fields.text("id"),
        partitions=fields.integer("partitions"),
        racks=None if racks is None else PlannedRacks.read(racks),
    )


def _read_member(fields: Fields) -> PlannedMember:
    return PlannedMember(
        instance=fields.text("instance"),
        incarnation=fields.text("incarnation"),
        rack=fields.optional_text("rack"),
        capacity=fields.number("capacity", above=0.0),
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
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> MemberAssignment:
        _, group, instance, incarnation = map(str, key)
        return cls(
            group=group,
            instance=instance,
            incarnation=incarnation,
            planner_epoch=fields.integer("planner_epoch"),
            group_epoch=fields.integer("group_epoch"),
            member_epoch=fields.integer("member_epoch"),
            state=fields.one_of("state", ("active", "evicted", "refused")),
            assigned=fields.partitions("assigned"),
            pending=fields.partitions("pending"),
            revoking=fields.partitions("revoking"),
            rack=fields.optional_text("rack"),
            capacity=fields.number("capacity", above=0.0),
            reason=fields.text("reason", empty=True),
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
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> OperatorRecord:
        _, group = key
        return cls(
            group=str(group),
            at=fields.integer("at"),
            by=fields.text("by", empty=True),
            action=fields.one_of("action", ("rebalance",)),
            reason=fields.text("reason", empty=True),
        )
