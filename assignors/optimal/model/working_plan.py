"""A working plan: a plan that a search is changing.

It carries the counts, loads and cross-rack cost that follow from its owners.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.model.model import Indices, Model
from levelwind.assignors.problem.columns import Floats, Ints, Longs


@dataclass(slots=True)
class WorkingPlan:
    """Owners of all partitions, and what follows from them, kept up to date by `move`."""

    model: Model
    owner: Ints
    """P: current owner in the working plan; -1 if there is none."""
    preferred_owner: Ints
    """P: the member that should keep the partition; -1 for none."""
    member_count: Longs
    """M: partitions of the member."""
    member_load: Floats
    """M: load of the member."""
    total_cross_rack_cost: int
    """Cross-rack cost of the working plan."""
    partitions_by_member: dict[int, Longs]
    """Partitions of each member that was asked for or changed, ascending."""
    order: Longs
    """Partitions by owner, as the plan was laid out."""
    starts: Longs
    """M+1: the partitions of member m were order[starts[m] : starts[m + 1]]."""

    @classmethod
    def of(cls, model: Model, owner: Ints, preferred_owner: Ints) -> "WorkingPlan":
        """Lay out a plan; its owner column is copied."""
        member_count = model.member_count(owner)
        # Numbers of 16 bits are sorted by digits, in a tenth of the time.
        narrow = np.int16 if len(member_count) <= np.iinfo(np.int16).max else owner.dtype
        order = np.argsort(owner.astype(narrow), kind="stable")
        starts = np.concatenate([[0], np.cumsum(member_count)]) + int(np.count_nonzero(owner < 0))
        return cls(
            model=model,
            owner=owner.copy(),
            preferred_owner=preferred_owner,
            member_count=member_count,
            member_load=model.member_load(owner),
            total_cross_rack_cost=model.total_cross_rack_cost(owner),
            partitions_by_member={},
            order=order,
            starts=starts,
        )

    def partitions_of(self, member: int) -> Longs:
        """Partitions of a member, ascending."""
        if member not in self.partitions_by_member:
            self.partitions_by_member[member] = self.order[
                self.starts[member] : self.starts[member + 1]
            ]
        return self.partitions_by_member[member]

    def move(self, partition: int, member: int) -> None:
        """Give a partition to another member."""
        before = int(self.owner[partition])
        lost, gained = self.partitions_of(before), self.partitions_of(member)
        self.partitions_by_member[before] = lost[lost != partition]
        before_it = int(gained.searchsorted(partition))
        self.partitions_by_member[member] = np.concatenate(
            (gained[:before_it], [partition], gained[before_it:])
        )
        load = self.model.load[partition]
        self.member_load[before] -= load
        self.member_load[member] += load
        self.member_count[before] -= 1
        self.member_count[member] += 1
        self.total_cross_rack_cost += self._cross_rack_cost(partition, member)
        self.total_cross_rack_cost -= self._cross_rack_cost(partition, before)
        self.owner[partition] = member

    def _cross_rack_cost(self, partition: int, member: int) -> int:
        model = self.model
        rack = model.class_rack[model.member_class[member]]
        remote = model.rack_remote[model.rack_set[partition], rack]
        return int(model.weight[partition]) if remote else 0

    def moves_change(self, partitions: Indices, before: Indices, after: Indices) -> Longs:
        """Change of the moves by each partition that goes to another member."""
        preferred_owner: Ints = np.asarray(self.preferred_owner[partitions])
        return np.asarray((preferred_owner == before).astype(np.int64) - (preferred_owner == after))

    def drain_time(self) -> Floats:
        """Time to drain of each member (M): its load over its capacity."""
        return self.member_load / self.model.capacity
