"""State of the freeze: the reasons for which planning moves nothing that works. Pure.

While planning is frozen no partition of a live owner is moved: what triggers and operators ask for
waits, and a change of members or topics moves nothing but partitions that nobody would read.
Hand-overs under way go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.daemon.control.context import LogEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeState:
    """The reasons that hold for all groups, each with a text for people."""

    reasons: Mapping[FreezeReason, str] = field(default_factory=dict)
    since: Mapping[FreezeReason, float] = field(default_factory=dict)
    """Boot seconds since which each reason holds."""

    def changed(
        self, reasons: Mapping[FreezeReason, str], now: float
    ) -> tuple[FreezeState, list[LogEvent]]:
        """Return the state with other reasons, and what is to be logged of the change."""
        if reasons == self.reasons:
            return self, []
        events = [
            LogEvent("planning.frozen", {"reason": reason.value, "detail": detail})
            for reason, detail in reasons.items()
            if reason not in self.reasons
        ]
        events += [
            LogEvent(
                "planning.thawed",
                {
                    "reason": reason.value,
                    "seconds": round(now - begun, 1),
                    "still": sorted(other.value for other in reasons),
                },
            )
            for reason, begun in self.since.items()
            if reason not in reasons
        ]
        since = {reason: self.since.get(reason, now) for reason in reasons}
        return FreezeState(reasons=dict(reasons), since=since), events
