"""Water-filling: repeatedly give one unit to the least loaded bucket, in closed form.

Guarantees: the gains, and their order, are those of giving the units one by one, each to the lowest
bucket and of equal buckets to the first. Topics are filled one after the other, the topic with the
fewest readers first.
"""

import numpy as np

from levelwind.assignors.problem.columns import Longs, within
from levelwind.assignors.problem.group import Group


def water_fill(levels: Longs, amount: int) -> Longs:
    """Units that each bucket gains, by bucket."""
    low = levels.copy()  # methods, not functions: plans call this for topics by the thousand
    low.sort()
    content = low.cumsum()  # of the lower buckets and this one
    wet = int((low * np.arange(1, len(low) + 1) - content).searchsorted(amount, side="right"))
    level, rest = divmod(amount + int(content[wet - 1]), wet)
    gained = np.maximum(level - levels, 0)
    if rest:
        gained[(levels <= level).nonzero()[0][:rest]] += 1
    return gained


def water_fill_order(levels: Longs, gained: Longs) -> Longs:
    """Bucket that each unit goes to, in the order in which the units are given."""
    buckets = np.repeat(np.arange(len(levels)), gained)
    return buckets[np.lexsort((buckets, levels[buckets] + within(gained)))]


def scarcest_first(group: Group) -> list[int]:
    """Topics by fewest readers, then most partitions, then name."""
    readers = np.diff(group.reader_start)[group.reader_set]
    order: list[int] = np.lexsort((-np.diff(group.topic_start), readers)).tolist()
    return order
