"""Two processes under one instance name: each newcomer replaces the other, and comes back.

The newest incarnation of an instance wins, once or twice: that is a restart. When it happens a third time within a minute
the instance is contested, and none of its incarnations is admitted until one alone is left. Pure; times are monotonic
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHIN = 60.0
REPLACEMENTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceConflict:
    """What is known of the incarnations of one instance that replace each other."""

    replaced: tuple[float, ...] = ()
    since: float | None = None
    """When it was opened; None while it is not."""
    heard: Mapping[str, float] = field(default_factory=dict)
    """While it is open: when each incarnation was last heard."""

    @property
    def open(self) -> bool:
        """Whether none of the incarnations is admitted."""
        return self.since is not None

    def joined(self, incarnation: str, *, replaces: bool, now: float) -> InstanceConflict:
        """Take in an incarnation that wants to be admitted."""
        replaced = tuple(
            at for at in (*self.replaced, *([now] if replaces else [])) if at > now - WITHIN
        )
        since = now if self.since is None and len(replaced) >= REPLACEMENTS else self.since
        heard = {} if since is None else {**self.heard, incarnation: now}
        return InstanceConflict(replaced=replaced, since=since, heard=heard)

    def checked(self, now: float, dead_after: float) -> InstanceConflict:
        """Forget who fell silent; with one left it is over."""
        if self.since is None:
            return self
        heard = {name: at for name, at in self.heard.items() if now - at < dead_after}
        # Right after it opens only the last comer is known; the one it replaced takes a moment to be heard again.
        if len(heard) > 1 or now - self.since < dead_after:
            return replace(self, heard=heard)
        return InstanceConflict()

    def idle(self, now: float) -> bool:
        """Whether there is nothing to remember."""
        return not self.open and all(at <= now - WITHIN for at in self.replaced)
