"""Parts of decisions: the records of the audit trail."""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

from levelwind.assignors.protocol.json_fields import LATEST_MS
from levelwind.assignors.protocol.records.cut import MOST_SHARDS

if TYPE_CHECKING:
    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key

Outcome: TypeAlias = Literal[
    "published", "confirmed", "suppressed", "proposed", "refused", "failed", "ordered"
]
"""What became of a decision: the plan is in force; the one in force stays, as good as any; no plan,
for the reason that the decision gives; the plan waits for approval; an operator's order could not
be followed; computing failed; or an operator gave an order."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPart:
    """One part of a decision; most decisions have one part."""

    KIND: ClassVar = "decision"
    V: ClassVar = 1

    group: str
    """The group; `*` for an order about every group."""
    id: str
    """The decision's name, unique within its group."""
    part: int
    """Number of this part, from 0."""
    parts: int
    """Number of parts."""
    at: int
    """When it was decided, in milliseconds since the epoch."""
    outcome: Outcome
    cause: str
    """Why there was something to decide: the cause of a plan, or the action of an order."""
    plan_id: str | None
    """The plan that was published or proposed; None without one."""
    body: str
    """A piece of everything else: canonical JSON, compressed by zlib, in base64."""

    @property
    def key(self) -> Key:
        return ("decision", self.group, self.id, self.part)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "parts": self.parts,
            "at": self.at,
            "outcome": self.outcome,
            "cause": self.cause,
            "plan_id": self.plan_id,
            "body": self.body,
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> DecisionPart:
        _, group, name, part = key
        return cls(
            group=str(group),
            id=str(name),
            part=int(part),
            parts=fields.integer("parts", low=1, high=MOST_SHARDS),
            at=fields.integer("at", high=LATEST_MS),
            outcome=fields.one_of("outcome", OUTCOMES),
            cause=fields.text("cause", empty=True),
            plan_id=fields.optional_text("plan_id"),
            body=fields.text("body"),
        )
