"""Proposals: plans that wait for an operator's approval."""

from __future__ import annotations

from typing import ClassVar

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Name, Shares, Time, Whole
from levelwind.assignors.protocol.records.planned_group import Score


class ProposalRecord(Declared, frozen=True, kw_only=True):
    """A plan that a group's settings keep from being published until an operator approves it."""

    KIND: ClassVar = "proposal"
    KEY_FIELDS: ClassVar = ("group",)

    group: Name
    at: Time
    """When the plan was computed, in milliseconds since the epoch."""
    plan_id: Name
    """The name by which the plan is approved."""
    cause: Name
    """Why the plan was made: operator, racks or skew."""
    strategy: Name
    basis: Name
    """Hash of the members and topics that the plan is for: with others it is stale."""
    moves: Whole
    """Number of partitions that the plan moves."""
    before: Score | None
    """Scores of the assignment in force, by name."""
    after: Score | None
    """Scores of the proposed assignment, by name."""
    target: Shares
    """The partitions of each instance, by topic."""
