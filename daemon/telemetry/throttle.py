"""Log throttling: report state transitions once, and limit the rate of repeated events.

All classes are plain state: the caller passes the time, in monotonic seconds, and writes the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from levelwind.daemon.doubling_pause import DoublingPause

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


RETRY_PAUSES = DoublingPause(0.5, 30.0)
"""Seconds between two retries of most things."""

MOST_KEYS = 10_000
"""Keys that a throttle remembers: names of members and addresses are new for ever."""


@dataclass(slots=True, kw_only=True)
class Outage:
    """An outage: its beginning, and the next retry."""

    pauses: DoublingPause = RETRY_PAUSES
    """Seconds from a failure to the next retry."""
    since: float | None = None
    """When the outage began; None while there is none."""
    _pause: float | None = None
    _retry_at: float = 0.0

    def lost(self, now: float) -> bool:
        """Note a failure; return whether it begins an outage."""
        first = self.since is None
        self._pause = self.pauses.after(None if first else self._pause)
        self._retry_at = now + self._pause
        if first:
            self.since = now
        return first

    def regained(self, now: float) -> float | None:
        """Note a success; return the length of the outage that it ends, None if there was none."""
        if self.since is None:
            return None
        duration, self.since = now - self.since, None
        return duration

    def pausing(self, now: float) -> bool:
        """Whether it is too early for the next retry."""
        return self.since is not None and now < self._retry_at


@dataclass(slots=True, kw_only=True)
class Throttle(Generic[Key]):
    """Passes one event of each key an interval, and counts the suppressed ones.

    Beyond `MOST_KEYS` the key that passed longest ago is forgotten.
    """

    interval: float
    """Seconds from one event of a key to the next."""
    _passed_at: dict[Key, float] = field(default_factory=dict)
    _suppressed: dict[Key, int] = field(default_factory=dict)

    def allows(self, key: Key, now: float) -> int | None:
        """None to suppress the event; otherwise how many were suppressed since the last one."""
        if (last := self._passed_at.get(key)) is not None and now < last + self.interval:
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return None
        self._passed_at.pop(key, None)  # the dict is in the order of their last passing
        self._passed_at[key] = now
        if len(self._passed_at) > MOST_KEYS:
            oldest = next(iter(self._passed_at))
            del self._passed_at[oldest]
            self._suppressed.pop(oldest, None)
        return self._suppressed.pop(key, 0)


def changes(
    before: Mapping[Key, Value], after: Mapping[Key, Value]
) -> tuple[dict[Key, Value], frozenset[Key]]:
    """Return the conditions of a table that are new or different, and the keys that are gone."""
    begun = {key: value for key, value in after.items() if before.get(key) != value}
    return begun, frozenset(before.keys() - after.keys())
