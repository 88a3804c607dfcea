"""Readiness of a daemon: its part in the group of daemons, and whether planning is frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from levelwind.daemon.control.state.group_freeze import group_reasons
from levelwind.daemon.service.leadership import LeadPhase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
    from levelwind.daemon.control.state.control_facts import ControlFacts
    from levelwind.daemon.service.leadership import Leadership

Role: TypeAlias = Literal["starting", "standby", "leader"]
"""Part of a daemon; one that starts has not read its topics to their end yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What a probe or a person asks a daemon for."""

    role: Role
    caught_up: bool
    """Whether everything has been read that the topics held at the start."""
    instance: str
    """The name of this daemon."""
    leader: str | None
    """The daemon that leads, as far as is known."""
    planner_epoch: int | None
    """The leader's epoch."""
    frozen: Mapping[str, str] = field(default_factory=dict)
    """Why planning is frozen for all groups, by reason; empty while it is not, and where another
    daemon leads."""
    frozen_groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Groups that are frozen for reasons of their own, by name and reason."""


def standby_readiness(leadership: Leadership, instance: str) -> Readiness:
    """Return the readiness of a daemon that does not lead, or not yet.

    Args:
        leadership: the daemon's view of who leads.
        instance: the name of the daemon.
    """
    leader = leadership.leader
    known = leader if leader is not None and leader.state == "leading" else None
    caught_up = leadership.phase is not LeadPhase.READING
    return Readiness(
        role="standby" if caught_up else "starting",
        caught_up=caught_up,
        instance=instance,
        leader=known.instance if known else None,
        planner_epoch=known.planner_epoch if known else None,
    )


def leader_readiness(
    control: ControlFacts, instance: str, frozen: Mapping[FreezeReason, str], at: int
) -> Readiness:
    """Return the readiness of the daemon that leads.

    Args:
        control: the facts about the control.
        instance: the name of the daemon.
        frozen: why planning is frozen for all groups.
        at: now, in milliseconds since the epoch.
    """
    groups = {name: group_reasons(group, control, at) for name, group in control.groups.items()}
    return Readiness(
        role="leader",
        caught_up=True,
        instance=instance,
        leader=instance,
        planner_epoch=control.planner_epoch,
        frozen={reason.value: why for reason, why in frozen.items()},
        frozen_groups={
            name: {reason.value: why for reason, why in reasons.items()}
            for name, reasons in groups.items()
            if reasons
        },
    )
