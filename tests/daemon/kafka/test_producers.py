"""Producers of the daemon on brokers that create topics by themselves."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.daemon.kafka import clients
from levelwind_testing.kafka.each_broker import create_topics

pytestmark = pytest.mark.integration

GONE = {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}


def test_a_producer_does_not_bring_a_deleted_topic_back(own_cluster, fresh, eventually):
    config = {
        "bootstrap.servers": own_cluster.bootstrap,
        "topic.metadata.refresh.interval.ms": 500,
        "topic.metadata.propagation.max.ms": 500,  # what is new is believed to be missing at once
        "message.timeout.ms": 3000,
    }
    admin = AdminClient({"bootstrap.servers": own_cluster.bootstrap})

    def exists(name):
        return name in admin.list_topics(timeout=10).topics

    def create_and_delete(name, producer):
        create_topics({"bootstrap.servers": own_cluster.bootstrap}, NewTopic(name, 2, 1))
        producer.produce(name, b"value", b"key", partition=1)
        producer.flush(10)
        admin.delete_topics([name])[name].result(20)
        eventually(lambda: not exists(name))

    def write(name, producer):
        """Write a record; return whether the producer has learned that there is no such topic."""
        errors = []
        try:
            producer.produce(
                name,
                b"value",
                b"key",
                partition=0,
                on_delivery=lambda error, _: errors.append(error),
            )
            producer.flush(10)
        except KafkaException as exception:
            errors.append(exception.args[0])
        return any(error is not None and error.code() in GONE for error in errors)

    def comes_back(name, producer):
        write(name, producer)
        return exists(name)

    name, producer = fresh("by-the-daemon"), clients.producer(config, {})
    create_and_delete(name, producer)
    eventually(lambda: write(name, producer) or exists(name))
    # The brokers create what another producer asks for after that.
    other, by_default = fresh("by-default"), Producer(config)
    create_and_delete(other, by_default)
    eventually(lambda: comes_back(other, by_default))
    assert not exists(name)
