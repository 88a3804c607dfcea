"""Parts of decisions: the records of the audit trail."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Name, Time, Whole
from levelwind.assignors.protocol.records.cut import MOST_SHARDS

Outcome: TypeAlias = Literal[
    "published", "confirmed", "suppressed", "proposed", "refused", "failed", "ordered"
]
"""What became of a decision: the plan is in force; the one in force stays, as good as any; no plan,
for the reason that the decision gives; the plan waits for approval; an operator's order could not
be followed; computing failed; or an operator gave an order."""


class DecisionPart(Declared, frozen=True, kw_only=True):
    """One part of a decision; most decisions have one part."""

    KIND: ClassVar = "decision"
    KEY_FIELDS: ClassVar = ("group", "id", "part")

    group: Name
    """The group; `*` for an order about every group."""
    id: Name
    """The decision's name, unique within its group."""
    part: Whole
    """Number of this part, from 0."""
    parts: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    """Number of parts."""
    at: Time
    """When it was decided, in milliseconds since the epoch."""
    outcome: Outcome
    cause: str
    """Why there was something to decide: the cause of a plan, or the action of an order."""
    plan_id: Name | None
    """The plan that was published or proposed; None without one."""
    body: Name
    """A piece of everything else: canonical JSON, compressed by zlib, in base64."""
