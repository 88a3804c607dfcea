"""The observer on real brokers."""

import logging
import re
import threading
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from apscheduler.executors import base as executors
from apscheduler.schedulers import base as schedulers
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers import interval as triggers
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from msgspec import structs

from levelwind.assignors.protocol.records import BrokerRecord, OffsetsRecord, Tombstone, TopicRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.observer import observer as observer_module
from levelwind.daemon.observer.cluster_probe import UnansweredError, read_offsets
from levelwind.daemon.observer.cluster_state import UNKNOWN
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.refused_threads import refused_threads
from levelwind_testing.security.printed_rights import granted
from levelwind_testing.waiting import GENEROUS_SECONDS

pytestmark = pytest.mark.integration


@pytest.fixture
def own_prefix(fresh):
    """The beginning of the names of the topics that this test's observer is to see."""
    return fresh("seen")


@pytest.fixture
def observe(client_config, topics, own_prefix, log):
    """Makes observers of this test's topics."""
    settings = ObserverSettings(include=(re.escape(own_prefix) + ".*",), timeout=10.0)
    made = []

    def observe(**changes):
        observer = Observer(client_config, topics, replace(settings, **changes), log)
        made.append(observer)
        return observer

    yield observe
    for observer in made:
        observer.close()


@pytest.fixture
def published(client_config, topics):
    """Every record of the metadata topic so far."""
    return lambda: [
        item.record for item in read_to_end(client_config, topics, ("metadata",), samples=True)
    ]


@pytest.fixture
def sampled(published):
    """The samples that an observer has taken so far, all of them published."""

    def sampled(observer):
        observer._topic._producer.flush(10)
        return of(OffsetsRecord, published())

    return sampled


def of(kind, records):
    return [record for record in records if isinstance(record, kind)]


def test_brokers_and_topics_are_published_with_their_racks(
    observe, published, kafka, own_prefix, reassign
):
    kafka.create(own_prefix, 2, 2)
    reassign(own_prefix, {0: [1, 2], 1: [3, 1]})
    observe().tick_metadata()
    brokers, (topic,) = of(BrokerRecord, published()), of(TopicRecord, published())
    assert {(record.broker, record.rack, record.online) for record in brokers} == {
        (1, "a", True),
        (2, "b", True),
        (3, "c", True),
    }
    assert {record.follower_fetching for record in brokers} == {True}
    assert topic.topic == own_prefix
    assert topic.replicas == ((1, 2), (3, 1))
    assert topic.isr == ((1, 2), (1, 3))
    assert topic.racks == (("a", "b"), ("a", "c"))
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", topic.id)


def test_a_reassignment_is_news_and_standing_still_is_none(
    observe, published, kafka, own_prefix, reassign, log, eventually
):
    kafka.create(own_prefix, 2, 2)
    reassign(own_prefix, {0: [1, 2], 1: [2, 3]})
    observer = observe()

    def brokers_known():
        # A broker that does not answer in time is asked again, and is news then.
        observer.tick_metadata()
        known = {one.broker for one in of(BrokerRecord, published()) if one.follower_fetching}
        return len(known) == 3

    eventually(brokers_known)
    before = len(published())
    observer.tick_metadata()
    assert len(published()) == before
    reassign(own_prefix, {1: [1, 3]})
    eventually(lambda: observer.tick_metadata() or log.of("observer.racks_changed"))
    assert [record.racks for record in of(TopicRecord, published())][:1] == [
        (("a", "b"), ("b", "c"))
    ]
    assert of(TopicRecord, published())[-1].racks == (("a", "b"), ("a", "c"))
    assert {record.broker for record in of(BrokerRecord, published())} == {1, 2, 3}
    assert [event["examples"] for event in log.of("observer.racks_changed")] == [{own_prefix: "1"}]


def test_a_restart_reads_back_what_was_published_and_says_nothing_twice(
    observe, published, kafka, own_prefix, log
):
    kafka.create(own_prefix, 3, 2)
    observe().tick_metadata()
    before = published()
    observe().tick_metadata()
    assert Counter(map(repr, published())) == Counter(map(repr, before))
    assert [(event["brokers"], event["topics"]) for event in log.of("observer.recovered")] == [
        (0, 0),
        (3, 1),
    ]


def test_a_topic_that_is_deleted_and_made_anew(
    observe, published, sampled, kafka, own_prefix, log, eventually
):
    kafka.create(own_prefix, 1, 1)
    observer = observe()
    observer.tick_metadata()
    observer.tick_offsets()
    kafka.delete(own_prefix)
    eventually(lambda: observer.tick_metadata() or log.of("observer.topic_deleted"))
    assert {record.key for record in of(Tombstone, published())} == {
        ("topic", own_prefix),
        ("offsets", own_prefix),
    }
    kafka.create(own_prefix, 2, 1)
    observer.tick_metadata()
    old, new = of(TopicRecord, published())
    assert old.id != new.id
    assert new.partitions == 2
    observer.tick_offsets()
    assert sampled(observer)[-1].id == new.id


@pytest.mark.parametrize(
    "filled", [True, False], ids=["its end goes back", "it is empty as before"]
)
def test_a_topic_made_anew_between_two_looks_in_the_same_place(
    observe, published, kafka, own_prefix, client_config, reassign, eventually, filled
):
    def seen_twice():
        return len(of(TopicRecord, published())) == 2

    kafka.create(own_prefix, 1, 1)
    reassign(own_prefix, {0: [2]})
    if filled:
        producer = Producer(client_config)
        producer.produce(own_prefix, b"x", partition=0)
        producer.flush(20)
    observer = observe(full_describe_every=10**6) if filled else observe()
    observer.tick_metadata()
    observer.tick_offsets()
    kafka.delete(own_prefix)
    kafka.create(own_prefix, 1, 1)
    reassign(own_prefix, {0: [2]})
    # Brokers hear of the topic one after another, so that the first answers may tell nothing.
    eventually(lambda: observer.tick_offsets() or observer.tick_metadata() or seen_twice())
    old, new = of(TopicRecord, published())
    assert (old.replicas, old.leader) == (new.replicas, new.leader)
    assert old.id != new.id


def test_our_own_and_the_clusters_own_topics_are_not_observed(
    client_config, topics, log, published, kafka, fresh
):
    name = fresh("ours")
    kafka.create(name, 1, 1)
    observer = Observer(client_config, topics, ObserverSettings(timeout=10.0), log)
    observer.tick_metadata()
    observer.close()
    names = {record.topic for record in of(TopicRecord, published())}
    assert name in names
    assert not [name for name in names if name.startswith(("__", topics.prefix))]


def test_samples_tell_begin_stable_and_high_apart(
    observe, sampled, kafka, own_prefix, client_config
):
    kafka.create(own_prefix, 2, 1)
    producer = Producer({**client_config, "transactional.id": own_prefix})
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(own_prefix, b"x", partition=1)
    producer.flush(20)
    observer = observe()
    observer.tick_metadata()
    observer.tick_offsets()
    producer.abort_transaction(20)
    (sample,) = sampled(observer)
    assert (sample.begin, sample.stable, sample.high) == ((0, 0), (0, 0), (0, 5))


def test_a_sample_tells_where_the_records_end_below_a_marker(
    observe, sampled, kafka, own_prefix, client_config, eventually
):
    kafka.create(own_prefix, 2, 1)
    producer = Producer({**client_config, "transactional.id": own_prefix})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(own_prefix, b"x", partition=1)
    producer.commit_transaction(20)
    observer = observe()
    observer.tick_metadata()
    samples = []

    def told():
        # The commit is answered before its marker is in the log.
        observer.tick_offsets()
        samples[:] = sampled(observer)
        found = [(sample.stable, sample.data_end) for sample in samples]
        return found[-1:] == [((0, 2), (UNKNOWN, 1))]

    eventually(told)
    assert samples[0].data_end is None


def test_a_sample_tells_how_far_the_commits_had_come(
    observe, sampled, kafka, own_prefix, client_config, eventually
):
    kafka.create(own_prefix, 1, 1)
    consumer = Consumer({**client_config, "group.id": own_prefix})
    commit_offsets(consumer, [TopicPartition(own_prefix, 0, 1)])
    observer = observe()
    observer.tick_metadata()

    def different_ends(count):
        """Tick until samples tell so many different ends: a broker may miss one tick."""

        def told():
            observer.tick_offsets()
            ends = dict.fromkeys(record.offsets_topic_ends for record in sampled(observer))
            return list(ends) if len(ends) >= count else None

        return eventually(told)

    different_ends(1)
    commit_offsets(consumer, [TopicPartition(own_prefix, 0, 2)])
    before, *_, after = different_ends(2)
    consumer.close()
    assert len(before) == len(after) == 4  # partitions of the offsets topic in the tests' cluster
    grown = [now - then for then, now in zip(before, after, strict=True)]
    assert sum(step >= 1 for step in grown) >= 1


def test_begin_offsets_are_read_again_once_in_so_many_samples(
    observe, sampled, kafka, own_prefix, client_config
):
    kafka.create(own_prefix, 1, 1)
    producer = Producer(client_config)
    for _ in range(10):
        producer.produce(own_prefix, b"x", partition=0)
    producer.flush(20)
    observer = observe(begin_offsets_every=3, unchanged_sample_every=1)
    observer.tick_metadata()
    observer.tick_offsets()
    (answer,) = kafka.admin.delete_records([TopicPartition(own_prefix, 0, 4)]).values()
    answer.result()
    for _ in range(6):
        observer.tick_offsets()
    begins = [record.begin for record in sampled(observer)]
    first = begins.index((4,))
    assert 1 <= first <= 3
    assert set(begins[:first]) == {(0,)}
    assert set(begins[first:]) == {(4,)}


def test_a_sample_of_what_stands_still_is_repeated_now_and_then(
    observe, sampled, kafka, own_prefix
):
    kafka.create(own_prefix, 1, 1)
    observer = observe(unchanged_sample_every=3, detect_control_records=False)
    observer.tick_metadata()
    for _ in range(6):
        observer.tick_offsets()
    # The commits of other tests move what a sample says of them.
    samples = sampled(observer)
    standing = [
        later
        for earlier, later in pairwise(samples)
        if structs.replace(earlier, at=later.at) == later
    ]
    assert len(standing) <= 2
    assert len(samples) >= 3


def test_a_sample_of_what_stands_still_waits_for_seconds_at_most_however_long_a_tick_takes(
    observe, sampled, kafka, own_prefix, monkeypatch
):
    monkeypatch.setattr(observer_module, "MOST_UNCHANGED_SECONDS", 0.0)
    kafka.create(own_prefix, 1, 1)
    observer = observe(unchanged_sample_every=1_000, detect_control_records=False)
    observer.tick_metadata()
    for _ in range(3):
        observer.tick_offsets()
    assert len(sampled(observer)) == 3


def test_ticks_that_are_much_work_come_more_seldom(observe, kafka, own_prefix):
    kafka.create(own_prefix, 1, 1)
    observer = observe(max_cpu_share=1e-9)
    ticks = []
    for _ in range(3):
        observer._when_rested("observer.metadata", lambda: ticks.append(sum(range(100_000))))
    assert len(ticks) == 1
    observer._when_rested("observer.offsets", lambda: ticks.append(0))
    assert len(ticks) == 2


@pytest.fixture
def protocol(client_config):
    """An admin client, and a function that returns what it has sent since the last call."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("protocol")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    client = AdminClient({**client_config, "debug": "protocol"}, logger=logger)

    def sent():
        client.poll(0.5)
        found = [match[1] for line in lines if (match := re.search(r"Sent (\w+)Request", line))]
        lines.clear()
        return Counter(found)

    yield client, sent
    logger.removeHandler(handler)


def test_offsets_cost_one_request_a_broker_a_kind_whatever_the_number_of_partitions(
    kafka, own_prefix, protocol, eventually
):
    kafka.create(own_prefix, 60, 1)
    client, sent = protocol
    places = [(own_prefix, number) for number in range(60)]
    # Connects and learns the leaders, and waits until every broker knows what it leads.
    eventually(lambda: not read_offsets(client, places, places, 10).failed)
    sent()
    found = read_offsets(client, places, places, 10)
    assert len(found.begin) == len(found.stable) == len(found.high) == 60
    assert sent() == {"ListOffsets": 9}  # three brokers; begin, stable and high


def test_each_tick_asks_few_things_and_a_round_of_them_everything(
    observe, kafka, own_prefix, protocol, eventually
):
    for number in range(20):
        kafka.create(f"{own_prefix}-{number}", 3, 1)
    observer = observe(detect_control_records=False)
    observer._client, sent = protocol
    eventually(
        lambda: observer.tick_metadata() or (observer._state and len(observer._state.topics) == 20)
    )
    observer.tick_offsets()
    sent()
    probes, samples = [], []
    for _ in range(10):
        observer.tick_metadata()
        probes.append(sent())
        observer.tick_offsets()
        samples.append(sent())
    # The list, the descriptions that are due, the brokers' racks once, and a broker's settings.
    assert max(map(Counter.total, probes)) <= 4
    assert sum(map(Counter.total, probes)) <= 10 * 2 + 1 + 3
    # Of three brokers: high watermarks, begins that are due, and both ends of the offsets topic;
    # stable ends are not read where nothing moved.
    assert max(sample["ListOffsets"] for sample in samples) <= 4 * 3
    assert {name for sample in samples for name in sample} == {"ListOffsets"}


def test_a_cluster_that_is_away_is_said_once_and_so_is_its_return(observe, log, monkeypatch):
    observer = observe()
    probe_cluster = observer._observe
    outage = observer._outages["observer.metadata"]

    def away():
        raise UnansweredError("away")

    monkeypatch.setattr(observer, "_observe", away)
    for _ in range(3):
        observer.tick_metadata()
        outage._retry_at = 0.0  # as if the pause were over
    monkeypatch.setattr(observer, "_observe", probe_cluster)
    observer.tick_metadata()
    observer.tick_metadata()
    logged = [(event["event"], event["tick"]) for event in log.events if "tick" in event]
    assert logged == [("observer.unreachable", "metadata"), ("observer.resumed", "metadata")]


def test_brokers_that_do_not_answer_are_an_outage_and_no_crash(client_config, topics, log):
    observer = Observer(client_config, topics, ObserverSettings(timeout=0.2), log)
    observer._client = clients.admin({"bootstrap.servers": "127.0.0.1:1"})
    observer.tick_metadata()
    observer.tick_metadata()  # in the pause: nothing is asked
    observer.close()
    assert [(event["event"], event["level"]) for event in log.events if "tick" in event] == [
        ("observer.unreachable", "warning")
    ]


def test_a_tick_that_overruns_makes_the_next_drop_out_and_says_so(observe, log, eventually):
    observer = observe(metadata_interval=0.1)
    release = threading.Event()
    running = []
    most = []

    def work():
        running.append(1)
        most.append(len(running))
        release.wait(GENEROUS_SECONDS)
        running.pop()

    observer._observe = work
    scheduler = BackgroundScheduler()
    scheduler.start()
    try:
        observer.schedule(scheduler)
        eventually(lambda: any(e["tick"] == "metadata" for e in log.of("observer.tick_skipped")))
        release.set()
        eventually(lambda: len(most) > 2)
    finally:
        release.set()
        observer.close()
        scheduler.shutdown()
    assert set(most) == {1}
    # The other tick has nothing to do here, and may be late.
    (skipped,) = [e for e in log.of("observer.tick_skipped") if e["tick"] == "metadata"]
    assert skipped["level"] == "warning"


def test_a_tick_needs_no_thread_that_the_system_may_refuse(observe, eventually):
    """A refused tick was done late, and from then on two of one job could run at a time."""
    observer, ticks = observe(metadata_interval=0.1), []
    observer._observe = lambda: ticks.append(None)
    scheduler = BackgroundScheduler()
    observer.schedule(scheduler)
    with refused_threads("observer-tick", "ThreadPoolExecutor"):
        scheduler.start()
        try:
            eventually(lambda: len(ticks) > 2)
        finally:
            observer.close()
            scheduler.shutdown()


def test_ticks_go_on_where_the_wall_clock_was_set_back(observe, eventually, monkeypatch):
    ahead = [timedelta(0)]

    class SetClock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + ahead[0]

    for module in (executors, schedulers, triggers, observer_module):
        monkeypatch.setattr(module, "datetime", SetClock)
    observer, ticks = observe(metadata_interval=0.1), []
    observer._observe = lambda: ticks.append(ahead[0])
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.start()
    try:
        observer.schedule(scheduler)
        eventually(lambda: len(ticks) > 2)
        ahead[0] = -timedelta(hours=1)
        observer.tick_now()
        eventually(lambda: ticks.count(ahead[0]) > 2)
    finally:
        observer.close()
        scheduler.shutdown()


def test_a_tick_that_fails_by_a_bug_is_said_and_the_next_one_comes(observe, log, eventually):
    observer = observe(metadata_interval=0.1)
    observer._observe = lambda: 1 / 0
    scheduler = BackgroundScheduler()
    scheduler.start()
    try:
        observer.schedule(scheduler)
        eventually(lambda: len(log.of("observer.tick_failed")) > 1)
    finally:
        observer.close()
        scheduler.shutdown()
    assert "ZeroDivisionError" in log.of("observer.tick_failed")[0]["error"]


def test_a_broker_that_dies_keeps_its_rack_and_the_rest_is_read_on(log, eventually):
    with Cluster.start() as cluster:
        client_config = {"bootstrap.servers": cluster.bootstrap}
        topics = Topics("lw.")
        ensure_topics(client_config, topics, TopicSettings(), log)
        new = NewTopic("orders", 3, replica_assignment=[[2], [1], [3]])
        create_topics(client_config, new)
        observer = Observer(client_config, topics, ObserverSettings(), log)
        eventually(
            lambda: (
                observer.tick_metadata() or (observer._state and "orders" in observer._state.topics)
            )
        )
        observer.tick_offsets()
        cluster.kill(2)
        eventually(lambda: observer.tick_metadata() or log.of("observer.broker_offline"))

        def others_are_read():
            # What cannot be read once is no news yet, and brokers that are late are asked again.
            observer.tick_offsets()
            events = log.of("observer.offsets_unknown")
            return [event["examples"] for event in events[-1:]] == [{"orders": "0"}]

        eventually(others_are_read)
        observer._topic._producer.flush(10)
        observer.close()
        records = [
            item.record for item in read_to_end(client_config, topics, ("metadata",), samples=True)
        ]
        # The one who comes after it has never seen broker 2, and knows its rack all the same.
        successor = Observer(client_config, topics, ObserverSettings(), log)
        eventually(lambda: successor.tick_metadata() or successor._state)
        successor.close()
        assert successor._state.brokers[2].rack == "b"
    broker = [record for record in of(BrokerRecord, records) if record.broker == 2][-1]
    assert (broker.rack, broker.online) == ("b", False)
    first, *_, last = of(TopicRecord, records)
    assert last.racks == first.racks == (("b",), ("a",), ("c",))
    assert last.leader == (-1, 1, 3)
    assert of(OffsetsRecord, records)[-1].stable == (-1, 0, 0)
    event = log.of("observer.offsets_unknown")[-1]
    assert (event["level"], event["error"]) == ("warning", "no leader")


def test_a_topic_that_may_not_be_read_any_more_stops_nothing_else(
    own_cluster, fresh, log, eventually
):
    client_config = {"bootstrap.servers": own_cluster.bootstrap}
    topics, secret, free = Topics(fresh("lw") + "."), fresh("secret"), fresh("open")
    ensure_topics(client_config, topics, TopicSettings(), log)
    admin = AdminClient(client_config)
    create_topics(client_config, NewTopic(secret, 2), NewTopic(free, 1))
    settings = ObserverSettings(include=(secret, free), timeout=10.0)
    observer = Observer(client_config, topics, settings, log)
    eventually(
        lambda: observer.tick_metadata() or (observer._state and len(observer._state.topics) == 2)
    )
    denied = AclBinding(
        ResourceType.TOPIC,
        secret,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    with granted(admin, [denied]):
        eventually(lambda: observer.tick_metadata() or log.of("observer.topic_unreadable"))
        observer.tick_metadata()
        observer.tick_offsets()
        observer._topic._producer.flush(10)
        observer.close()
        records = [
            item.record for item in read_to_end(client_config, topics, ("metadata",), samples=True)
        ]
    assert [event["topic"] for event in log.of("observer.topic_unreadable")] == [secret]
    assert of(Tombstone, records) == []
    samples = {record.topic: record for record in of(OffsetsRecord, records)}
    assert samples[secret].stable == (-1, -1)
    assert samples[free].stable == (0,)
