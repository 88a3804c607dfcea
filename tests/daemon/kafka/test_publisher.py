"""One step, one transaction; one planner."""

import contextlib
import random

import pytest
from confluent_kafka import Producer

from levelwind.assignors.protocol.records import OperatorRecord, Tombstone, encode, encode_key
from levelwind.assignors.protocol.records.cutting import TOPIC_BYTES
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.kafka.publisher import Publisher, UnpublishableError
from levelwind.daemon.kafka.record_writer import OutgoingRecord
from levelwind.daemon.kafka.topic_reader import read_to_end

pytestmark = pytest.mark.integration


@pytest.fixture
def outgoing(topics):
    def make(group, at=1):
        key, value = encode(
            OperatorRecord(group=group, at=at, by="me", action="rebalance", reason="")
        )
        return OutgoingRecord(topic=topics.control, key=key, value=value, partition=0)

    return make


@pytest.fixture
def publisher(client_config, topics, log):
    publisher = Publisher(client_config, topics, timeout=20, log=log)
    publisher.init()
    return publisher


@pytest.fixture
def visible(client_config, topics):
    return lambda: [item.record for item in read_to_end(client_config, topics, ("control",))]


@pytest.fixture
def becomes_visible(visible, eventually):
    """A commit returns before its markers are in the log: readers see its records later."""

    def becomes_visible(*expected, name="group"):
        def found():
            return [getattr(record, name, record) for record in visible()]

        eventually(lambda: len(found()) >= len(expected))
        assert found() == list(expected)

    return becomes_visible


def test_what_is_published_is_seen_whole(publisher, outgoing, becomes_visible, topics):
    gone = OutgoingRecord(
        topic=topics.control, key=encode_key(("operator", "c")), value=None, partition=0
    )
    publisher.publish([outgoing("a"), outgoing("b"), gone])
    publisher.publish([])
    publisher.publish([outgoing("d")])
    becomes_visible("a", "b", Tombstone(("operator", "c")), "d")


def test_nothing_is_seen_before_the_commit(
    publisher, outgoing, visible, monkeypatch, becomes_visible
):
    seen = []
    commit = publisher._call

    def watch(what, call, timeout=None):
        if what == "commit":
            publisher._producer.flush(10)  # the brokers have the records, and no one may see them
            seen.append(visible())
        commit(what, call, timeout)

    monkeypatch.setattr(publisher, "_call", watch)
    publisher.publish([outgoing("a")])
    assert seen == [[]]
    becomes_visible("a")


def test_a_refused_record_takes_its_whole_transaction_with_it(
    publisher, outgoing, visible, log, topics, becomes_visible
):
    huge = OutgoingRecord(topic=topics.control, key=b"k", value=b"x" * 5_000_000, partition=0)
    with pytest.raises(UnpublishableError, match=r"5000000 bytes for .*control/0"):
        publisher.publish([outgoing("a"), huge])
    assert visible() == []
    publisher.publish([outgoing("b")])
    becomes_visible("b")


def test_the_largest_record_that_is_not_cut_fits_a_message(publisher, topics, visible, eventually):
    noise = random.Random(1).randbytes(TOPIC_BYTES // 2).hex()
    word = OperatorRecord(group="g", at=1, by="me", action="rebalance", reason=noise)
    key, value = encode(word)
    assert len(value) > TOPIC_BYTES
    publisher.publish([OutgoingRecord(topic=topics.control, key=key, value=value, partition=0)])
    eventually(lambda: visible() == [word])


def test_a_record_that_the_brokers_refuse_aborts_and_the_next_step_goes_on(
    publisher, outgoing, visible, log, becomes_visible
):
    nowhere = OutgoingRecord(topic=outgoing("a").topic, key=b"k", value=b"v", partition=17)
    with pytest.raises(ClusterUnavailableError):
        publisher.publish([outgoing("a"), nowhere])
    assert visible() == []
    publisher.publish([outgoing("b")])
    becomes_visible("b")
    assert "publisher.aborted" in log.names


def test_a_record_that_is_too_large_for_the_brokers_is_unpublishable_and_not_tried_for_ever(
    client_config, fresh, kafka, outgoing, log
):
    topics = Topics(fresh("lw") + ".")
    kafka.create(topics.assignments, 2, **{"max.message.bytes": "2000"})
    publisher = Publisher(client_config, topics, timeout=20, log=log)
    publisher.init()
    noise = random.Random(1).randbytes(3000)  # gzip makes no less of it
    huge = OutgoingRecord(topic=topics.assignments, key=b"k", value=noise, partition=1)
    small = OutgoingRecord(topic=topics.assignments, key=b"k", value=b"{}", partition=0)
    for _ in range(2):
        with pytest.raises(UnpublishableError, match=r"3000 bytes for .*assignments/1 is refused"):
            publisher.publish([small, huge])
    publisher.publish([small])
    assert log.names.count("publisher.aborted") == 2


def test_a_record_that_the_topic_does_not_admit_is_unpublishable(
    publisher, topics, outgoing, visible, eventually
):
    without_key = OutgoingRecord(topic=topics.control, key=None, value=b"{}", partition=0)
    with pytest.raises(UnpublishableError, match="is refused"):
        publisher.publish([without_key])  # a compacted topic takes no record without a key
    # The library counts the refused record's number, so that its next transaction fails once.
    with contextlib.suppress(ClusterUnavailableError):
        publisher.publish([outgoing("b")])
    publisher.publish([outgoing("b")])
    eventually(lambda: "b" in [record.group for record in visible()])


def test_the_older_of_two_planners_is_fenced(
    publisher, outgoing, becomes_visible, client_config, topics
):
    publisher.publish([outgoing("a", at=1)])
    newer = Publisher(client_config, topics, timeout=20)
    newer.init()
    with pytest.raises(FencedError, match="another planner has taken over"):
        publisher.publish([outgoing("a", at=2)])
    with pytest.raises(FencedError):  # and for good
        publisher.publish([outgoing("a", at=3)])
    newer.publish([outgoing("a", at=4)])
    becomes_visible(1, 4, name="at")


def test_what_the_older_had_under_way_is_aborted(
    publisher, outgoing, becomes_visible, client_config, topics, monkeypatch
):
    commit = publisher._call

    def overtaken(what, call, timeout=None):
        if what == "commit":
            publisher._producer.flush(10)
            newer = Publisher(client_config, topics, timeout=20)
            newer.init()
            newer.publish([outgoing("b")])
        commit(what, call, timeout)

    monkeypatch.setattr(publisher, "_call", overtaken)
    with pytest.raises(FencedError):
        publisher.publish([outgoing("a")])
    becomes_visible("b")


def test_a_commit_of_unknown_outcome_is_brought_to_its_end_by_the_next_step(
    publisher, outgoing, visible, monkeypatch, becomes_visible
):
    call_once = publisher._call_once

    def cut_off(what, call, timeout):
        if what == "commit":
            raise ClusterUnavailableError("cut off")
        call_once(what, call, timeout)

    monkeypatch.setattr(publisher, "_call_once", cut_off)
    with pytest.raises(ClusterUnavailableError, match="cut off"):
        publisher.publish([outgoing("a")])
    assert visible() == []
    monkeypatch.setattr(publisher, "_call_once", call_once)
    publisher.publish([outgoing("b")])
    becomes_visible("a", "b")


def test_a_planner_without_brokers_says_so_in_time(topics):
    alone = Publisher({"bootstrap.servers": "127.0.0.1:1"}, topics, timeout=0.5)
    with pytest.raises(ClusterUnavailableError, match="initialise"):
        alone.init()


def test_records_of_other_producers_do_not_disturb(
    publisher, outgoing, becomes_visible, client_config, topics
):
    other = Producer({**client_config, "transactional.id": topics.prefix + "somebody"})
    other.init_transactions(20)
    other.begin_transaction()
    other.produce(topics.control, key=outgoing("x").key, value=outgoing("x").value, partition=0)
    other.flush(10)
    publisher.publish([outgoing("a")])
    other.abort_transaction(20)
    becomes_visible("a")
