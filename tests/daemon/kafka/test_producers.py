"""Producers of the daemon on brokers that create topics by themselves."""

import contextlib
import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from daemon.kafka import clients
from deploy.cluster import Cluster

pytestmark = pytest.mark.integration


def test_a_producer_does_not_bring_a_deleted_topic_back(eventually):
    with Cluster.start(1, settings={"auto.create.topics.enable": "true"}) as cluster:
        config = {
            "bootstrap.servers": cluster.bootstrap,
            "topic.metadata.refresh.interval.ms": 500,
            "message.timeout.ms": 3000,
        }
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

        def comes_back(name, producer):
            admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
            eventually(lambda: name in admin.list_topics(timeout=10).topics)
            producer.produce(name, b"value", b"key", partition=1)
            producer.flush(10)
            admin.delete_topics([name])[name].result(20)
            until = time.monotonic() + 4
            while time.monotonic() < until:
                with contextlib.suppress(KafkaException):
                    producer.produce(name, b"value", b"key", partition=0)
                producer.poll(0.1)
            return name in admin.list_topics(timeout=10).topics

        assert comes_back("by-default", Producer(config))
        assert not comes_back("by-the-daemon", clients.producer(config, {}))
