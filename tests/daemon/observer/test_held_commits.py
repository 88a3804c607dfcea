"""Commits behind an open transaction on `__consumer_offsets`."""

from collections import Counter
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics
from levelwind.daemon.observer.cluster_state import UNKNOWN
from levelwind.daemon.observer.held_commits import (
    HELD_SECONDS,
    MAX_GROUPS,
    HeldCommit,
    HeldCommits,
    HeldPartition,
)
from levelwind_testing.kafka.kafka_wire import offsets_partition
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.pipeline.offsets_reference_codec import (
    commit_key,
    commit_value,
    group_key,
)


def commit(offset, committed):
    return HeldCommit(offset, 1, b"k", b"v", committed)


def test_the_newest_commit_that_the_coordinator_confirms_has_taken_effect():
    key, other = ("g", "t", 0), ("h", "t", 0)
    partition = HeldPartition(stable=5, since=0.0, read_to=20)
    partition.unanswered = {
        key: [commit(6, 10), commit(8, 12), commit(11, 10), commit(15, 99)],
        other: [commit(7, 3)],
    }
    assert partition.confirmed({key: 10, other: UNKNOWN}) == [commit(11, 10)]
    assert partition.unanswered == {key: [commit(15, 99)], other: [commit(7, 3)]}
    assert partition.confirmed({key: 10}) == [], "99 is of a transaction that may be open"
    assert partition.confirmed({key: 99, other: 3}) == [commit(7, 3), commit(15, 99)]
    assert partition.unanswered == {}


def test_a_commit_that_was_taken_back_is_confirmed_by_no_commit():
    partition = HeldPartition(stable=5, since=0.0, read_to=20)
    partition.unanswered = {("g", "t", 0): [commit(6, 10), commit(8, UNKNOWN)]}
    assert partition.confirmed({("g", "t", 0): UNKNOWN}) == [commit(8, UNKNOWN)]


@pytest.fixture
def held(log):
    return HeldCommits({}, SimpleNamespace(), Topics(), log)


def test_a_transaction_that_stays_open_is_logged_once_and_so_is_its_end(held, log):
    for second in range(5):
        held.sampled({0: 10, 1: 7}, {0: 12 + second, 1: 7}, float(second))
    held_back = {"event": "observer.commits_held_back", "level": "warning", "partitions": "0"}
    assert log.events == [held_back]
    held.sampled({0: 17, 1: 7}, {0: 17, 1: 7}, 6.0)
    assert log.events[1:] == [
        {
            "event": "observer.commits_released",
            "level": "info",
            "partitions": "0",
            "seconds": 6.0,
        }
    ]


def test_transactions_that_end_soon_hold_nothing_back(held, log):
    for second in range(10):
        held.sampled({0: 10 + 2 * second}, {0: 12 + 2 * second}, second * HELD_SECONDS)
    assert log.events == []
    assert held.effective(1, 1.0) == []


def test_a_coordinator_that_did_not_answer_for_the_sample_is_asked_for_no_group(held):
    for second in (0.0, HELD_SECONDS):
        held.sampled({0: 10}, {0: 12}, second)
    held._partitions[0].unanswered = {("g", "t", 0): [commit(11, 10)]}
    held.sampled({}, {}, HELD_SECONDS + 1)
    assert held.effective(1, 0.1) == []  # nobody could be asked here
    assert held._partitions[0].unanswered


def test_all_groups_are_asked_in_turn_where_more_wait_than_are_asked_at_once(log, monkeypatch):
    groups, open_ones, asked = 3 * MAX_GROUPS // 2, MAX_GROUPS + 10, Counter()

    def answer(groups, timeout):
        assert timeout == 1.0
        asked.update(groups)
        # The commits of the first groups are part of the transaction that stays open.
        offsets = {group: 10 if int(group) >= open_ones else UNKNOWN for group in groups}
        return {group: {("t", 0): offset} for group, offset in offsets.items()}

    held = HeldCommits({}, SimpleNamespace(), Topics(), log)
    monkeypatch.setattr(held._commits, "read", answer)
    monkeypatch.setattr(held, "_read", lambda *_: {})
    for second in (0.0, HELD_SECONDS):
        held.sampled({0: 10}, {0: 999}, second)
    held._partitions[0].unanswered = {
        (f"{number:04}", "t", 0): [commit(11 + number, 10)] for number in range(groups)
    }
    replays = [replay.offset for _ in range(4) for replay in held.effective(1, 1.0)]
    assert sorted(replays) == [11 + number for number in range(open_ones, groups)]
    assert (
        max(asked.values()) - min(asked[group] for group, *_ in held._partitions[0].unanswered) <= 1
    )
    assert sum(asked.values()) <= 4 * MAX_GROUPS


def test_what_lies_behind_a_stable_end_is_read_once(held, monkeypatch):
    for second in (0.0, HELD_SECONDS):
        held.sampled({0: 10}, {0: 13}, second)
    starts = []

    def read_to_ends(asked, _timeout):
        (start,) = asked.values()
        starts.append(start)
        for offset in range(start, 13):
            yield (OFFSETS_TOPIC, 0), read_message(offset)
        yield (OFFSETS_TOPIC, 0), None

    monkeypatch.setattr(held._reader, "records_to_ends", read_to_ends)
    handed_on = [[one.offset for one in held.effective(1, 0.1)] for _ in range(3)]
    assert starts == [10, 13, 13]
    assert handed_on == [[10, 11, 12], [], []]


def test_a_coordinator_is_not_asked_for_a_group_without_a_name(held, monkeypatch):
    for second in (0.0, HELD_SECONDS):
        held.sampled({0: 10}, {0: 12}, second)
    key, value = commit_key("", "t", 0), commit_value(5, 1000)
    records = [((OFFSETS_TOPIC, 0), read_message(11, key, value))]
    monkeypatch.setattr(held._reader, "records_to_ends", lambda *_: records)
    assert held.effective(1, 0.1) == []
    assert held._partitions[0].unanswered == {}


def read_message(offset, key=None, value=None):
    """A record, without a key one about members of a group, which no transaction holds."""
    return SimpleNamespace(
        offset=lambda: offset,
        timestamp=lambda: (1, 1000),
        key=lambda: key or group_key("g"),
        value=lambda: value,
    )


def ends(config, partition, level):
    reader = Consumer({**config, "group.id": "ends", "isolation.level": level})
    end = reader.get_watermark_offsets(TopicPartition(OFFSETS_TOPIC, partition), timeout=60)[1]
    reader.close()
    return end


@pytest.mark.integration
def test_commits_behind_an_open_transaction_of_real_brokers(kafka, fresh, client_config, log):
    topic = fresh("held")
    kafka.create(topic, 2)
    reader = Consumer({**client_config, "group.id": topic, "enable.auto.commit": False})
    commit_offsets(reader, [TopicPartition(topic, 0, 1)])
    admin = AdminClient(client_config)
    count = len(admin.list_topics(OFFSETS_TOPIC, timeout=60).topics[OFFSETS_TOPIC].partitions)
    number = offsets_partition(topic, count)
    plain = next(
        name
        for name in (f"{topic}-{suffix}" for suffix in range(100_000))
        if offsets_partition(name, count) == number
    )
    producer = Producer({**client_config, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 5)], reader.consumer_group_metadata(), 60
    )
    other = Consumer({**client_config, "group.id": plain, "enable.auto.commit": False})
    for offset in (2, 3):
        commit_offsets(other, [TopicPartition(topic, 1, offset)])
    held = HeldCommits(client_config, admin, Topics(), log)

    def sampled(now):
        stable = ends(client_config, number, "read_committed")
        held.sampled(
            {number: stable}, {number: ends(client_config, number, "read_uncommitted")}, now
        )
        return stable

    def effective(at):
        """What has taken effect of the plain group: others commit to the partition, too."""
        return [one for one in held.effective(at, 30.0) if plain.encode() in one.raw_key]

    try:
        stable = sampled(0.0)
        assert held.effective(1, 30.0) == []
        sampled(HELD_SECONDS)
        (replay,) = effective(1)
        assert (replay.topic, replay.partition, replay.until) == (
            OFFSETS_TOPIC,
            number,
            replay.offset + 1,
        )
        assert replay.offset >= stable
        assert effective(2) == [], "the transaction is open, and nothing else is new"
        commit_offsets(other, [TopicPartition(topic, 1, 4)])
        (again,) = effective(3)
        assert again.offset > replay.offset
    finally:
        producer.commit_transaction(60)
        reader.close()
        other.close()
        held.close()
    assert log.names == ["observer.commits_held_back"]
