"""Incarnations whose published records may say something else by now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.handover.holding import Holding
    from levelwind.assignors.protocol.partition_ranges import TopicPartition

Owner = TypeVar("Owner", bound="tuple[str, str]")


class Shares(Protocol[Owner]):
    """A ledger: what each incarnation holds, and what it is to own."""

    @property
    def holdings(self) -> Mapping[Owner, Holding]:
        """By incarnation, the partitions that it may be using."""

    @property
    def target(self) -> Mapping[Owner, frozenset[TopicPartition]]:
        """By incarnation, the partitions that it is to own."""


def unpublished(ledger: Shares[Owner], published: Shares[Owner] | None) -> list[Owner]:
    """Incarnations with another holding or share than in a ledger that was published.

    Those that wait for partitions are among them: others may have given them up since. Without a
    published ledger it is all of them.
    """
    if published is None:
        return list(ledger.holdings.keys() | ledger.target.keys())
    nothing: frozenset[TopicPartition] = frozenset()
    changed = [owner for owner in ledger.target if owner not in ledger.holdings]
    for owner, holding in ledger.holdings.items():
        share, before = ledger.target.get(owner, nothing), published.target.get(owner, nothing)
        if (
            holding is not published.holdings.get(owner)
            or (share is not before and share != before)  # sets compare all that they have
            or len(share) != len(holding.granted)
        ):
            changed.append(owner)
    return changed
