"""Reasons of its own for which one group is frozen, beside those of all groups. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.control.freeze.freeze_reason import FreezeReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.state.control_state import ControlState


def group_reasons(state: ControlState, group: str, at: int) -> Mapping[FreezeReason, str]:
    """Return the reasons of its own for which a group is frozen, each with a text for people.

    Args:
        state: the state of the control; any thread may ask.
        group: the group's name.
        at: the wall clock, in milliseconds since the epoch.
    """
    found = state.groups.get(group)
    if found is None:
        return {}
    reasons: dict[FreezeReason, str] = {}
    if found.frozen:
        count = len(found.silent_together)
        reasons[FreezeReason.MEMBERS] = f"{count} members fell silent together"
    limit = state.settings.lag_max_age
    ages = {
        topic: round((at - sample.at) / 1000)
        for topic, sample in found.samples.items()
        if topic in state.topics and found.plan is not None
    }
    if old := {topic: age for topic, age in ages.items() if age > limit}:
        topic = max(old, key=lambda name: old[name])
        reasons[FreezeReason.LAG] = (
            f"{len(old)} topics have no lag newer than {limit:g} s; that of {topic} is"
            f" {old[topic]} s old"
        )
    return reasons
