"""Reading levelwind's topics to their end, and following them."""

import json
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from levelwind.assignors.protocol.records import OperatorRecord, PlannerRecord, encode
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.errors import ClusterUnavailableError, NotFoundError
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.kafka.topic_reader import (
    ReadProgress,
    read_to_end,
    stable_ends,
)
from levelwind_testing import records


def test_an_empty_log_has_been_read_from_the_start():
    assert ReadProgress.to({("t", 0): 0, ("t", 1): 0}).done


def test_a_log_has_been_read_when_each_partition_has_passed_its_end():
    ends = ReadProgress.to({("t", 0): 3, ("t", 1): 0, ("u", 0): 1})
    ends.reached("t", 0, 2)
    ends.reached("u", 0, 1)
    assert not ends.done
    ends.reached("t", 0, 5)  # markers may lie beyond
    assert ends.done
    ends.reached("t", 0, 6)
    ends.reached("t", 1, 1)
    assert ends.done


def test_what_was_handled_before_it_was_asked_for_is_called_back_without_another_record(log):
    follower = TopicFollower(client_config={}, topics=Topics(), on_record=ignore, log=log)
    for offset in (0, 1, 2):
        follower._note(handled("t", offset))
    called = []
    follower.when_read({("t", 0): 3}, lambda: called.append("all of it"))
    follower.when_read({("t", 0): 4}, lambda: called.append("more than there is"))
    follower._call_back()
    assert called == ["all of it"]


def ignore(_record):
    """Nobody looks at the records."""


def handled(topic, offset):
    return SimpleNamespace(
        topic=lambda: topic, partition=lambda: 0, offset=lambda: offset, error=lambda: None
    )


def operator(group, at=1):
    return OperatorRecord(group=group, at=at, by="me", action="rebalance", reason="")


def planner(epoch):
    return PlannerRecord(planner_epoch=epoch, instance="me", started_at=1)


@pytest.fixture
def write(client_config):
    """Writes records to a partition, in a transaction with the given end or without one."""
    producers = []

    def check(error, _message):
        assert error is None, str(error)

    def write(topic, records, *, partition=0, end=None):
        config = (
            {**client_config, "transactional.id": f"{topic}-{len(producers)}"}
            if end
            else client_config
        )
        producer = Producer(config)
        producers.append(producer)
        if end:
            producer.init_transactions(20)
            producer.begin_transaction()
        for record in records:
            key, value = record if isinstance(record, tuple) else encode(record)
            producer.produce(topic, key=key, value=value, partition=partition, on_delivery=check)
        assert producer.flush(20) == 0
        if end == "commit":
            producer.commit_transaction(20)
        if end == "abort":
            producer.abort_transaction(20)
        return producer

    return write


@pytest.fixture
def listen(client_config, topics, log):
    """Starts a reader that collects."""
    readers = []

    def listen(kinds=("control", "assignments"), **options):
        received = {"records": [], "rejected": [], "caught_up": []}
        reader = TopicFollower(
            client_config=client_config,
            topics=topics,
            kinds=kinds,
            on_record=received["records"].append,
            on_rejected=received["rejected"].append,
            on_caught_up=lambda: received["caught_up"].append(len(received["records"])),
            log=log,
            **options,
        )
        reader.start()
        readers.append(reader)
        return reader, received

    yield listen
    for reader in readers:
        reader.stop()


@pytest.mark.integration
@pytest.mark.parametrize("last", ["commit", "abort"])
def test_a_log_that_ends_in_markers_is_read_to_its_end(
    write, topics, client_config, eventually, last
):
    write(topics.control, [operator("a")], end="commit")
    write(topics.control, [operator("b"), operator("c")], end=last)
    write(
        topics.assignments, [planner(1)], partition=2, end="abort"
    )  # no record at all, yet not empty
    expected = ["a"] + ["b", "c"] * (last == "commit")

    def groups():
        items = read_to_end(client_config, topics, ("control", "assignments"), timeout=20)
        return [item.record.group for item in items]

    eventually(lambda: groups() == expected)


@pytest.mark.integration
def test_an_open_transaction_holds_up_what_comes_after_it_and_not_the_catching_up(
    write, topics, listen, eventually
):
    write(topics.control, [operator("a")])
    open_one = write(topics.control, [operator("b")], end="later")
    write(topics.control, [operator("c")])
    _, received = listen()
    eventually(lambda: received["caught_up"])
    assert received["caught_up"] == [1]
    assert [item.record.group for item in received["records"]] == ["a"]
    open_one.abort_transaction(20)
    eventually(lambda: len(received["records"]) == 2)
    assert [item.record.group for item in received["records"]] == ["a", "c"]
    assert received["caught_up"] == [1]


@pytest.mark.integration
@pytest.mark.parametrize("last", ["commit", "abort"])
def test_an_end_that_was_asked_for_is_called_back_once_all_below_it_was_handled(
    write, topics, listen, client_config, eventually, last
):
    names = [topics.control, topics.assignments]
    reader, received = listen()
    eventually(lambda: received["caught_up"])
    reached = []

    def ask():
        ends = stable_ends(client_config, names, 20)
        reader.when_read(ends, lambda: reached.append(len(received["records"])))

    ask()  # of topics that are empty
    eventually(lambda: reached == [0])
    write(topics.control, [operator("a"), operator("b")], end=last)
    write(topics.assignments, [planner(1)], partition=2, end="abort")  # markers alone
    expected = 2 if last == "commit" else 0
    eventually(lambda: stable_ends(client_config, names, 20)[topics.control, 0] == 3)
    ask()
    eventually(lambda: len(reached) == 2)
    assert reached == [0, expected]
    ask()  # and of an end that was reached before
    eventually(lambda: len(reached) == 3)
    assert reached == [0, expected, expected]


@pytest.mark.integration
def test_a_reader_of_empty_topics_has_caught_up_at_once_and_follows(
    write, topics, listen, eventually, log
):
    _, received = listen()
    eventually(lambda: received["caught_up"])
    write(topics.assignments, [planner(3)], partition=1)
    (entry,) = eventually(lambda: received["records"])
    assert (entry.kind, entry.partition, entry.offset, entry.record) == (
        "assignments",
        1,
        0,
        planner(3),
    )
    assert entry.timestamp > 1_600_000_000_000
    assert [item["records"] for item in log.of("topic_reader.caught_up")] == [0]


def member_bytes(**changes):
    member = records.member("i", incarnation="1", state="active", heartbeat=1)
    key, value = encode(member)
    return key, json.dumps({**json.loads(value), **changes}).encode()


@pytest.mark.integration
def test_garbage_is_rejected_with_its_place_and_stops_nothing(
    write, topics, listen, eventually, log
):
    good = member_bytes()
    garbage = [
        (b"\xff\xfe", b"{}"),
        (good[0], b"\x00garbage"),
        member_bytes(v=99),
        member_bytes(owned={"t": "9-1"}),
        (
            b'["m","g"]',
            b"{}",
        ),  # brokers keep records without any key out of compacted topics themselves
    ]
    write(topics.members, [garbage[0], good, *garbage[1:]], partition=3)
    write(topics.metadata, [(b'["topic","t"]', b'{"v":1}'), (b'["nonsense",1]', b"{}")])
    reader, received = listen(("members", "metadata"))
    eventually(lambda: received["caught_up"])
    positions = sorted((item.kind, item.partition, item.offset) for item in received["rejected"])
    assert positions == [
        *[("members", 3, offset) for offset in (0, 2, 3, 4, 5)],
        ("metadata", 0, 0),
        ("metadata", 0, 1),
    ]
    assert all(item.reason for item in received["rejected"])
    assert [item.offset for item in received["records"]] == [1]
    assert reader.rejected == 7
    # One event for each topic in ten seconds, not one for each record.
    assert sorted((item["topic"], item["level"]) for item in log.of("record.rejected")) == [
        (topics.members, "warning"),
        (topics.metadata, "warning"),
    ]


@pytest.mark.integration
def test_samples_of_offsets_are_left_out_unless_wanted(
    write, topics, listen, client_config, eventually
):
    samples = [
        (b'["offsets","t"]', b'{"v":2,"at":1,"id":"x","begin":[0],"stable":[1],"high":[1]}')
    ] * 3
    broker = (b'["broker",1]', b'{"v":1,"at":1,"rack":"a","online":true}')
    write(topics.metadata, [samples[0], broker, *samples[1:]])
    _, received = listen(("metadata",))
    eventually(lambda: received["caught_up"])
    assert [item.record.KIND for item in received["records"]] == ["broker"]
    with_samples = list(read_to_end(client_config, topics, ("metadata",), samples=True))
    assert [item.record.KIND for item in with_samples] == [
        "offsets",
        "broker",
        "offsets",
        "offsets",
    ]


@pytest.mark.integration
def test_what_is_malformed_is_passed_over_on_the_way_to_the_end(write, topics, client_config):
    write(topics.control, [operator("a"), (b"?", b"?"), operator("b")])
    read = read_to_end(client_config, topics, ("control",))
    assert [(item.record.group, item.offset) for item in read] == [("a", 0), ("b", 2)]


@pytest.mark.integration
def test_topics_that_are_not_there_are_named(client_config, fresh):
    with pytest.raises(NotFoundError, match=r"nobody.*\.control, nobody.*\.lag"):
        list(read_to_end(client_config, Topics(fresh("nobody") + "."), ("control", "lag")))


def test_a_cluster_that_does_not_answer_ends_the_reading():
    with pytest.raises(ClusterUnavailableError, match="does not answer"):
        list(read_to_end({"bootstrap.servers": "127.0.0.1:1"}, Topics(), ("control",), timeout=0.5))


@pytest.mark.integration
def test_a_callback_that_fails_ends_the_reader_and_is_told(
    write, topics, client_config, log, eventually
):
    write(topics.control, [operator("a")])
    dead = []

    def fail(_entry):
        raise RuntimeError("a bug")

    reader = TopicFollower(
        client_config=client_config,
        topics=topics,
        kinds=("control",),
        on_record=fail,
        on_crash=dead.append,
        log=log,
    )
    reader.start()
    (error,) = eventually(lambda: dead)
    assert str(error) == "a bug"
    assert log.names == ["topic_reader.crashed"]
    reader.stop()
