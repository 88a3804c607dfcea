"""When replica racks count as changed: by each partition's *set* of racks, whoever leads and whoever is online.

Partitions that exist only now or only then are a change of the topic, not of its racks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from assignors.protocol.records import RackChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    Racks: TypeAlias = Sequence[Sequence[str]]
    """Of each partition the racks of its replicas."""


def changes(before: Racks, after: Racks) -> dict[int, RackChange]:
    """By partition, the sets of racks that differ."""
    return {
        partition: RackChange(before=tuple(sorted(set(then))), after=tuple(sorted(set(now))))
        for partition, (then, now) in enumerate(zip(before, after, strict=False))
        if set(then) != set(now)
    }
