"""One at a time to whoever has least, computed at once: water finds its level.

Law: giving so many units one by one, each to the lowest vessel and of equal ones to the first, gives these gains in this order.
"""

import numpy as np

from assignors.columns import Longs, within


def poured(levels: Longs, amount: int) -> Longs:
    """How much each vessel gains."""
    low = np.sort(levels)
    below = np.cumsum(low) - low  # the content of the lower ones
    wet = int(np.searchsorted(low * np.arange(len(low)) - below, amount, side="right"))
    level, rest = divmod(amount + int(low[:wet].sum()), wet)
    gained = np.maximum(level - levels, 0)
    gained[np.flatnonzero(levels <= level)[:rest]] += 1
    return gained


def in_turn(levels: Longs, gained: Longs) -> Longs:
    """Which vessel each unit went to, unit by unit."""
    vessels = np.repeat(np.arange(len(levels)), gained)
    return vessels[np.lexsort((vessels, levels[vessels] + within(gained)))]
