"""Incarnations of a ledger that keep the planner waiting for too long, or whose wait is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignors.handover.ledger import Incarnation, Ledger
    from assignors.protocol.partition_ranges import TopicPartition


def overdue(ledger: Ledger, readable: float) -> dict[Incarnation, float]:
    """Patience, in seconds, with incarnations that have not given up partitions within it.

    Evicted ones are left out.
    """
    return {
        incarnation: holding.waits.patience
        for incarnation, holding in ledger.holdings.items()
        if not holding.evicted and holding.revocation_overdue(readable)
    }


def start_overdue(ledger: Ledger, readable: float) -> dict[Incarnation, frozenset[TopicPartition]]:
    """Granted partitions that are not started for too long, by incarnation."""
    found = {
        incarnation: holding.start_overdue(readable)
        for incarnation, holding in ledger.holdings.items()
        if holding.starting and not holding.evicted
    }
    return {incarnation: partitions for incarnation, partitions in found.items() if partitions}


def to_fence(ledger: Ledger, now: float, read_until: float) -> dict[Incarnation, str]:
    """Transactional ids by evicted incarnation: fencing them is all that its wait still needs."""
    return {
        incarnation: holding.waits.transactional_id
        for incarnation, holding in ledger.holdings.items()
        if holding.waits.transactional_id is not None
        and not holding.fenced
        and holding.waited_out(now, read_until)
    }
