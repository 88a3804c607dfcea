"""Inputs of a plan: everything that its strategy sees. Pure.

The audit trail keeps them, so that anybody can compute the plan again: see
`levelwind.daemon.decisions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from levelwind.assignors.problem.group import Group
from levelwind.assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.problem.inputs import Member, Topic
    from levelwind.assignors.protocol.partition_ranges import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """The problem that a plan solves, and how it is solved."""

    topics: Mapping[str, Topic]
    """Topics by name."""
    members: tuple[Member, ...]
    strategy: str
    """The name of the strategy."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the strategy, as it is given them."""
    pause: float
    """Seconds that a hand-over of the group takes."""
    target: Mapping[str, Mapping[str, list[int]]] | None = None
    """The assignment that an operator gave; None: the strategy computes one."""

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """The member that owns each partition."""
        return ranges.owners({member.id: member.owned or {} for member in self.members})

    def problem(self) -> Group:
        """Return the problem in columns."""
        return Group.build(self.topics, self.members)

    def as_json(self) -> dict[str, Any]:
        """Return the inputs as a problem of `levelwind assign`, with `pause` and `target`."""
        topics: dict[str, Any] = {}
        columns: dict[str, dict[str, Any]] = {"lags": {}, "rates": {}, "bytes": {}}
        for name, topic in self.topics.items():
            topics[name] = {"partitions": topic.partitions}
            if topic.replica_racks is not None:
                topics[name]["replica_racks"] = [sorted(racks) for racks in topic.replica_racks]
            for column, values in (
                ("lags", topic.lags),
                ("rates", topic.rates),
                ("bytes", topic.bytes),
            ):
                if values is not None:
                    columns[column][name] = list(values)
        return {
            "strategy": self.strategy,
            "options": dict(self.options),
            "topics": topics,
            **columns,
            "members": {
                member.id: {
                    "topics": sorted(member.topics),
                    "rack": member.rack,
                    "priority": member.priority,
                    "capacity": member.capacity,
                    "speed": member.speed,
                    "owned": {topic: list(own) for topic, own in (member.owned or {}).items()},
                }
                for member in self.members
            },
            "pause": self.pause,
            "target": self.target,
        }
