"""View of the cluster as a group's leader knows it: partitions of topics, and their racks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Racks: TypeAlias = tuple[frozenset[str], ...]
"""Racks of the replicas of each partition of a topic; empty where they are unknown."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Topics that the leader's metadata holds, with the racks of their replicas."""

    topics: Mapping[str, Racks] = field(default_factory=dict)

    @classmethod
    def of_replicas(
        cls,
        replicas: Mapping[str, Mapping[int, Iterable[int]]],
        broker_racks: Mapping[int, str | None],
    ) -> ClusterView:
        """Look up the racks of replicas.

        All replicas count, in sync or not (KIP-881). A broker that the metadata leaves out has no
        rack.

        Args:
            replicas: brokers of each partition's replicas, by topic and partition number.
            broker_racks: rack of each broker, by id; None or "" where it has none.
        """
        return cls(
            {
                topic: tuple(
                    frozenset(
                        rack
                        for broker in partitions.get(number, ())
                        if (rack := broker_racks.get(broker))
                    )
                    for number in range(max(partitions, default=-1) + 1)
                )
                for topic, partitions in replicas.items()
            }
        )

    def only(self, topics: Collection[str]) -> ClusterView:
        """Leave out all but some topics."""
        return ClusterView({name: racks for name, racks in self.topics.items() if name in topics})
