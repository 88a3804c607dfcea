"""The timers of the hand-over, and the inequalities that its safety rests on. All in seconds of a monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAX_CLOCK_DRIFT = 1e-3
"""The rates of two clocks differ by less than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """How long each side waits; a set that would be unsafe cannot be made."""

    heartbeat: float = 3.0
    """Between two announcements of a member, and between two lease checks."""
    hold: float = 20.0
    """A lease lasts so long after the read that renewed it."""
    guard: float = 5.0
    """A member stops delivering so long before its lease ends."""
    commit: float = 12.0
    """After so long a commit whose outcome is unknown can no longer arrive."""
    grant: float = 36.0
    """The partitions of an evicted member are free so long after its eviction was read back."""
    margin: float = 2.0
    """What `grant` has to spare."""
    dead_after: float = 15.0
    """A member that was not heard for so long is evicted."""
    revoke_timeout: float = 60.0
    """A member that has not given up what it must for so long is evicted."""

    def __post_init__(self) -> None:
        """Raise ValueError, naming the inequality that does not hold."""
        needed = (
            self.hold * (1 + MAX_CLOCK_DRIFT) / (1 - MAX_CLOCK_DRIFT) + self.margin + self.commit
        )
        for holds, inequality in (
            (
                all(getattr(self, field.name) > 0 for field in fields(self)),
                "every timer is above 0",
            ),
            (self.hold - self.guard >= 3 * self.heartbeat, "hold - guard >= 3 x heartbeat"),
            (self.dead_after >= 3 * self.heartbeat, "dead_after >= 3 x heartbeat"),
            (
                self.grant >= needed,
                f"grant >= hold x (1+drift)/(1-drift) + margin + commit = {needed:.3f}",
            ),
            (self.revoke_timeout > self.commit, "revoke_timeout > commit"),
        ):
            if not holds:
                raise ValueError(f"timers: {inequality} must hold in {self}")

    def scaled(self, factor: float) -> Timers:
        """The same timers, so many times as long."""
        return Timers(**{field.name: getattr(self, field.name) * factor for field in fields(self)})
