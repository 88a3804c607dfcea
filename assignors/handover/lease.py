"""Lease of a member: how long it may use its partitions without news from the planner. Pure.

A lease rests on two facts. The member has read everything that the planner had written at some
moment, and found no eviction; and the brokers have acknowledged an announcement that it sent at
some moment, so that the planner will read it. The lease ends `hold` seconds after the older of
these two moments. Either fact alone is enough for safety, as long as the planner waits for longer
than `hold` before it grants an evicted member's partitions: the first one against a planner that
evicted the member, the second one where the member reads from a broker that no longer leads.

A dead planner ends no lease. Times are seconds of the boot clock.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

NEVER = float("-inf")


class Lease(Struct, frozen=True, kw_only=True):
    """A member's lease in one life.

    Guarantees: a lease that has lapsed is never renewed.
    """

    hold: float
    """Length of the lease in seconds, from the moment that renewed it."""
    guard: float
    """Seconds before the end at which the member stops delivering records."""
    read_at: float = NEVER
    """Start of the newest read that reached the end of the planner's records."""
    announced_at: float = NEVER
    """Time of sending of the newest announcement that the brokers acknowledged."""
    begun: bool = False
    """Whether the lease was valid at any time."""

    @property
    def until(self) -> float:
        """End of the lease; minus infinity before it has begun."""
        return self.hold + min(self.read_at, self.announced_at)

    def valid(self, now: float) -> bool:
        """Whether the member may use its partitions."""
        return now < self.until

    def deliverable(self, now: float) -> bool:
        """Whether the member may deliver records, commit, and start new partitions."""
        return now < self.until - self.guard

    def lapsed(self, now: float) -> bool:
        """Whether the lease was valid once, and is over."""
        return self.begun and not self.valid(now)

    def remaining(self, now: float) -> float:
        """Seconds until the end of the lease, 0 at the least."""
        return max(self.until - now, 0.0)

    def read_confirmed(self, asked_at: float, now: float) -> Lease:
        """Renew by a read: all that the planner had written at `asked_at` was applied."""
        return self._renewed(replace(self, read_at=max(self.read_at, asked_at)), now)

    def announcement_acked(self, sent_at: float, now: float) -> Lease:
        """Renew by an announcement that was sent at `sent_at` and is acknowledged now."""
        return self._renewed(replace(self, announced_at=max(self.announced_at, sent_at)), now)

    def _renewed(self, renewed: Lease, now: float) -> Lease:
        if self.lapsed(now):
            return self
        return renewed if self.begun else replace(renewed, begun=renewed.valid(now))
