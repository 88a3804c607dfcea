"""Reasons of its own for which one group is frozen, beside those of all groups. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.control.freeze.freeze_reason import FreezeReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.state.control_facts import ControlFacts, GroupFacts


def group_reasons(group: GroupFacts, control: ControlFacts, at: int) -> Mapping[FreezeReason, str]:
    """Return the reasons of its own for which a group is frozen, each with a text for people.

    Args:
        group: the group.
        control: the control that it is of.
        at: the wall clock, in milliseconds since the epoch.
    """
    reasons: dict[FreezeReason, str] = {}
    if group.silent:
        reasons[FreezeReason.MEMBERS] = f"{group.silent} members fell silent together"
    limit = control.lag_max_age
    ages = {
        topic: round((at - sample.at) / 1000)
        for topic, sample in group.samples.items()
        if topic in control.topics and group.plan is not None
    }
    if old := {topic: age for topic, age in ages.items() if age > limit}:
        topic = max(old, key=lambda name: old[name])
        reasons[FreezeReason.LAG] = (
            f"{len(old)} topics have no lag newer than {limit:g} s; that of {topic} is"
            f" {old[topic]} s old"
        )
    return reasons
