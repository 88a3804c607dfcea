"""The Kafka edges while the only broker there is goes away and comes back."""

import re

import pytest

from levelwind.assignors.protocol.records import OperatorRecord, encode
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.kafka.publisher import Publisher
from levelwind.daemon.kafka.record_writer import OutgoingRecord
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.observer.settings import ObserverSettings

pytestmark = pytest.mark.integration


def test_all_go_on_after_the_brokers_were_away_and_each_says_so_once(
    own_cluster, killed, fresh, log, eventually
):
    topics = Topics(fresh("lw") + ".")

    def operator(group):
        record = OperatorRecord(group=group, at=1, by="me", action="rebalance", reason="")
        key, value = encode(record)
        return OutgoingRecord(topic=topics.control, key=key, value=value, partition=0)

    client_config = {"bootstrap.servers": own_cluster.bootstrap}
    ensure_topics(client_config, topics, TopicSettings(), log)

    def begun_publisher():
        begun = Publisher(client_config, topics, timeout=3.0, log=log)
        eventually(lambda: _tried(begun.init))
        return begun

    publisher = begun_publisher()

    def published_after():
        nonlocal publisher
        try:
            return _tried(lambda: publisher.publish([operator("after")]))
        except FencedError:  # the brokers did not know of the transaction that is to be aborted
            publisher = begun_publisher()
            return False

    records = []
    reader = TopicFollower(
        client_config=client_config,
        topics=topics,
        kinds=("control",),
        on_record=records.append,
        log=log,
    )
    reader.start()
    observer = Observer(client_config, topics, ObserverSettings(timeout=1.0), log)
    eventually(lambda: observer.tick_metadata() or observer._state)
    eventually(lambda: _tried(lambda: publisher.publish([operator("before")])))
    eventually(lambda: records)

    log.events.clear()
    with killed():
        with pytest.raises(ClusterUnavailableError):
            publisher.publish([operator("during")])
        eventually(lambda: log.of("topic_reader.unreachable"))
        eventually(lambda: observer.tick_metadata() or log.of("observer.unreachable"))
        observer.tick_metadata()

    eventually(published_after)
    eventually(lambda: records[-1].record.group == "after")
    eventually(lambda: observer.tick_metadata() or log.of("observer.resumed"))
    publisher.close()
    reader.stop()
    observer.close()

    # What was under way is either there once, in its order, or not at all; what was tried again
    # may be there again.
    published = " ".join(item.record.group for item in records)
    assert re.fullmatch("(before )+(during )?after( after)*", published)
    logged = [event for event in log.names if event.startswith(("topic_reader.", "observer."))]
    for event in (
        "topic_reader.unreachable",
        "topic_reader.resumed",
        "observer.unreachable",
        "observer.resumed",
    ):
        assert logged.count(event) == 1


def _tried(act):
    try:
        act()
    except ClusterUnavailableError:
        return False
    return True
