"""Saying things once: what holds for long is said when it begins and when it ends, what repeats is said now and then.

All of it is plain state: time comes in with each call, the words are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


@dataclass(slots=True, kw_only=True)
class Outage:
    """Something that is away: since when, and when to try it again (twice as late each time, up to a limit)."""

    first_pause: float = 0.5
    longest_pause: float = 30.0
    since: float | None = None
    _pause: float = 0.0
    _retry_at: float = 0.0

    def lost(self, now: float) -> bool:
        """Note a failure; True for the first of an outage."""
        begins = self.since is None
        self._pause = self.first_pause if begins else min(2 * self._pause, self.longest_pause)
        self._retry_at = now + self._pause
        if begins:
            self.since = now
        return begins

    def regained(self, now: float) -> float | None:
        """Note a success; the outage's length if it ends one."""
        if self.since is None:
            return None
        lasted, self.since = now - self.since, None
        return lasted

    def pausing(self, now: float) -> bool:
        """Whether it is too early to try again."""
        return self.since is not None and now < self._retry_at


@dataclass(slots=True, kw_only=True)
class Throttle(Generic[Key]):
    """Lets one word for each key through in an interval, and counts those that it held back."""

    interval: float
    _said: dict[Key, float] = field(default_factory=dict)
    _held: dict[Key, int] = field(default_factory=dict)

    def allows(self, key: Key, now: float) -> int | None:
        """None: hold it back. A number: say it, and that so many were held back since the last."""
        if (last := self._said.get(key)) is not None and now < last + self.interval:
            self._held[key] = self._held.get(key, 0) + 1
            return None
        self._said[key] = now
        return self._held.pop(key, 0)


def changes(
    before: Mapping[Key, Value], after: Mapping[Key, Value]
) -> tuple[dict[Key, Value], frozenset[Key]]:
    """What is new or different in a table of conditions, and what has ended."""
    begun = {key: value for key, value in after.items() if before.get(key) != value}
    return begun, frozenset(before.keys() - after.keys())
