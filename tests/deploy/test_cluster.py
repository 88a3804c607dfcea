"""The embedded cluster, with real brokers."""

import pytest
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.integration


def test_every_broker_has_its_rack(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    nodes = admin.describe_cluster().result().nodes
    assert {node.id: node.rack for node in nodes} == {1: "a", 2: "b", 3: "c"}
