"""One at a time to whoever has least, computed at once: water finds its level.

Law: giving so many units one by one, each to the lowest vessel and of equal ones to the first, gives these gains in this order.
Topic is poured after topic, the one whose choice of readers is narrowest first.
"""

import numpy as np

from assignors.problem.columns import (
    Longs,
    within,
)
from assignors.problem.group import Group


def water_fill(levels: Longs, amount: int) -> Longs:
    """How much each vessel gains."""
    low = levels.copy()  # methods, not functions: this is called for topics by the thousand
    low.sort()
    content = low.cumsum()  # of the lower ones and this
    wet = int((low * np.arange(1, len(low) + 1) - content).searchsorted(amount, side="right"))
    level, rest = divmod(amount + int(content[wet - 1]), wet)
    gained = np.maximum(level - levels, 0)
    if rest:
        gained[(levels <= level).nonzero()[0][:rest]] += 1
    return gained


def water_fill_order(levels: Longs, gained: Longs) -> Longs:
    """Which vessel each unit went to, unit by unit."""
    vessels = np.repeat(np.arange(len(levels)), gained)
    return vessels[np.lexsort((vessels, levels[vessels] + within(gained)))]


def scarcest_first(group: Group) -> list[int]:
    """Topics by fewest readers, then most partitions, then name."""
    readers = np.diff(group.reader_start)[group.reader_set]
    order: list[int] = np.lexsort((-np.diff(group.topic_start), readers)).tolist()
    return order
