"""kafka-python's shell as its client calls it, without a connection."""

from __future__ import annotations

from kafka.cluster import ClusterMetadata
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.protocol.metadata import MetadataResponse

from levelwind.clients import kafka_python


class KafkaPythonShell:
    """kafka-python's structures."""

    def __init__(self):
        self.assignors = kafka_python

    def cluster(self, topics, racks):
        """Metadata of topics (replicas of each partition) and of brokers with their racks."""
        cluster = ClusterMetadata(bootstrap_servers=[])
        self.update(cluster, topics, racks)
        return cluster

    def update(self, cluster, topics, racks):
        topic = MetadataResponse.MetadataResponseTopic
        response = MetadataResponse(
            version=9,
            throttle_time_ms=0,
            cluster_id="c",
            controller_id=1,
            brokers=[
                MetadataResponse.MetadataResponseBroker(broker, "localhost", 9092, rack)
                for broker, rack in racks.items()
            ],
            topics=[
                topic(
                    error_code=0,
                    name=name,
                    topic_id=None,
                    is_internal=False,
                    partitions=[
                        topic.MetadataResponsePartition(
                            error_code=0,
                            partition_index=number,
                            leader_id=next(iter(replicas), -1),
                            leader_epoch=0,
                            replica_nodes=list(replicas),
                            isr_nodes=list(replicas),
                            offline_replicas=[],
                        )
                        for number, replicas in enumerate(partitions)
                    ],
                )
                for name, partitions in topics.items()
            ],
        )
        raw = response.encode(version=9, header=False)
        cluster.update_metadata(MetadataResponse.decode(raw, version=9, header=False))

    def assign(self, assignor, cluster, joined):
        """The leader's answer; `joined` has the bytes and the instance id of each member."""
        members = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member,
                group_instance_id=instance_id,
                metadata=ConsumerProtocolSubscription.decode(raw),
            )
            for member, (raw, instance_id) in joined.items()
        ]
        return assignor.assign(cluster, members)

    def take(self, assignor, raw, generation):
        assignor.on_assignment(ConsumerProtocolAssignment.decode(raw), generation)
