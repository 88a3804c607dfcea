"""Moves between two assignments: first every revocation, then every assignment.

Guarantees: a partition is assigned only after its former owner has given it up; a partition that
stays is not listed.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Ints, Longs
from levelwind.assignors.problem.group import Group


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """Partitions that change owner, one row each."""

    partition: Longs
    """Dense partitions, ascending."""
    source: Ints
    """The member that gives the partition up; -1 for nobody."""
    target: Ints
    """The member that gets the partition; -1 for nobody."""

    def revoked(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Partitions that members give up, by name; members that give up nothing are left out."""
        return self._named(group, self.source)

    def assigned(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Partitions that members get, by name; members that get nothing are left out."""
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
    """Moves from the owners of one assignment of a group to the target of another."""
    source, target = before.owner, after.target
    partition = np.flatnonzero(source != target)
    return Moves(partition=partition, source=source[partition], target=target[partition])
