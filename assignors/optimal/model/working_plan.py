"""A plan while it is changed: who has what, and what that makes of counts, load and racks."""

from dataclasses import dataclass

import numpy as np

from assignors.optimal.model.model import Model
from assignors.problem.columns import (
    Floats,
    Ints,
    Longs,
)


@dataclass(slots=True)
class WorkingPlan:
    """Who has what while it is changed."""

    terms: Model
    owner: Ints
    held: Ints
    count: Longs
    work: Floats
    crossed: int
    mine: dict[int, Longs]
    order: Longs
    begin: Longs

    @classmethod
    def of(cls, terms: Model, owner: Ints, held: Ints) -> "WorkingPlan":
        """Lay out a plan; its column is copied."""
        count = terms.count(owner)
        order = np.argsort(owner, kind="stable")
        begin = np.concatenate([[0], np.cumsum(count)]) + int(np.count_nonzero(owner < 0))
        return cls(
            terms=terms,
            owner=owner.copy(),
            held=held,
            count=count,
            work=terms.work(owner),
            crossed=terms.crossed(owner),
            mine={},
            order=order,
            begin=begin,
        )

    def of_member(self, member: int) -> Longs:
        """A member's partitions, ascending."""
        if member not in self.mine:
            self.mine[member] = self.order[self.begin[member] : self.begin[member + 1]]
        return self.mine[member]

    def give(self, partition: int, member: int) -> None:
        """Change one partition's owner."""
        before = int(self.owner[partition])
        mine, theirs = self.of_member(before), self.of_member(member)
        self.mine[before] = mine[mine != partition]
        self.mine[member] = np.insert(theirs, np.searchsorted(theirs, partition), partition)
        load = self.terms.load[partition]
        self.work[before] -= load
        self.work[member] += load
        self.count[before] -= 1
        self.count[member] += 1
        change = self.terms.crossing(np.array([partition]), np.array([member, before]))
        self.crossed += int(change[0]) - int(change[1])
        self.owner[partition] = member

    def drain(self) -> Floats:
        """By member: its time to drain."""
        return self.work / self.terms.capacity
