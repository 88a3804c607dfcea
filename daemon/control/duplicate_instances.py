"""Duplicate instance detection: two processes with one instance id keep replacing each other.

The newest incarnation of an instance wins, once or twice: that is a restart. When an incarnation is
replaced for the third time within a minute, the instance is in conflict, and none of its
incarnations is admitted until only one is left. Pure; times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_SECONDS = 60.0
REPLACEMENTS = 3
"""Replacements within the window that make a conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceConflict:
    """The incarnations of one instance that replace each other."""

    replaced_at: tuple[float, ...] = ()
    """Times of the replacements within the window."""
    since: float | None = None
    """Time at which the conflict began; None while there is none."""
    last_seen: Mapping[str, float] = field(default_factory=dict)
    """While the conflict is open: the time of the last announcement, by incarnation."""

    @property
    def open(self) -> bool:
        """Whether none of the incarnations is admitted."""
        return self.since is not None

    def joined(self, incarnation: str, *, replaces: bool, now: float) -> InstanceConflict:
        """Take in an incarnation that joins; `replaces`: an older incarnation is live."""
        recent = (*self.replaced_at, *([now] if replaces else []))
        replaced_at = tuple(at for at in recent if at > now - WINDOW_SECONDS)
        since = now if self.since is None and len(replaced_at) >= REPLACEMENTS else self.since
        last_seen = {} if since is None else {**self.last_seen, incarnation: now}
        return InstanceConflict(replaced_at=replaced_at, since=since, last_seen=last_seen)

    def checked(self, now: float, dead_after: float) -> InstanceConflict:
        """Forget incarnations that fell silent, and end the conflict when only one is left."""
        if self.since is None:
            return self
        last_seen = {name: at for name, at in self.last_seen.items() if now - at < dead_after}
        # Right after the start only the last incarnation is known; the one it replaced announces
        # itself again soon.
        if len(last_seen) > 1 or now - self.since < dead_after:
            return replace(self, last_seen=last_seen)
        return InstanceConflict()

    def idle(self, now: float) -> bool:
        """Whether there is nothing to remember."""
        return not self.open and all(at <= now - WINDOW_SECONDS for at in self.replaced_at)
