"""Record of a group's plan in levelwind.assignments."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypeVar

from levelwind.assignors.protocol.json_fields import LATEST_MS
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records.cut import Cut
from levelwind.assignors.protocol.records.member import LAST_EPOCH, LEAST_CAPACITY, MOST_CAPACITY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

Item = TypeVar("Item")
Mode: TypeAlias = Literal["managed", "published", "proxy", "advisory"]
Score: TypeAlias = "Mapping[str, float | None]"


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
        return cls(
            at=fields.integer("at", high=LATEST_MS), racks=tuple(sets[number] for number in of)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A topic as the plan saw it."""

    id: str
    """Kafka's topic id."""
    partitions: int
    """Number of partitions."""
    racks: PlannedRacks | None = None
    """Replica racks; None if the plan did not record any."""
    new_from: int | None = None
    """The first partition that did not exist when the group's plans began to cover the topic; None
    if all did."""

    def value(self) -> dict[str, object]:
        racks = None if self.racks is None else self.racks.value()
        new_from = {} if self.new_from is None else {"new_from": self.new_from}
        return {"id": self.id, "partitions": self.partitions, "racks": racks, **new_from}

    @classmethod
    def read(cls, fields: Fields) -> PlannedTopic:
        return cls(
            id=fields.text("id"),
            partitions=fields.integer("partitions"),
            racks=_read_later(fields, "racks", PlannedRacks.read),
            new_from=fields.optional_integer("new_from") if fields.has("new_from") else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMember:
    """A member as the plan saw it."""

    instance: str
    incarnation: str
    rack: str | None
    capacity: float
    priority: int = 0
    topics: tuple[str, ...] | None = None
    """Sorted topics that the member subscribed to; None if the plan did not record any."""
    pattern: str | None = None
    """Pattern of further topics that it subscribed to; `topics` has those that were there."""

    def value(self, subscriptions: Mapping[tuple[str, ...], int]) -> dict[str, object]:
        """The member's fields.

        Args:
            subscriptions: index of each distinct set of topics in the record.
        """
        return {
            "instance": self.instance,
            "incarnation": self.incarnation,
            "rack": self.rack,
            "capacity": self.capacity,
            "priority": self.priority,
            "subscription": None if self.topics is None else subscriptions[self.topics],
            **({} if self.pattern is None else {"pattern": self.pattern}),
        }

    @classmethod
    def read(
        cls, fields: Fields, subscriptions: tuple[tuple[str, ...], ...] | None
    ) -> PlannedMember:
        index = fields.optional_integer("subscription") if fields.has("subscription") else None
        if index is not None and subscriptions is not None and index >= len(subscriptions):
            raise WireError("members.subscription: an index that is not in subscriptions")
        return cls(
            instance=fields.text("instance"),
            incarnation=fields.text("incarnation"),
            rack=fields.optional_text("rack"),
            capacity=fields.number("capacity", low=LEAST_CAPACITY, high=MOST_CAPACITY),
            priority=(
                fields.integer("priority", low=-(2**31), high=2**31 - 1)
                if fields.has("priority")
                else 0
            ),
            topics=None if index is None or subscriptions is None else subscriptions[index],
            pattern=fields.optional_missing_text("pattern"),
        )


def members_value(members: Sequence[PlannedMember]) -> dict[str, object]:
    """The fields of a record that name members and, once each, their subscriptions."""
    sets = sorted({member.topics for member in members if member.topics is not None})
    subscriptions = {topics: index for index, topics in enumerate(sets)}
    return {
        "subscriptions": sets,
        "members": [member.value(subscriptions) for member in members],
    }


def read_members(fields: Fields) -> tuple[PlannedMember, ...]:
    """The members that the fields of `members_value` name."""
    subscriptions = fields.text_lists("subscriptions") if fields.has("subscriptions") else None
    return tuple(PlannedMember.read(member, subscriptions) for member in fields.sections("members"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentMoves:
    """Partitions that plans of one cause have moved within a minute."""

    at: int
    """When the last of these plans was made, in milliseconds since the epoch."""
    cause: str
    moves: int

    @classmethod
    def read(cls, fields: Fields) -> SpentMoves:
        return cls(
            at=fields.integer("at", high=LATEST_MS),
            cause=fields.text("cause"),
            moves=fields.integer("moves"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCauseCooldown:
    """Cooldown of one cause of plans."""

    until: int
    """End of the cooldown, in milliseconds since the epoch."""
    pause_ms: int
    """Length of the cooldown."""

    def value(self) -> dict[str, object]:
        return {"until": self.until, "pause_ms": self.pause_ms}

    @classmethod
    def read(cls, fields: Fields) -> PlannedCauseCooldown:
        return cls(
            until=fields.integer("until", high=LATEST_MS), pause_ms=fields.integer("pause_ms")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCooldown:
    """Cooldowns of a group after its plan, so that a restarted daemon keeps to them.

    Times are milliseconds since the epoch of the planner's clock.
    """

    until: int
    """End of the last cooldown of any cause; for versions that keep one cooldown for all causes."""
    pause_ms: int
    """Length of the longest cooldown of any cause; for the same versions."""
    skew_before: float | None
    """The skew before the plan, as older versions evaluate its gain; None: no gain in skew."""
    skew_after: float | None
    """The skew that the plan is expected to bring; None with `skew_before`."""
    spent: tuple[SpentMoves, ...]
    """Moves of the last hour."""
    causes: Mapping[str, PlannedCauseCooldown] | None = None
    """Cooldowns by cause; None in a record of such an older version."""
    excess_before: float | None = None
    """Seconds by which the largest load exceeded the least that a plan could reach, before the
    plan; None unless its gain is still to be evaluated."""
    excess_after: float | None = None
    """The same seconds as expected after the plan; None with `excess_before`."""
    handover_ms: int | None = None
    """Mean length of the group's hand-overs; None in a record of an older version."""

    def value(self) -> dict[str, object]:
        causes = {name: cooldown.value() for name, cooldown in (self.causes or {}).items()}
        later = {
            "causes": None if self.causes is None else causes,
            "excess_before": self.excess_before,
            "excess_after": self.excess_after,
            "handover_ms": self.handover_ms,
        }
        return {name: value for name, value in later.items() if value is not None} | {
            "until": self.until,
            "pause_ms": self.pause_ms,
            "skew_before": self.skew_before,
            "skew_after": self.skew_after,
            "spent": [
                {"at": spent.at, "cause": spent.cause, "moves": spent.moves} for spent in self.spent
            ],
        }

    @classmethod
    def read(cls, fields: Fields) -> PlannedCooldown:
        return cls(
            until=fields.integer("until", high=LATEST_MS),
            pause_ms=fields.integer("pause_ms"),
            skew_before=fields.optional_number("skew_before"),
            skew_after=fields.optional_number("skew_after"),
            spent=tuple(map(SpentMoves.read, fields.sections("spent"))),
            causes=(
                fields.by_name("causes", PlannedCauseCooldown.read)
                if fields.has("causes")
                else None
            ),
            excess_before=_read_number(fields, "excess_before"),
            excess_after=_read_number(fields, "excess_after"),
            handover_ms=(
                fields.optional_integer("handover_ms") if fields.has("handover_ms") else None
            ),
        )


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
    cooldown: PlannedCooldown | None = None
    """The group's cooldown; None if the record does not say it."""
    shards: Cut | None = None
    """The shards that hold all of `topics` and `members`, which are empty here; None: the record is
    whole."""
    assignments: Cut | None = None
    """The shards of key `p` that hold the assignment, for a mode other than `managed`; None: the
    members' own records have it."""
    last_epoch: int | None = None
    """The highest epoch that any record of the group had, where no other record that is left says
    it; None: the group's records say it."""
    levers: str | None = None
    """Hash of the levers that the plan was made under; None: there were none."""

    @property
    def key(self) -> Key:
        return ("g", self.group)

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
            **members_value(self.members),
            "score": {
                "before": None if self.before is None else dict(self.before),
                "after": None if self.after is None else dict(self.after),
            },
            "computed_at": self.computed_at,
            "digest": self.digest,
            "certificate": None if self.certificate is None else self.certificate.value(),
            "cooldown": None if self.cooldown is None else self.cooldown.value(),
            "assignments": None if self.assignments is None else self.assignments.value(),
            "last_epoch": self.last_epoch,
            "shards": None if self.shards is None else self.shards.value(),
            **({} if self.levers is None else {"levers": self.levers}),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> GroupRecord:
        _, group = key
        inputs = fields.section("inputs")
        score = fields.section("score")
        return cls(
            group=str(group),
            mode=fields.one_of("mode", ("managed", "published", "proxy", "advisory")),
            planner_epoch=fields.integer("planner_epoch", high=LAST_EPOCH),
            group_epoch=fields.integer("group_epoch", high=LAST_EPOCH),
            plan_id=fields.text("plan_id"),
            strategy=fields.text("strategy"),
            cause=fields.text("cause", empty=True),
            lag_at=inputs.optional_integer("lag_at", high=LATEST_MS),
            metadata_at=inputs.optional_integer("metadata_at", high=LATEST_MS),
            topics=fields.by_name("topics", PlannedTopic.read),
            members=read_members(fields),
            before=score.figures("before"),
            after=score.figures("after"),
            computed_at=fields.integer("computed_at", high=LATEST_MS),
            digest=fields.text("digest", empty=True),
            certificate=_read_later(fields, "certificate", PlanCertificate.read),
            cooldown=_read_later(fields, "cooldown", PlannedCooldown.read),
            shards=_read_later(fields, "shards", Cut.read),
            assignments=_read_later(fields, "assignments", Cut.read),
            last_epoch=(
                fields.optional_integer("last_epoch", high=LAST_EPOCH)
                if fields.has("last_epoch")
                else None
            ),
            levers=fields.optional_missing_text("levers"),
        )


def _read_number(fields: Fields, name: str) -> float | None:
    """A number that older writers leave out."""
    return fields.optional_number(name) if fields.has(name) else None


def _read_later(fields: Fields, name: str, read: Callable[[Fields], Item]) -> Item | None:
    """A section that older writers leave out."""
    inner = fields.optional_section(name) if fields.has(name) else None
    return None if inner is None else read(inner)
