"""Timers of the hand-over in seconds, and the inequalities that make it safe."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAX_CLOCK_DRIFT = 1e-3
"""Assumed upper bound of the relative difference between the rates of two clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """Waiting times of planner and members, in seconds of a monotonic clock.

    Guarantees: a set of timers that would be unsafe cannot be constructed.
    """

    heartbeat: float = 3.0
    """Time between two announcements of a member, and between two checks of its lease."""
    hold: float = 20.0
    """Length of a lease, from the read that renewed it. Leases are not in use yet; `grant` counts
    on them already."""
    guard: float = 5.0
    """Time before the end of a lease at which a member stops delivering records."""
    commit: float = 12.0
    """Time after which a commit whose outcome is unknown can no longer arrive."""
    grant: float = 36.0
    """Wait between reading back an eviction and granting the evicted member's partitions.

    Invariant: at least `hold`, stretched by the clocks' drift, plus `margin` and `commit`.
    """
    margin: float = 2.0
    """Safety margin inside `grant`."""
    dead_after: float = 15.0
    """Silence after which the planner evicts a member."""
    revoke_timeout: float = 60.0
    """Time to give up a revoked partition, after which the planner evicts the member."""

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
        """The same timers, each multiplied by `factor`."""
        return Timers(**{field.name: getattr(self, field.name) * factor for field in fields(self)})
