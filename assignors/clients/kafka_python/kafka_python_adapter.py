"""The calls of kafka-python's coordinator, answered by a `ClassicAssignor`.

kafka-python calls `metadata` when it joins, `assign` when its member leads, and `on_assignment`
when it got its partitions, all in the thread of its event loop. It takes bytes wherever it would
encode a structure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol

from levelwind.assignors.clients.classic.client_shell import Assignor, ClientShell, shell_class
from levelwind.assignors.clients.group_join import Joiner
from levelwind.assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from collections.abc import Iterable


class KafkaPythonAdapter(ClientShell):
    """The part of an assignor that kafka-python's `AbstractPartitionAssignor` asks for."""

    replicas_name: ClassVar[str] = "replica_nodes"
    broker_id_name: ClassVar[str] = "node_id"

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Rebalance protocols of the assignor: one of eager and cooperative."""
        return [RebalanceProtocol.COOPERATIVE if self.cooperative else RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Write the subscription that the member joins with."""
        return self.join_bytes(topics)

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, bytes]:
        """Plan for the group that the member leads.

        Args:
            cluster: kafka-python's `ClusterMetadata`.
            members: `JoinGroupResponseMember`s with decoded subscriptions.

        Raises:
            ProblemError: a member's subscription cannot be read.
        """
        joiners = [
            Joiner(
                id=member.member_id,
                instance_id=member.group_instance_id or None,
                offers={self.name: member.metadata.encode()},
            )
            for member in members
        ]
        return self.assignment_bytes(self._watch(cluster), joiners)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Take the partitions that the member was assigned in a generation."""
        self.take(ranges.by_topic(assignment.partitions()), generation)


def for_kafka_python(assignor: type[Assignor]) -> type[Assignor]:
    """Make a class that `partition_assignment_strategy` of a `KafkaConsumer` takes."""
    bases = (KafkaPythonAdapter, assignor, AbstractPartitionAssignor)
    return shell_class(assignor, bases, "levelwind.clients.kafka_python")
