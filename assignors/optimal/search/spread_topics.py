"""Spread the partitions of a topic over members, by what moves anyway.

A member that has many partitions of one topic waits with all of them when that topic is slow, and
when the member stops, that topic suffers alone.

Guarantees: a partition that moves, or that had no owner, is exchanged for another one: for one that
its former owner keeps, which then moves in its place, or for one of another member that moves as
well. Counts stay, no more partitions move, the cross-rack cost does not rise, and no load rises
above its limit. Each exchange lowers the sum of the squared numbers of partitions of each topic
that each member has. It is greedy: longer chains are not tried.
Ties: partitions by number.
Cost: within `MAX_COMPARISONS`; where more than `MAX_FREE` partitions move, nothing is exchanged.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

MAX_COMPARISONS = 2_000_000
"""Pairs of partitions that are looked at: some hundredths of a second."""
MAX_FREE = 2_000
"""Partitions that move, or had no owner, up to which exchanges are searched for."""
MAX_CELLS = 4_000_000
"""Pairs of a topic and a member up to which partitions are counted."""
MAX_PASSES = 3
"""Passes over the partitions: an exchange may make room for another."""


def spread_topics(model: Model, owner: Ints, limit: Floats) -> Ints:
    """Return a plan in which the partitions of each topic are spread over more members.

    Args:
        model: the problem.
        owner: a plan.
        limit: longest time to drain that each member may have (M).
    """
    topics, members = len(model.group.topics), len(model.member_class)
    free = (owner >= 0) & (owner != model.current_owner)
    few = 0 < np.count_nonzero(free) <= MAX_FREE and topics * members <= MAX_CELLS
    if not few or topics < 2:
        return owner
    spreading = _Spreading.of(model, owner, free, limit)
    for _ in range(MAX_PASSES):
        crowded = spreading.crowded()
        exchanged = [spreading.exchange(partition) for partition in crowded.tolist()]
        if not any(exchanged) or spreading.comparisons >= MAX_COMPARISONS:
            break
    return spreading.plan.owner


@dataclass(slots=True)
class _Spreading:
    """A plan whose exchanges spread topics."""

    model: Model
    plan: WorkingPlan
    free: Bools
    """P: whether the partition had no owner, or leaves it."""
    limit: Floats
    """M: longest time to drain that the member may have."""
    number: Longs
    """Topics x M: partitions of the topic that the member has."""
    share: Longs
    """By topic: partitions that a member has at most where they are spread evenly."""
    comparisons: int = 0
    """Pairs of partitions that were compared so far."""

    @classmethod
    def of(cls, model: Model, owner: Ints, free: Bools, limit: Floats) -> "_Spreading":
        """Count the partitions of a plan."""
        topics, members = len(model.group.topics), len(model.member_class)
        owned = np.flatnonzero(owner >= 0)
        topic = model.group.partition_topic[owned].astype(np.int64)
        number = np.bincount(topic * members + owner[owned], minlength=topics * members)
        number = number.reshape(topics, members)
        return cls(
            model=model,
            plan=WorkingPlan.of(model, owner, model.current_owner),
            free=free,
            limit=limit,
            number=number,
            share=-(-number.sum(axis=1) // members),
        )

    def crowded(self) -> Longs:
        """Free partitions of which their owner has more than an even share, the most first."""
        free = np.flatnonzero(self.free)
        topic = self.model.group.partition_topic[free]
        number = self.number[topic, self.plan.owner[free]]
        crowded = np.flatnonzero(number > self.share[topic])
        return np.asarray(free[crowded[np.argsort(-number[crowded], kind="stable")]])

    def exchange(self, partition: int) -> bool:
        """Exchange a free partition for the one that spreads topics best; return whether any is."""
        topic = int(self.model.group.partition_topic[partition])
        owner = int(self.plan.owner[partition])
        if self.number[topic, owner] <= self.share[topic] or self.comparisons >= MAX_COMPARISONS:
            return False
        others = self._candidates(partition)
        self.comparisons += len(others)
        others = others[self._is_as_good(partition, others)]
        if not len(others):
            return False
        other_topic = self.model.group.partition_topic[others]
        taker = self.plan.owner[others]
        change = (
            self.number[topic, taker]
            - self.number[topic, owner]
            + self.number[other_topic, owner]
            - self.number[other_topic, taker]
            + 2
        )
        change[other_topic == topic] = 0
        best = int(np.argmin(change))
        if change[best] >= 0:
            return False
        self._apply(partition, int(others[best]))
        return True

    def _candidates(self, partition: int) -> Longs:
        """Partitions that the former owner keeps, and free ones of other members, ascending."""
        former, owner = int(self.model.current_owner[partition]), self.plan.owner
        free = np.flatnonzero(self.free & (owner != owner[partition]))
        if former < 0:
            return free
        kept = self.plan.partitions_of(former)
        return np.union1d(free, kept[self.model.current_owner[kept] == former])

    def _is_as_good(self, partition: int, others: Longs) -> Bools:
        """By other partition: whether the exchange for it costs nothing."""
        model, plan = self.model, self.plan
        owner, taker = int(plan.owner[partition]), plan.owner[others]
        moves = plan.moves_change(partition, owner, taker)
        moves += plan.moves_change(others, taker, owner)
        cross_rack = model.cross_rack_change(partition, owner, taker)
        cross_rack += model.cross_rack_change(others, taker, owner)
        gain = model.load[others] - model.load[partition]
        load, room = plan.member_load, self.limit * model.capacity
        return np.asarray(
            model.may_own(partition, taker)
            & model.may_own(others, owner)
            & (moves <= 0)
            & (cross_rack <= 0)
            & (load[owner] + gain <= room[owner])
            & (load[taker] - gain <= room[taker])
        )

    def _apply(self, partition: int, other: int) -> None:
        owner, taker = int(self.plan.owner[partition]), int(self.plan.owner[other])
        for moving, giver, receiver in ((partition, owner, taker), (other, taker, owner)):
            self.plan.move(moving, receiver)
            topic = self.model.group.partition_topic[moving]
            self.number[topic, giver] -= 1
            self.number[topic, receiver] += 1
            self.free[moving] = self.model.current_owner[moving] != receiver
