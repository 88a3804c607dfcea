"""Figures of all groups at a scrape, each computed again only once its group has changed.

At rest a group gets a sample rarely, and decoding samples is most of a scrape's cost.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from levelwind.daemon.control.gain.scaling import MembersWanted
from levelwind.daemon.control.settings import ScalingSettings
from levelwind.daemon.gauges.group_figures import GroupFigures, figures_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.daemon.control.state.control_facts import ControlFacts, GroupFacts


class _Basis(NamedTuple):
    """All that the figures of a group are computed from."""

    members: tuple[tuple[str, float, str | None], ...]
    """Instance, announced capacity and rack of each live member."""
    values: tuple[object, ...]
    """Samples, layouts, ledger, plan, speeds and brokers, by their identity."""

    def same(self, other: _Basis) -> bool:
        """Whether the figures are those of another basis."""
        return (
            len(self.values) == len(other.values)
            and all(map(is_, self.values, other.values))
            and self.members == other.members
        )


@dataclass(slots=True)
class _Cached:
    """Figures of a group with all that they were computed from."""

    basis: _Basis
    figures: GroupFigures
    wanted: MembersWanted


class GroupGauges:
    """The figures of all groups, and what their scaling down waits by; for any thread."""

    def __init__(
        self,
        scaling_of: Callable[[str], ScalingSettings] = lambda _: ScalingSettings(),
        *,
        partitions: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without any group.

        Args:
            scaling_of: returns the scaling settings of a group.
            partitions: whether samples are kept, to show their partitions.
            clock: a clock that only grows, in seconds.
        """
        self.partitions = partitions
        self._scaling_of = scaling_of
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: dict[str, _Cached] = {}

    def read(self, control: ControlFacts) -> list[tuple[GroupFacts, GroupFigures, MembersWanted]]:
        """Return each group with its figures and the members that it wants.

        Costs the partitions of the groups that have changed since the last call.
        """
        now = self._clock()
        found = []
        with self._lock:
            former, self._cached = self._cached, {}
            for group in control.groups.values():
                entry = self._entry(group, control, former.get(group.name), now)
                self._cached[group.name] = entry
                found.append((group, entry.figures, entry.wanted))
        return found

    def forget(self) -> None:
        """Drop everything: the daemon does not lead."""
        with self._lock:
            self._cached = {}

    def members_wanted(self, control: ControlFacts, name: str) -> int | None:
        """Return the members that a group wants; None where there is no such group with lag."""
        group = control.groups.get(name)
        if group is None:
            return None
        with self._lock:
            entry = self._entry(group, control, self._cached.get(name), self._clock())
            self._cached[name] = entry
        return entry.wanted.wanted if entry.figures.needed is not None else None

    def _entry(
        self, group: GroupFacts, control: ControlFacts, former: _Cached | None, now: float
    ) -> _Cached:
        scaling = self._scaling_of(group.name)
        basis = _basis(group, control)
        if former is not None and former.basis.same(basis):
            figures = former.figures
        else:
            last_speed = former.figures.speed if former else None
            figures = figures_of(
                group, control, scaling, last_speed=last_speed, keep=self.partitions
            )
        wanted = former.wanted if former else MembersWanted()
        if figures.needed is not None:
            wanted = wanted.after(
                figures.needed, members=figures.members, settings=scaling, now=now
            )
        return _Cached(basis, figures, wanted)


def _basis(group: GroupFacts, control: ControlFacts) -> _Basis:
    samples = group.samples
    return _Basis(
        members=tuple((member.instance, member.capacity, member.rack) for member in group.live),
        values=(
            *samples.values(),
            *(control.topics.get(name) for name in samples),
            group.ledger,
            group.plan,
            group.speeds,
            control.brokers,
            control.deleted_topics,
        ),
    )
