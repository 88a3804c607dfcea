"""What has to happen between two assignments: first all that is revoked, then all that is assigned.

Law: a partition is assigned only after its former owner has given it up; what stays is named nowhere.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Ints,
    Longs,
)
from assignors.problem.group import Group


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """The partitions that change hands: one row each."""

    partition: Longs  # dense, ascending
    source: Ints  # the member that gives it up, -1 nobody
    target: Ints  # the member that gets it, -1 nobody

    def revoked(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """What members give up, by names; members that give up nothing are left out."""
        return self._named(group, self.source)

    def assigned(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """What members get, by names; members that get nothing are left out."""
        return self._named(group, self.target)

    def _named(self, group: Group, members: Ints) -> dict[str, dict[str, list[int]]]:
        column = np.full(group.partition_count, NOBODY, dtype=np.int32)
        column[self.partition] = members
        return {
            member: topics
            for member, topics in Assignment(column).to_names(group).items()
            if topics
        }


def moves(before: Assignment, after: Assignment) -> Moves:
    """The moves from one assignment of a group to the target of another."""
    source, target = before.owner, after.target
    partition = np.flatnonzero(source != target)
    return Moves(partition=partition, source=source[partition], target=target[partition])
