"""What the control is told: when it plans, what holds its plans back, and how a group is planned."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the settings are validated by their annotations
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

EVERY = "*"
"""All topics that are not named."""


class Cause(StrEnum):
    """Why a group is planned anew."""

    MEMBERSHIP = "membership"
    TOPICS = "topics"
    OPERATOR = "operator"
    RACKS = "racks"
    SKEW = "skew"


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownSettings:
    """Seconds, and moves an hour for each cause (no entry: no limit)."""

    duration: Seconds = 60.0
    max_duration: Seconds = 1800.0
    moves_per_hour: Mapping[Cause, Count] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """How a group is planned."""

    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The strategy's own."""
    record_bytes: Mapping[str, float] = field(default_factory=dict)
    """By topic, `*` for all others: with any of them, traffic across racks is weighed by arrivals; else partitions are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """When the control plans, and what a plan must bring; times in seconds."""

    strategy: str = "optimal"
    settle: Seconds = 1.0
    """A plan for changed membership waits until it has stood still for so long, …"""
    settle_max: Seconds = 5.0
    """… but no longer than this."""
    min_gain: Share = 0.1
    """The share by which a triggered plan must lower the skew, or the cross-rack share."""
    cooldown: CooldownSettings = field(default_factory=CooldownSettings)
