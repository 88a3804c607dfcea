"""From the client's answers to values of ours."""

from types import SimpleNamespace

from confluent_kafka import Uuid

from assignors.protocol.records import TopicRecord
from daemon.cluster_state import ObservedTopic
from daemon.observation import _topic, begins_due


def node(number):
    return SimpleNamespace(id=number)


def partition(number, leader, replicas, isr):
    return SimpleNamespace(
        id=number,
        leader=leader and node(leader),
        replicas=[node(one) for one in replicas],
        isr=[node(one) for one in isr],
    )


def test_a_description_is_put_in_order_and_its_id_written_as_kafka_writes_it():
    # 0xFBEF… has both letters that the two alphabets of base64 write differently.
    topic_id = Uuid(-0x0410410410410411, -0x0410410410410411)
    assert str(topic_id).count("+") + str(topic_id).count("/") > 0
    description = SimpleNamespace(
        topic_id=topic_id,
        partitions=[partition(1, None, [3], []), partition(0, 2, [2, 1], [2, 1])],
    )
    assert _topic(description) == ObservedTopic(
        id=str(topic_id).replace("+", "-").replace("/", "_"),
        leader=(2, -1),
        replicas=((2, 1), (3,)),
        isr=((1, 2), ()),
    )


def test_begins_are_asked_for_where_they_are_not_known_and_there_is_somebody_to_ask():
    topic = TopicRecord(
        topic="t",
        at=1,
        id="new",
        leader=(1, -1, 2),
        replicas=((1,), (1,), (2,)),
        isr=((1,), (), (2,)),
        racks=((), (), ()),
    )
    assert begins_due([topic], {}, all_=False) == {("t", 0), ("t", 2)}
    assert begins_due([topic], {("new", 0): 5, ("old", 2): 5}, all_=False) == {("t", 2)}
    assert begins_due([topic], {("new", 0): 5, ("new", 2): 5}, all_=False) == set()
    assert begins_due([topic], {("new", 0): 5, ("new", 2): 5}, all_=True) == {("t", 0), ("t", 2)}
