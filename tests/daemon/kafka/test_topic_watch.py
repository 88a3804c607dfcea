"""The watch over topics that are deleted and created again, on real brokers."""

import gc

import pytest
from confluent_kafka import KafkaException, Uuid
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka.topic_watch import TopicWatch, topic_ids
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.each_broker import create_topics

pytestmark = pytest.mark.integration

WATCHES = 6


@pytest.fixture
def watch(client_config, fresh, kafka):
    """A watch over two topics; returns their names and what the watch reported."""
    names = (fresh("kept"), fresh("lost"))
    for name in names:
        kafka.create(name)
    replaced = []
    watch = TopicWatch(client_config, names, replaced.append, interval=0.1)
    watch.start(20)
    yield names, replaced
    watch.stop()


def test_a_topic_that_is_deleted_is_reported_once(watch, kafka, eventually):
    (_, lost), replaced = watch
    kafka.delete(lost)
    eventually(lambda: replaced)
    assert replaced == [(lost,)]


def test_a_topic_that_is_created_again_is_another_one(watch, kafka, eventually):
    (_, lost), replaced = watch
    kafka.delete(lost)
    kafka.create(lost)
    eventually(lambda: replaced)
    assert replaced == [(lost,)]


def test_topics_that_stay_are_not_reported(watch, client_config, kafka):
    names, replaced = watch
    ids = topic_ids(AdminClient(client_config), (*names, "no-such-topic"), 20)
    assert set(ids) == set(names)
    assert replaced == []


def test_ids_that_are_asked_for_again_and_again_take_no_memory(watch, client_config):
    names, _ = watch
    admin = AdminClient(client_config)

    def ids_alive():
        gc.collect()
        return sum(type(one) is Uuid for one in gc.get_objects())

    first = topic_ids(admin, names, 20)
    before = ids_alive()
    assert all(topic_ids(admin, names, 20) == first for _ in range(100))
    assert ids_alive() < before + 100, "ids of 100 questions for two topics"


def test_a_watch_without_brokers_fails_at_its_start():
    nobody = TopicWatch({"bootstrap.servers": "127.0.0.1:1"}, ["t"], lambda _: None)
    with pytest.raises(ClusterUnavailableError, match="ids are not known"):
        nobody.start(0.3)


def brokers_of(admin):
    """The brokers that the cluster takes for alive; broker 1 among them while nobody answers."""
    try:
        return admin.list_topics(timeout=10).brokers
    except KafkaException:
        return {1}


@pytest.mark.timeout(300)
def test_the_death_of_a_broker_blinds_no_watch(eventually):
    # Each client takes a broker that was named at random for the controller, some the dead one.
    with Cluster.start() as cluster:
        config = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(config)
        create_topics(config, NewTopic("lost", 1, 3))
        reports = []
        watches = [
            TopicWatch(config, ["lost"], reports.append, timeout=2.0) for _ in range(WATCHES)
        ]
        try:
            for watch in watches:
                watch.start(20)
            cluster.kill(1)
            eventually(lambda: 1 not in brokers_of(admin))
            admin.delete_topics(["lost"])["lost"].result(30)
            eventually(lambda: reports == [("lost",)] * WATCHES)
        finally:
            for watch in watches:
                watch.stop()
