"""Changes of replica racks: each partition's *set* of racks counts, whoever leads or is online.

Partitions that exist only before or only after are a change of the topic, not of its racks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from levelwind.assignors.protocol.records import RackChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    Racks: TypeAlias = Sequence[Sequence[str]]
    """Racks of the replicas, by partition."""


def changes(before: Racks, after: Racks) -> dict[int, RackChange]:
    """The partitions whose sets of racks differ, with both sets in order."""
    return {
        partition: RackChange(before=tuple(sorted(set(then))), after=tuple(sorted(set(now))))
        for partition, (then, now) in enumerate(zip(before, after, strict=False))
        if set(then) != set(now)
    }
