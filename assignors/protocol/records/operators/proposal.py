"""Proposals: plans that wait for an operator's approval."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.json_fields import LATEST_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records.metadata import Key
    from levelwind.assignors.protocol.records.planned_group import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRecord:
    """A plan that a group's settings keep from being published until an operator approves it."""

    KIND: ClassVar = "proposal"
    V: ClassVar = 1

    group: str
    at: int
    """When the plan was computed, in milliseconds since the epoch."""
    plan_id: str
    """The name by which the plan is approved."""
    cause: str
    """Why the plan was made: operator, racks or skew."""
    strategy: str
    basis: str
    """Hash of the members and topics that the plan is for: with others it is stale."""
    moves: int
    """Number of partitions that the plan moves."""
    before: Score | None
    """Scores of the assignment in force, by name."""
    after: Score | None
    """Scores of the proposed assignment, by name."""
    target: Mapping[str, Partitions]
    """The partitions of each instance, by topic."""

    @property
    def key(self) -> Key:
        return ("proposal", self.group)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "plan_id": self.plan_id,
            "cause": self.cause,
            "strategy": self.strategy,
            "basis": self.basis,
            "moves": self.moves,
            "before": None if self.before is None else dict(self.before),
            "after": None if self.after is None else dict(self.after),
            "target": {member: ranges.texts(share) for member, share in self.target.items()},
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> ProposalRecord:
        _, group = key
        return cls(
            group=str(group),
            at=fields.integer("at", high=LATEST_MS),
            plan_id=fields.text("plan_id"),
            cause=fields.text("cause"),
            strategy=fields.text("strategy"),
            basis=fields.text("basis"),
            moves=fields.integer("moves"),
            before=fields.figures("before"),
            after=fields.figures("after"),
            target=fields.partitions_by_name("target"),
        )
