"""Incarnations of a ledger that keep the planner waiting for too long, or whose wait is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from levelwind.assignors.handover.ledger import Incarnation, Ledger
    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.protocol.partition_ranges import TopicPartition


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
    unstarted = {
        incarnation: holding.start_overdue(readable)
        for incarnation, holding in ledger.holdings.items()
        if holding.starting and not holding.evicted
    }
    return {incarnation: partitions for incarnation, partitions in unstarted.items() if partitions}


def to_fence(ledger: Ledger, now: float, read_until: float) -> dict[Incarnation, str]:
    """Transactional ids by evicted incarnation: fencing them is all that its wait still needs."""
    return {
        incarnation: holding.waits.transactional_id
        for incarnation, holding in ledger.holdings.items()
        if holding.waits.transactional_id is not None
        and holding.unfenced
        and holding.waited_out(now, read_until)
    }


def overdue_at(ledger: Ledger) -> float:
    """Readable time from which `overdue` or `start_overdue` finds something; infinite without."""
    at = float("inf")
    for holding in ledger.holdings.values():
        if (holding.revoking or holding.starting) and not holding.evicted:
            at = min(at, holding.overdue_at)
    return at


def released_at(
    ledger: Ledger, time: PlannerTime, live: Collection[Incarnation]
) -> tuple[float, float]:
    """Time at which an eviction may have been waited out, or a member's commits may be fenced.

    Args:
        ledger: the ledger.
        time: the time of the step.
        live: the incarnations that are live: each fences the older ones of its instance itself.

    Returns:
        Boot seconds, and boot seconds up to which all announcements must be handled: infinite where
        no eviction waits for the one or the other.
    """
    now = read_until = float("inf")
    evicted = [
        (incarnation.instance, holding, holding.eviction)
        for incarnation, holding in ledger.holdings.items()
        if holding.eviction is not None and not holding.gone
    ]
    instances = {incarnation.instance for incarnation in live} if evicted else set[str]()
    for instance, holding, eviction in evicted:
        if eviction.free_at is None:
            continue
        if time.now < eviction.free_at:
            now = min(now, eviction.free_at)
        elif not holding.silence_confirmed(time.read_until):
            read_until = min(read_until, holding.silence_confirmed_at)
        elif not (holding.unfenced and eviction.fencing == "asked") or instance in instances:
            now = float("-inf")
    return now, read_until
