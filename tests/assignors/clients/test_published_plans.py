"""`PublishedPlans` where the system gives no thread, and where its topic is made again."""

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from levelwind.assignors.clients import published_plans
from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind.assignors.protocol.records import encode
from levelwind.assignors.protocol.records.cutting import cut_assignments
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.records import plan as plan_record
from levelwind_testing.refused_threads import REFUSAL, refused_threads
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until


@pytest.fixture
def plans(monkeypatch):
    """A source whose first call got no thread."""
    monkeypatch.setattr(published_plans, "METADATA_TIMEOUT_SECONDS", 0.01)
    plans = PublishedPlans({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "g")
    with refused_threads("levelwind-plans"), pytest.raises(RuntimeError, match=REFUSAL):
        plans.follow(notify)
    return plans


def notify():
    """Take no notice of a newer plan."""


def test_a_source_follows_with_the_next_call(plans):
    """It never did."""
    plans.follow(notify)
    assert plans.newest(GENEROUS_SECONDS) is None
    assert plans._first_look.is_set()
    plans.close()


def test_a_source_closes_without_its_thread(plans):
    """It raised an error that no thread was there to be joined."""
    plans.close()


def test_a_source_whose_reader_got_no_thread_looks_again(monkeypatch):
    """Its own thread ended, and no call began another."""
    made = []

    def make(config):
        made.append(config)
        if len(made) == 1:
            raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))
        return Consumer(config)

    monkeypatch.setattr(published_plans, "Consumer", make)
    monkeypatch.setattr(published_plans, "METADATA_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(published_plans, "RETRY_SECONDS", 0.01)
    plans = PublishedPlans({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "g")
    plans.follow(notify)
    assert plans.newest(GENEROUS_SECONDS) is None
    assert plans._first_look.is_set()
    wait_until("another reader", lambda: len(made) > 1)
    plans.close()


def test_a_source_whose_thread_has_ended_follows_with_the_next_call(monkeypatch, plans):
    monkeypatch.setattr(published_plans, "_read", lambda *_: None)
    plans.follow(notify)
    wait_until("the end of the thread", lambda: not plans._thread.is_alive())
    monkeypatch.undo()
    plans.follow(notify)
    assert plans._thread.is_alive()
    plans.close()


@pytest.mark.integration
@pytest.mark.parametrize("later", [1, 5], ids=["as many partitions", "more partitions"])
def test_a_source_follows_the_first_plan_of_a_topic_that_was_made_again(
    cluster, fresh, monkeypatch, later
):
    """The epochs of its plans begin again, and its group may be in another partition."""
    monkeypatch.setattr(published_plans, "RETRY_SECONDS", 0.1)
    config, prefix, group = {"bootstrap.servers": cluster.bootstrap}, fresh("p"), "g"
    topic, admin = Topics(prefix).assignments, AdminClient(config)

    def publish(epoch, partitions):
        producer = Producer(config)  # a former one would know the former topic
        shards, cut = cut_assignments(group, epoch, {"a": {"t": (epoch,)}})
        head = replace(plan_record(group), mode="published", group_epoch=epoch, assignments=cut)
        for key, value in map(encode, (*shards, head)):
            producer.produce(topic, value, key, partition=partition_for(group, partitions))
        assert producer.flush(GENEROUS_SECONDS) == 0

    create_topics(config, NewTopic(topic, 1, 1))
    for epoch in (7, 8, 9):
        publish(epoch, 1)
    plans = PublishedPlans(config, group, prefix=prefix)
    plans.follow(notify)
    wait_until("the plan", lambda: (plan := plans.newest(0)) is not None and plan.epoch[1] == 9)
    admin.delete_topics([topic])[topic].result(60)
    wait_until("the topic's end", lambda: topic not in admin.list_topics(timeout=60).topics)
    create_topics(config, NewTopic(topic, later, 1))
    publish(1, later)
    wait_until("the first plan of the new topic", lambda: plans.newest(0).epoch[1] == 1)
    plans.close()
