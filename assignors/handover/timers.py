"""Timers of the hand-over in seconds, and the inequalities that make it safe."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAX_CLOCK_DRIFT = 1e-3
"""Assumed upper bound of the relative difference between the rates of two clocks."""

MAX_TIMER_SECONDS = 3_155_760_000.0
"""A century, which is as good as never; in milliseconds it fits into every record."""

MAX_SESSION_SECONDS = 3600.0
"""The longest session in a consumer group that librdkafka takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """Waiting times of planner and members, in seconds of the boot clock.

    Guarantees: a set of timers that would be unsafe cannot be constructed.
    """

    heartbeat: float = 3.0
    """Time between two announcements of a member, and between two checks of its lease."""
    hold: float = 20.0
    """Length of a member's lease, from the start of what renewed it."""
    guard: float = 5.0
    """Time before the end of a lease at which a member stops delivering records. A record that the
    application works on for longer may still be worked on when its partition has another owner."""
    commit: float = 12.0
    """Time after which a commit whose outcome is unknown can no longer arrive."""
    grant: float = 36.0
    """Wait between reading back an eviction and granting the evicted member's partitions.

    Invariant: at least `hold`, stretched by the clocks' drift, plus `margin` and `commit`.
    """
    longest_grant: float = 600.0
    """The longest such wait that a member's own `hold` and `commit` may ask for; the planner
    refuses a member that asks for more."""
    margin: float = 2.0
    """Safety margin inside `grant`."""
    dead_after: float = 15.0
    """Silence after which the planner evicts a member. Only time counts in which the planner could
    read what members announced."""
    revoke_timeout: float = 60.0
    """Least time to give up a revoked partition, after which the planner evicts the member. A
    member's own `max.poll.interval.ms` can make it longer: see `revoke_patience`."""
    start_timeout: float = 30.0
    """Time after which a member reports that it cannot start a granted partition."""
    canary: float = 1.0
    """Time between two canaries of the planner, by which it knows that it reads everything."""
    takeover: float = 6.0
    """Length of a daemon's session in the group of daemons: so long after the last heartbeat of the
    one that leads another daemon takes over."""

    def __post_init__(self) -> None:
        """Raise ValueError, naming the inequality that does not hold."""
        needed = self._needed_grant(self.hold, self.commit)
        for holds, inequality in (
            (
                all(0 < getattr(self, field.name) <= MAX_TIMER_SECONDS for field in fields(self)),
                f"every timer is above 0 and at most {MAX_TIMER_SECONDS:.0f}",
            ),
            (self.hold - self.guard >= 3 * self.heartbeat, "hold - guard >= 3 x heartbeat"),
            (self.dead_after >= 3 * self.heartbeat, "dead_after >= 3 x heartbeat"),
            (self.dead_after >= 3 * self.canary, "dead_after >= 3 x canary"),
            (self.takeover >= 3 * self.canary, "takeover >= 3 x canary"),
            (self.takeover <= MAX_SESSION_SECONDS, f"takeover <= {MAX_SESSION_SECONDS:.0f}"),
            (
                self.grant >= needed,
                f"grant >= hold x (1+drift)/(1-drift) + margin + commit = {needed:.3f}",
            ),
            (self.longest_grant >= self.grant, "longest_grant >= grant"),
            (self.revoke_timeout > self.commit, "revoke_timeout > commit"),
        ):
            if not holds:
                raise ValueError(f"timers: {inequality} must hold in {self}")

    def grant_for(self, *, hold: float, commit: float, fenced: bool = False) -> float:
        """The grant wait for a member with timers of its own: the larger need of both sides.

        Args:
            hold: Length of the member's lease.
            commit: The member's wait for a commit of unknown outcome.
            fenced: Whether the brokers refuse the member's commits before the wait begins, so that
                none can arrive late.
        """
        hold, commit = max(self.hold, hold), max(self.commit, commit)
        if fenced:
            return max(self.grant - self.commit, self._needed_grant(hold, 0.0))
        return max(self.grant, self._needed_grant(hold, commit))

    def revoke_patience(self, max_poll_interval: float, commit: float = 0.0) -> float:
        """Time to give up a revoked partition, for a member with this `max.poll.interval.ms`.

        A revocation may arrive at the start of one handler and be carried out at the end of the
        next one; the commit comes after that.
        """
        return max(self.revoke_timeout, 2 * max_poll_interval + max(self.commit, commit))

    def scaled(self, factor: float) -> Timers:
        """The same timers, each multiplied by `factor`."""
        return Timers(**{field.name: getattr(self, field.name) * factor for field in fields(self)})

    def _needed_grant(self, hold: float, commit: float) -> float:
        return hold * (1 + MAX_CLOCK_DRIFT) / (1 - MAX_CLOCK_DRIFT) + self.margin + commit
