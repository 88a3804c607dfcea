"""Evening out: the last objective, by what moves anyway.

Guarantees: only partitions without a current owner, or that leave it under the plan, change hands,
so nothing more moves; no member's load rises above the limit or above what it is; the cross-rack
cost does not rise; and counts stay within their limits.
"""

from dataclasses import dataclass, field

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

MAX_COMPARISONS = 10_000_000
"""Pairs of a partition and a member that are looked at: less than a tenth of a second."""


@dataclass(slots=True)
class _Takers:
    """Members that may take a partition at no higher cross-rack cost than its owner has.

    The answer is the same for all partitions of one *kind*: one reader set and one rack set, with a
    replica in the owner's rack that the taker's rack must have as well, or without.
    """

    model: Model
    by_kind: dict[int, Bools] = field(default_factory=dict)
    """M: whether the member may take partitions of a kind, for the kinds that were asked for."""

    def kinds(self, partitions: Longs, giver: int) -> Longs:
        """Kind of each partition of a giver."""
        model = self.model
        rack = model.class_rack[model.member_class[giver]]
        rack_set = model.rack_set[partitions]
        local = ~model.rack_remote[rack_set, rack] & (model.weight[partitions] > 0)
        sets = model.reader_set[partitions] * len(model.rack_remote) + rack_set
        return np.asarray(2 * sets + local)

    def of_kind(self, kind: int) -> Bools:
        """M: whether the member may take partitions of a kind."""
        if kind not in self.by_kind:
            model = self.model
            reader_set, rack_set = divmod(kind // 2, len(model.rack_remote))
            may_take = model.allowed[reader_set]
            if kind % 2:
                may_take = may_take & ~model.rack_remote[rack_set, model.class_rack]
            self.by_kind[kind] = may_take[model.member_class]
        return self.by_kind[kind]


def even_out(model: Model, owner: Ints, max_drain_time: Floats | float) -> Ints:
    """Make counts more even by passing on partitions that move under the plan anyway.

    The members with most partitions pass on their lightest ones first, each to the member with the
    fewest that may have it. It is greedy: chains over several members are not tried.

    Args:
        model: the problem.
        owner: a plan.
        max_drain_time: largest acceptable time to drain, of each member (M) or of all.

    Returns:
        The plan itself where nothing is to be gained.
    """
    free = (owner >= 0) & (owner != model.current_owner)
    if not bool(free.any()) or np.ptp(model.member_count(owner)) < 2:
        return owner
    plan = WorkingPlan.of(model, owner, model.keepable_owner)
    takers, limit = _Takers(model), max_drain_time * model.capacity
    attempts = MAX_COMPARISONS // len(limit)
    fewest = int(plan.member_count.min())
    for giver in np.argsort(-plan.member_count, kind="stable").tolist():
        if attempts <= 0:
            break
        if plan.member_count[giver] - fewest < 2:
            continue  # a later one, with no more at first, may have taken some since
        own = plan.partitions_of(giver)
        passable = own[free[own]]
        passable = passable[np.argsort(model.load[passable], kind="stable")]
        attempts = _pass_on(plan, giver, passable, takers, limit, fewest, attempts)
    return plan.owner


def _pass_on(
    plan: WorkingPlan,
    giver: int,
    passable: Longs,
    takers: _Takers,
    limit: Floats,
    fewest: int,
    attempts: int,
) -> int:
    """Pass on partitions of a member, in place; return how many more may be tried.

    Args:
        plan: what changes.
        giver: the member that passes on.
        passable: its partitions that may leave, by load.
        takers: who may take them.
        limit: largest acceptable load of each member (M), in records.
        fewest: the smallest count of any member.
        attempts: how many partitions may be tried.
    """
    model, count = plan.model, plan.member_count
    # While one member gives, others only fill up: what none of them has room for now, none has
    # room for later, nor for a heavier partition of the same kind.
    hopeless: set[int] = set()
    kinds = takers.kinds(passable, giver).tolist()
    for partition, kind in zip(passable.tolist(), kinds, strict=True):
        if count[giver] - fewest < 2 or count[giver] <= model.min_count[giver]:
            break
        if kind in hopeless:
            continue
        if attempts <= 0:
            break
        attempts -= 1
        suitable = takers.of_kind(kind) & (plan.member_load + model.load[partition] <= limit)
        suitable &= count < np.minimum(count[giver] - 1, model.max_count)
        if not suitable.any():
            hopeless.add(kind)
            continue
        former = int(model.current_owner[partition])
        if former != NOBODY:
            suitable[former] = False
        candidates = np.flatnonzero(suitable)
        if len(candidates):
            plan.move(partition, int(candidates[np.argmin(count[candidates])]))
    return attempts
