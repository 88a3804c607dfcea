"""Duplicate instance detection: two processes with one instance id keep replacing each other.

The newest incarnation of an instance wins: that is a restart, and so is a process that dies again
and again. Two processes are seen by this: an incarnation announces something after a newer one has
replaced it. At the third replacement within a minute, two of them such, the instance is in
conflict, and none of its incarnations is admitted until only one is left. Pure; times are readable
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

WINDOW_SECONDS = 60.0
REPLACEMENTS = 3
"""Replacements within the window that make a conflict. All but the last must have been survived: of
the incarnation that was replaced just now nothing can have been read since."""


class Replacement(NamedTuple):
    """An incarnation that a newer one has replaced."""

    at: float
    """Time of the replacement."""
    survived: bool
    """Whether the replaced incarnation has announced something since."""


class InstanceConflict(Struct, frozen=True, kw_only=True):
    """The incarnations of one instance that replace each other."""

    replaced: Mapping[str, Replacement] = field(default_factory=dict)
    """The replacements within the window, by incarnation, the oldest first."""
    since: float | None = None
    """Time at which the conflict began; None while there is none."""
    last_seen: Mapping[str, float] = field(default_factory=dict)
    """Time of the last announcement, by incarnation.

    While the conflict is open these are all incarnations that were read. Afterwards it is the one
    that is left, until it announces itself again: if it never does, it has died too.
    """

    @property
    def open(self) -> bool:
        """Whether none of the incarnations is admitted."""
        return self.since is not None

    def joined(self, incarnation: str, *, replaces: str | None, now: float) -> InstanceConflict:
        """Take in an incarnation that joins; `replaces`: the older one that was live."""
        replaced = {
            name: replacement
            for name, replacement in self.replaced.items()
            if replacement.at > now - WINDOW_SECONDS
        }
        if replaces is not None:
            replaced[replaces] = Replacement(now, survived=False)
        survived = sum(replacement.survived for replacement in replaced.values())
        alternates = len(replaced) >= REPLACEMENTS and survived >= REPLACEMENTS - 1
        since = now if self.since is None and alternates else self.since
        others = self.without(incarnation).last_seen
        last_seen = others if since is None else {**others, incarnation: now}
        return InstanceConflict(replaced=replaced, since=since, last_seen=last_seen)

    def seen(self, incarnation: str, now: float) -> InstanceConflict:
        """Take in any announcement of the instance: a replaced incarnation has survived.

        Also an evicted one counts while the conflict is open: its process is alive.
        """
        after = self
        replacement = self.replaced.get(incarnation)
        if replacement is not None and not replacement.survived:
            seen = {**self.replaced, incarnation: replacement._replace(survived=True)}
            after = replace(after, replaced=seen)
        if self.open:
            return replace(after, last_seen={**self.last_seen, incarnation: now})
        return after.without(incarnation) if incarnation in self.last_seen else after

    def without(self, incarnation: str) -> InstanceConflict:
        """Forget an incarnation that has left, or is a member again."""
        last_seen = {name: at for name, at in self.last_seen.items() if name != incarnation}
        return replace(self, last_seen=last_seen)

    def silent(self, now: float, dead_after: float) -> list[str]:
        """Return the incarnations that fell silent."""
        return [name for name, at in self.last_seen.items() if now - at >= dead_after]

    def checked(self, now: float, dead_after: float) -> InstanceConflict:
        """Forget incarnations that fell silent, and end the conflict when only one is left."""
        last_seen = {name: at for name, at in self.last_seen.items() if now - at < dead_after}
        if len(last_seen) == len(self.last_seen) and self.since is None:
            return self
        # Right after the start only the last incarnation is known; the one it replaced announces
        # itself again soon.
        if self.since is None or len(last_seen) > 1 or now - self.since < dead_after:
            return replace(self, last_seen=last_seen)
        return InstanceConflict(last_seen=last_seen)

    def checked_at(self, dead_after: float) -> float:
        """Readable time from which `silent`, `checked` or `idle` says something else."""
        ends = [at + dead_after for at in self.last_seen.values()]
        if self.since is not None and len(self.last_seen) <= 1:
            ends.append(self.since + dead_after)
        elif self.since is None and not self.last_seen:
            replaced = (entry.at for entry in self.replaced.values())
            ends.append(max(replaced, default=float("-inf")) + WINDOW_SECONDS)
        return min(ends)

    def idle(self, now: float) -> bool:
        """Whether there is nothing to remember."""
        outdated = (entry.at <= now - WINDOW_SECONDS for entry in self.replaced.values())
        return not self.open and not self.last_seen and all(outdated)
