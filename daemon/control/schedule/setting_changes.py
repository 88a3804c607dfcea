"""How the groups take in settings that were read again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.daemon.control.schedule.deciding import enter
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from levelwind.daemon.control.boundary.control_events import SettingsChanged
    from levelwind.daemon.control.context import Clock
    from levelwind.daemon.control.state.control_state import ControlState


def settings_changed(state: ControlState, event: SettingsChanged, clock: Clock) -> ControlState:
    """Plan by other settings from now on; groups that are planned otherwise get a plan."""
    before = state.planning_of
    state = replace(state, settings=event.settings, planning_of=event.planning_of)
    context = state.context(clock)
    for name in list(state.groups):
        group = state.groups[name]
        planned = group.plan is not None and (group.live or group.plan.mode != "managed")
        if planned and before(name) != event.planning_of(name):
            group = group.changed(Cause.OPERATOR, clock.now)
        # The deadlines of every group rest on the settings.
        enter(state, group, context)
    return state
