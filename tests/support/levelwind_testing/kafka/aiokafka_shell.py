"""aiokafka's shell as its client calls it, without a connection."""

from __future__ import annotations

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.protocol.metadata import MetadataResponse_v1

from levelwind.clients import aiokafka
from levelwind_testing.kafka.classic_shells import joined


class AiokafkaShell:
    """aiokafka's structures."""

    def __init__(self):
        self.assignors = aiokafka

    def cluster(self, topics, racks):
        cluster = ClusterMetadata(bootstrap_servers=[])
        self.update(cluster, topics, racks)
        return cluster

    def update(self, cluster, topics, racks):
        cluster.update_metadata(
            MetadataResponse_v1(
                [(broker, "localhost", 9092, rack) for broker, rack in racks.items()],
                1,
                [
                    (
                        0,
                        name,
                        False,
                        [
                            (0, number, next(iter(replicas), -1), list(replicas), list(replicas))
                            for number, replicas in enumerate(partitions)
                        ],
                    )
                    for name, partitions in topics.items()
                ],
            )
        )

    def assign(self, assignor, cluster, joined):
        members = {
            member: ConsumerProtocol.METADATA.decode(raw) for member, (raw, _) in joined.items()
        }
        return assignor.assign(cluster, members)

    def take(self, assignor, raw, generation):
        if generation >= 0:
            assignor.attach(joined(generation))
        assignor.on_assignment(ConsumerProtocol.ASSIGNMENT.decode(raw))
