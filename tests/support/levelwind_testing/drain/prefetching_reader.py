"""Consumers that read their oldest records first, as librdkafka does.

librdkafka fetches ahead, 100,000 records of each partition by default, into one queue of the
consumer: a consumer that is behind is behind on all of its partitions, while the simulation's
default reads those with few records to their end.
"""

from __future__ import annotations

import numpy as np


class PrefetchingReader:
    """Reads in the order of arrival over all partitions of a consumer.

    Records of one tick are shared in proportion; all of a partition that moves are as old as they
    were at its former owner.
    """

    def __init__(self, ticks: int, partitions: int, costs: np.ndarray | None = None) -> None:
        """Begin with nothing.

        Args:
            ticks: ticks that there are.
            partitions: partitions of the topics.
            costs: work of a record by partition, in records of a consumer's budget; all 1 without.
        """
        self._costs = np.ones(partitions) if costs is None else costs
        self._debt: dict[int, float] = {}  # by consumer: work of a record beyond its budget
        self._arrived = np.zeros((ticks + 1, partitions), dtype=np.int64)
        # ticks x P: records that had arrived before each tick, and those of no tick in the first.
        self._ticks = 0
        self._done = np.zeros(partitions, dtype=np.int64)

    def arrive(self, records: np.ndarray) -> None:
        """Add the records (P) of one tick."""
        self._arrived[self._ticks + 1] = self._arrived[self._ticks] + records
        self._ticks += 1

    def __call__(
        self, lag: np.ndarray, owner: np.ndarray, budget: np.ndarray, readable: np.ndarray
    ) -> np.ndarray:
        """Records read in one tick, by partition."""
        done = np.zeros_like(lag)
        for member, most in enumerate(budget.tolist()):
            own = np.flatnonzero(readable & (owner == member) & (lag > 0))
            work = most - self._debt.get(member, 0.0)
            done[own] = self._within(own, lag[own], work)
            self._debt[member] = max(float(done[own] @ self._costs[own]) - work, 0.0)
        self._done += done
        return done

    def _within(self, own: np.ndarray, left: np.ndarray, work: float) -> np.ndarray:
        """The oldest unread records of some partitions within the work; the last may exceed it."""
        costs = self._costs[own]
        if float(left @ costs) <= work:
            return left
        low, high = 0, int(left.sum())  # the most records whose work fits
        while low < high:
            middle = (low + high + 1) // 2
            if float(self._oldest(own, middle) @ costs) <= work:
                low = middle
            else:
                high = middle - 1
        begun = int(work > float(self._oldest(own, low) @ costs))
        return self._oldest(own, low + begun)

    def _oldest(self, own: np.ndarray, most: int) -> np.ndarray:
        """The oldest `most` unread records of some partitions, by partition."""

        def unread(tick: int) -> np.ndarray:
            """Unread records that arrived before the end of a tick."""
            return np.maximum(self._arrived[tick, own] - self._done[own], 0)

        low, high = 0, self._ticks
        while low < high:
            middle = (low + high) // 2
            if unread(middle).sum() >= most:
                high = middle
            else:
                low = middle + 1
        older = unread(low - 1) if low else np.zeros(len(own), dtype=np.int64)
        last = unread(low) - older
        share = last * (most - int(older.sum())) // max(int(last.sum()), 1)
        left = most - int(older.sum()) - int(share.sum())
        share[np.argsort(share - last, kind="stable")[:left]] += 1
        return older + share
