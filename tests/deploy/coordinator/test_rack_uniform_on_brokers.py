"""Unmodified consumers of the protocol of KIP-848 on real brokers with the jar.

The brokers are of this file, since the jar is on their class path.
"""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.deploy.cluster import Cluster, ClusterError
from levelwind_testing.kafka.broker_releases import PRESENT_AND_NEWER, READY_SECONDS
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.kafka.reassignment import reassign
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 6
CLASS = "levelwind.coordinator.RackUniformAssignor"


@pytest.fixture(scope="module", params=PRESENT_AND_NEWER)
def cluster(request, programs):
    with Cluster.start(
        2,
        racks=("a", "b"),
        settings=PATIENT
        | {
            "group.consumer.assignors": f"{CLASS},uniform",
            "offsets.topic.num.partitions": "1",
        },
        libraries=[programs.jar],
        version=request.param,
        ready_within=READY_SECONDS,
    ) as running:
        yield running


def test_a_broker_that_is_configured_for_the_class_and_lacks_the_jar_does_not_start():
    with pytest.raises(ClusterError, match=CLASS):
        Cluster.start(1, settings={"group.consumer.assignors": CLASS})


@pytest.fixture
def topic(cluster, fresh):
    """A topic whose even partitions are on the broker of rack a, the others on that of b."""
    name = fresh("topic")
    replicas = [[1 + number % 2] for number in range(PARTITIONS)]
    made = NewTopic(name, PARTITIONS, replica_assignment=replicas)
    create_topics({"bootstrap.servers": cluster.bootstrap}, made)
    return name


class Members:
    """Consumers by their racks, polled in turn."""

    def __init__(self, cluster, group, topic):
        self.consumers = {}
        self._config = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
        }
        self._topic = topic

    def join(self, rack, **config):
        consumer = Consumer({**self._config, "client.rack": rack, **config})
        consumer.subscribe([self._topic])
        self.consumers[rack] = consumer

    def close(self, rack):
        self.consumers.pop(rack).close()

    def have(self, **expected):
        """Wait until each member has these partitions."""
        wait_until(f"shares {expected}", lambda: self._shares() == expected, pause=0)

    def _shares(self):
        shares = {}
        for rack, consumer in self.consumers.items():
            message = consumer.poll(0.1)
            assert message is None or not message.error().fatal(), message.error()
            shares[rack] = sorted(part.partition for part in consumer.assignment())
        return shares


@pytest.fixture
def members(cluster, fresh, topic):
    made = Members(cluster, fresh("group"), topic)
    yield made
    for rack in [*made.consumers]:
        made.close(rack)


def test_consumers_read_from_their_racks_as_members_come_and_go_and_replicas_move(
    cluster, members, topic
):
    members.join("a")
    members.have(a=[*range(PARTITIONS)])
    members.join("b")
    members.have(a=[0, 2, 4], b=[1, 3, 5])
    reassign(cluster.bootstrap, topic, {0: [2], 1: [1]})
    members.have(a=[1, 2, 4], b=[0, 3, 5])
    members.close("a")
    members.have(b=[*range(PARTITIONS)])


def test_a_consumer_may_name_the_assignor_and_tools_show_it(cluster, members, fresh):
    members.join("a", **{"group.remote.assignor": "rack-uniform"})
    members.have(a=[*range(PARTITIONS)])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    group = members._config["group.id"]
    described = described_group(admin, group)
    assert described.partition_assignor == "rack-uniform"


def test_a_member_of_the_classic_protocol_shares_the_group(members):
    members.join("a")
    members.have(a=[*range(PARTITIONS)])  # first: see docs/coordinator.md about Kafka's conversion
    members.join("b", **{"group.protocol": "classic", "partition.assignment.strategy": "range"})
    members.have(a=[0, 2, 4], b=[1, 3, 5])
    part = members.consumers["b"].assignment()[0]
    committed = TopicPartition(part.topic, part.partition, 0)
    assert members.consumers["b"].commit(offsets=[committed], asynchronous=False)
