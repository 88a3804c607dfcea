"""Members that a group wants: how many consumer processes an autoscaler should run. Pure.

Law: enough members that arrivals need at most `TARGET_UTILISATION` of their speed, and that what is
behind is drained within `drain_within`; never more than the partitions with work, within the floor
and the ceiling. Up at once; down only to the most that was wanted within `scale_down_after`, and
not at all while the lag of a partition is not known: nobody can say what waits there.

A partition has one owner, so members are counted as bins that whole partitions are packed into. The
bound below is the best packing's, or little under it: plans level load, so uneven partition counts
are no obstacle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.drain import TARGET_UTILISATION

if TYPE_CHECKING:
    from levelwind.assignors.problem.columns import Floats
    from levelwind.daemon.control.settings import ScalingSettings

LARGEST_FRACTION = 12
"""Partitions of about a member's speed over this number and more are packed whole; smaller ones are
counted by their sum, as if they could be split."""
ROUNDING = 1e-9
"""Share by which sums may be off."""


def least_members(work: Floats, speed: float) -> int:
    """Compute how many members at least are needed so that none has more work than its speed.

    No packing of whole partitions does with fewer members; a partition above the speed of a member
    fills one. Bounds by the dual feasible functions of Fekete and Schepers (2001). Monotone: more
    work or less speed never lowers the result. Cost: the partitions times `LARGEST_FRACTION`.

    Args:
        work: records per second that each partition needs.
        speed: records per second of a member, above 0.
    """
    share = np.minimum(work / speed, 1.0)
    share = share[share > 0]
    most = float(share.sum())
    for parts in range(1, LARGEST_FRACTION):
        pieces = np.ceil((parts + 1) * share * (1 - ROUNDING)) - 1
        most = max(most, float(pieces.sum()) / parts)
    return int(np.ceil(most * (1 - ROUNDING)))


def members_needed(
    lag: Floats,
    rate: Floats,
    members: int,
    speed: float | None,
    settings: ScalingSettings,
    *,
    unknown: int = 0,
) -> int:
    """Compute the members that a group needs by one sample, within its floor and ceiling.

    Args:
        lag: records behind, by partition.
        rate: records that arrive per second, by partition.
        members: the members that the group has.
        speed: records per second of a member; None while no speed is known: then the group keeps
            the members that it has, and one where it has none.
        settings: the settings of the group.
        unknown: the partitions whose lag is not known, which count as having none: with any, the
            group needs at least the members that it has.
    """
    with_work = int(np.count_nonzero((lag > 0) | (rate > 0)))
    if speed is None:
        needed = max(members, 1)
    else:
        needed = max(
            least_members(rate / TARGET_UTILISATION, speed),
            least_members(rate + lag / settings.drain_within, speed),
        )
    return settings.within(max(min(needed, with_work), members if unknown else 0))


@dataclass(frozen=True, slots=True)
class MembersWanted:
    """Members that a group wants, with the memory that scaling down waits by."""

    recent: tuple[tuple[float, int], ...] = ()
    """Times in seconds, and the members that were needed until then. Numbers fall from entry to
    entry, since a higher one makes the lower ones before it irrelevant; the first one is wanted."""

    @property
    def wanted(self) -> int:
        """The members that the group wants; 0 before the first sample."""
        return self.recent[0][1] if self.recent else 0

    def after(
        self, needed: int, *, members: int, settings: ScalingSettings, now: float
    ) -> MembersWanted:
        """Take in what is needed now.

        With the first call the group counts as having needed the members that it has: a daemon that
        has just taken over does not know what was needed before.

        Args:
            needed: the result of `members_needed`.
            members: the members that the group has.
            settings: the settings of the group.
            now: seconds of a clock that only grows.
        """
        recent = self.recent or ((now, settings.within(members)),)
        # What was needed last counts until now, however long ago that was looked at.
        until_now = (*recent[:-1], (now, recent[-1][1]))
        kept = [
            (at, number)
            for at, number in until_now
            if number > needed and now - at < settings.scale_down_after
        ]
        return MembersWanted((*kept, (now, needed)))
