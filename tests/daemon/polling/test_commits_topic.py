"""The topic of polled commits on real brokers: read again, written by one daemon alone."""

from contextlib import closing, suppress
from itertools import count
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.errors import ClusterUnavailableError, FencedError
from levelwind.daemon.kafka import publisher
from levelwind.daemon.kafka.publisher import UnpublishableError
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.polling import commits_topic
from levelwind.daemon.polling.commit_poller import CommitPoller
from levelwind.daemon.polling.commits_topic import CommitsTopic
from levelwind.daemon.polling.polled_records import commit_key, commit_value, group_records
from levelwind.daemon.polling.settings import CommitSettings
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.wire.describe_requests import DescribedGroup, DescribedMember
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def topics(client_config, fresh, log):
    topics = Topics(fresh("lw") + ".")
    ensure_topics(client_config, topics, TopicSettings(), log, polled=True)
    return topics


@pytest.fixture
def opened(client_config, topics, log, monkeypatch):
    """Makes the topic as a daemon has it, but for more patience: no test tries again."""
    monkeypatch.setattr(commits_topic, "PUBLISH_SECONDS", GENEROUS_SECONDS)

    def open_topic():
        return CommitsTopic(
            client_config, topics, TopicSettings().partitions, UnwrittenRecords(log), log
        )

    return open_topic


def members_of(group, size):
    nothing_to_compress = Random(1).randbytes(size)
    member = DescribedMember("m", None, "c", "/h", subscription=nothing_to_compress)
    return group_records(DescribedGroup(0, "Stable", "consumer", "range", (member,), group))


def test_what_was_written_is_read_again_by_the_next_daemon_which_ends_the_former(opened):
    commits = {commit_key("g", "t", number): commit_value(7, 0, 1) for number in range(3)}
    with closing(opened()) as first, closing(opened()) as second:
        first.begin()
        first.write(commits)
        second.begin()
        assert dict(second.read()) == commits
        with pytest.raises(FencedError):
            first.write(commits)
        second.write({commit_key("g", "t", 0): None})
        wait_until(
            "the tombstone",
            lambda: dict(second.read()) == commits | {commit_key("g", "t", 0): None},
        )


def test_a_poller_begins_again_where_it_could_not_read(opened):
    commits = {commit_key("g", "t", 0): commit_value(7, 0, 1)}
    with closing(opened()) as topic:
        topic.begin()
        topic.begin()
        topic.write(commits)
        wait_until("the commit", lambda: dict(topic.read()) == commits)


def test_a_poller_that_lost_the_id_says_so_and_does_not_take_it_again(
    opened, client_config, fresh, kafka, log
):
    topic, committed = fresh("topic"), count(1)
    kafka.create(topic)
    writer = Consumer({**client_config, "group.id": fresh("group")})

    def commit():
        """Commit something, so that each round has something to write."""
        commit_offsets(writer, [TopicPartition(topic, 0, next(committed))])

    rounds = []
    settings = CommitSettings(source="poll", interval=0.1)
    poller = CommitPoller(client_config, settings, opened(), rounds.append, log)
    poller.start()
    with closing(writer), closing(opened()) as successor:
        wait_until("a round", lambda: rounds)
        assert poller.fenced_reason == ""
        successor.begin()
        wait_until("the end", lambda: commit() or poller.fenced_reason)
        successor.write({commit_key("g", "t", 0): commit_value(7, 0, 1)})
    poller.stop()
    (event,) = log.of("commits.handed_over")
    assert event["reason"] == poller.fenced_reason


def test_a_record_that_has_no_room_costs_itself_alone(opened, topics, log):
    small, large = members_of("small", 10), members_of("large", 9 * 2**20)
    with closing(opened()) as topic:
        topic.begin()
        topic.write(small | large | {commit_key("large", "t", 0): commit_value(7, 0, 1)})
        written = small | {commit_key("large", "t", 0): commit_value(7, 0, 1)}
        wait_until(
            "what has room",
            lambda: {key: value for key, value in topic.read() if value} == written,
        )
        (refused,) = log.of("record.unwritten")
        assert (refused["topic"], refused["key"]) == (topics.commits, ["members", "large"])
        topic.write(members_of("large", 10))
        topic.write(large)
        assert len(log.of("record.unwritten")) == 2


def test_records_of_a_clock_that_is_ahead_are_not_taken_for_large_ones(opened, monkeypatch, log):
    """The brokers refuse each, and nothing counts as written."""
    tomorrow = now_ms() + 24 * 60 * 60 * 1000

    def enqueue(producer, record, delivered):
        where = {"partition": record.partition, "timestamp": tomorrow}
        producer.produce(record.topic, record.value, record.key, on_delivery=delivered, **where)

    commits = {commit_key("g", "t", number): commit_value(7, 0, 1) for number in range(3)}
    with closing(opened()) as topic:
        topic.begin()
        with monkeypatch.context() as ahead:
            ahead.setattr(publisher, "enqueue", enqueue)
            with pytest.raises(UnpublishableError, match="is the clock of this machine right"):
                topic.write(commits)
        assert not log.of("record.unwritten")
        assert dict(topic.read()) == {}
        # The library counts the refused records' numbers: its next transaction may fail once.
        with suppress(ClusterUnavailableError):
            topic.write(commits)
        topic.write(commits)
        wait_until("the commits", lambda: dict(topic.read()) == commits)
