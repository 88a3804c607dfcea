"""Published lag compared with the truth on real brokers: committed offsets and readable records.

Commits come from `__consumer_offsets`, or from the topic that the poller fills meanwhile.

The truth is found without levelwind: a client of the group itself reads the committed offsets, and
a read_committed consumer reads each partition from its beginning to its end, which shows where its
records begin and end.
"""

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from levelwind.daemon.observer import observer as observer_module
from levelwind.daemon.observer.held_commits import HELD_SECONDS
from levelwind.daemon.observer.last_records import STILL_SAMPLES
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind.daemon.polling.commit_poller import CommitPoller, PollFigures
from levelwind.daemon.polling.commits_topic import CommitsTopic
from levelwind.daemon.polling.poll_schedule import QUIET_EVERY
from levelwind.daemon.polling.settings import CommitSettings
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.spark import query as pipeline
from levelwind.streaming.spark.settings import PipelineSettings
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.kafka.consumer_groups_tool import describe_group
from levelwind_testing.kafka.described_group import described_group
from levelwind_testing.kafka.kafka_wire import commit_that_expires, offsets_partition
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1500),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

NONE = -1
FIELDS = ("committed", "lag", "lost", "stale", "reset")
HOUR_MS = 60 * 60 * 1000
NOT_KNOWN_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""Errors of a broker that has not heard of a topic's creation."""
TICK_SECONDS = 0.1
"""Time between two ticks by the observer's clock: a transaction is seen to stay open."""
PARTITIONS_OF_COMMITS = 3
POLLING = CommitSettings(source="poll", interval=0.1, requests_per_second=1000.0, max_cpu_share=1.0)
BY_BOTH_SOURCES = pytest.mark.parametrize("world", ["topic", "polled"], indirect=True)
"""For what `make test` runs by polled commits, too: subscriptions, transactions, and what ends.
`make rare` runs every test that way."""


class SilentLog:
    """A logger that drops every event."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_, **__: None


@dataclass(slots=True)
class Polling:
    """Asks the coordinators for commits all the time, and counts the rounds that were answered."""

    lw: Installation
    rounds: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        client = {"bootstrap.servers": self.lw.bootstrap}
        unwritten, log = UnwrittenRecords(SilentLog()), SilentLog()
        topic = CommitsTopic(client, self.lw.topics, PARTITIONS_OF_COMMITS, unwritten, log)
        poller = CommitPoller(client, POLLING, topic, self._count, log)
        poller.start()
        yield
        poller.stop()

    def _count(self, _: PollFigures) -> None:
        self.rounds += 1

    def await_answers(self) -> None:
        """Wait until each group was asked for what it has committed now, and by whom."""
        begun = self.rounds
        wait_until("rounds of questions", lambda: self.rounds > begun + QUIET_EVERY)


@dataclass(slots=True)
class World:
    """A pipeline, an observer that the test ticks, and clients."""

    lw: Installation
    observer: Observer
    query: StreamingQuery
    commits_topic: str
    polling: Polling | None
    """Fills the topic of commits; None: the coordinators do."""
    stem: str
    settled: str
    """A topic for transactions that follow another one, which the observer leaves out."""
    readers: dict[str, Consumer] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    observer_ahead: float = 0.0
    """Seconds by which the observer's clock is ahead."""

    def client(self, group: str, **config: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.lw.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **config,
            }
        )

    def topic(self, name: str, partitions: int = 1, counts: Sequence[int] = ()) -> str:
        topic = f"{self.stem}-{name}"
        self.lw.create(topic, partitions)
        self.lw.fill(topic, counts)
        return topic

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets as a consumer that assigns partitions to itself."""
        if group not in self.readers:
            self.readers[group] = self.client(group)
        commit_offsets(
            self.readers[group],
            [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()],
        )

    def transactional(self, name: str) -> Producer:
        if name not in self.producers:
            self.producers[name] = Producer(
                {"bootstrap.servers": self.lw.bootstrap, "transactional.id": f"{self.stem}-{name}"}
            )
            self.producers[name].init_transactions(30)
        return self.producers[name]

    def settle(self, producer: Producer) -> None:
        """Wait for the markers of the last transaction, which come after the answer to its end.

        The coordinator begins no other one before.
        """
        producer.begin_transaction()
        producer.produce(self.settled, b"x", partition=0)
        assert producer.flush(60) == 0
        producer.abort_transaction(60)

    def end(self, producer: Producer, end: Callable[[float], None]) -> None:
        """End a transaction by one of its producer's methods, to its markers."""
        end(60)
        self.settle(producer)

    def send_offsets(
        self, producer: Producer, group: str, topic: str, offsets: dict[int, int]
    ) -> None:
        if group not in self.readers:
            self.readers[group] = self.client(group)
        topic_partitions = [
            TopicPartition(topic, partition, offset) for partition, offset in offsets.items()
        ]
        producer.send_offsets_to_transaction(
            topic_partitions, self.readers[group].consumer_group_metadata(), 30
        )

    # -- the truth

    def readable(self, topic: str) -> list[tuple[int, list[int]]]:
        """Begin of the log and offsets of the readable records, by partition."""
        reader = self.client(
            "truth", **{"isolation.level": "read_committed", "enable.partition.eof": True}
        )
        count = len(reader.list_topics(topic, timeout=10).topics[topic].partitions)
        begins = [
            reader.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[0]
            for p in range(count)
        ]
        reader.assign([TopicPartition(topic, p, begin) for p, begin in enumerate(begins)])
        offsets: list[list[int]] = [[] for _ in begins]
        unfinished = set(range(count))
        while unfinished:
            message = reader.poll(30)
            assert message is not None, "a topic does not answer"
            if message.error() is None:
                offsets[message.partition()].append(message.offset())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                unfinished.discard(message.partition())
        reader.close()
        return list(zip(begins, offsets, strict=True))

    def ends(self, topic: str, partitions: int, isolation_level: str) -> list[int]:
        reader = self.client("truth", **{"isolation.level": isolation_level})
        ends = [
            reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
            for partition in range(partitions)
        ]
        reader.close()
        return ends

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        reader = self.client(group, **{"isolation.level": "read_uncommitted"})
        topic_partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        committed = reader.committed(topic_partitions, timeout=30)
        reader.close()
        return [
            topic_partition.offset if topic_partition.offset >= 0 else NONE
            for topic_partition in committed
        ]

    def owned(self, group: str) -> set[tuple[str, int]] | None:
        """Partitions that the coordinator has assigned to members; None: the group has none."""
        with errors_allowed(KafkaError.GROUP_ID_NOT_FOUND):
            described = described_group(self.lw.admin, group)
            return {
                (found.topic, found.partition)
                for member in described.members
                for found in member.assignment.topic_partitions
            } or None
        return None

    def truth(self, groups: Sequence[str], topics: Sequence[str]) -> dict[tuple[str, str], Any]:
        """What lag records say, by group and topic with a commit or an owner.

        Members own all partitions of the topics that they subscribe to; any other topic is
        nobody's, whatever the group has committed there.

        A reader without a commit, or with one beyond the log, begins at the log's begin. Where
        nothing tells of offsets without a record, these are lag, too: `lag` counts offsets, and
        `records` what is there to read.
        """
        found = {}
        for topic in topics:
            logs = self.readable(topic)
            stable, high = (
                self.ends(topic, len(logs), level)
                for level in ("read_committed", "read_uncommitted")
            )
            begins = [begin for begin, _ in logs]
            for group in groups:
                committed = self.committed(group, topic, len(logs))
                owned = self.owned(group)
                claimed = [
                    offset != NONE if owned is None else (topic, p) in owned
                    for p, offset in enumerate(committed)
                ]
                if max(committed) == NONE and not any(claimed):
                    continue
                nobodys = [p for p, by_group in enumerate(claimed) if not by_group]
                reset = [p for p, offset in enumerate(committed) if offset > high[p]]
                starts = [
                    begins[p] if p in reset else max(offset, begins[p])
                    for p, offset in enumerate(committed)
                ]
                behind = [
                    max((offsets[-1] + 1 if offsets else begin) - start, 0)
                    for start, (begin, offsets) in zip(starts, logs, strict=True)
                ]
                found[group, topic] = {
                    "committed": committed,
                    "lag": [0 if p in nobodys else one for p, one in enumerate(behind)],
                    "records": [
                        0 if p in nobodys else sum(offset >= starts[p] for offset in offsets)
                        for p, (_, offsets) in enumerate(logs)
                    ],
                    "unclaimed": nobodys,
                    "reset": reset,
                    "lost": [
                        max(begins[p] - offset, 0) if offset != NONE else 0
                        for p, offset in enumerate(committed)
                    ],
                    "stale": [
                        p for p, offset in enumerate(committed) if stable[p] < offset <= high[p]
                    ],
                }
        return found

    # -- what is published

    def observe(self) -> None:
        """Tick until the observer has read the last records of all idle partitions."""
        self.observer.tick_metadata()
        for _ in range(4 * STILL_SAMPLES + 4):
            self.tick()
        self.observer._topic._producer.flush(60)

    def tick(self) -> None:
        """Let the observer's clock go on, and sample."""
        self.observer_ahead += TICK_SECONDS
        self.observer.tick_offsets()

    def published(self, groups: Sequence[str], topics: Sequence[str]) -> dict[tuple[str, str], Any]:
        return {
            (key[1], key[2]): {
                "reset": [],
                **{name: value[name] for name in FIELDS if name in value},
                "unclaimed": [p for p, n in enumerate(value.get("unclaimed", ())) if n != NONE],
            }
            for key, value in self.lw.latest("lag").items()
            if key[1] in groups and key[2] in topics
        }

    def await_reading(self) -> None:
        """Wait until the query has done with all that its topics hold now."""
        if self.polling is not None:
            self.polling.await_answers()
        topics = self.lw.topics
        reader = self.client("truth", **{"isolation.level": "read_committed"})
        existing = reader.list_topics(timeout=60).topics
        ends = {
            (topic, partition): reader.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=60
            )[1]
            for topic in (self.commits_topic, topics.metadata, topics.assignments, topics.replays)
            for partition in existing[topic].partitions
        }
        reader.close()

        def read() -> bool:
            assert self.query.isActive, self.query.exception()
            progress = self.query._jsq.lastProgress()
            if progress is None:
                return False
            (source,) = json.loads(progress.json())["sources"]
            done = source["endOffset"] or {}
            return all(
                done.get(topic, {}).get(str(partition), 0) >= end
                for (topic, partition), end in ends.items()
            )

        # The first batch may take long on a busy machine.
        wait_until("end of the input", read, 200)

    def await_agreement(
        self, groups: Sequence[str], topics: Sequence[str]
    ) -> dict[tuple[str, str], Any]:
        """Wait until the published lag equals the truth, and return it; input must stand still.

        All input has been read by then. The observer goes on meanwhile: a transaction of another
        test may hold back what the groups did last, and that counts with the first sample after it.
        """
        self.observe()
        self.await_reading()
        found: dict[tuple[str, str], Any] = {}
        different: dict[tuple[str, str], Any] = {}

        def same() -> bool:
            nonlocal found, different
            # A coordinator drops the commits of a deleted topic some time after its deletion, and a
            # broker hears of a new topic later than others.
            truth: dict[tuple[str, str], Any] = {("no", "truth"): {}}
            with errors_allowed(*NOT_KNOWN_YET):
                truth = self.truth(groups, topics)
            found = self.published(groups, topics)
            different = {
                key: (found.get(key), truth.get(key))
                for key in found.keys() | truth.keys()
                if not agree(found.get(key), truth.get(key))
            }
            if not different:
                return True
            self.observer.tick_metadata()
            self.tick()
            return False

        wait_until("agreement", same, 200, pause=0.3, shown=lambda: different)
        return found


def agree(found: Any, true: Any) -> bool:
    """Whether a lag record says the truth; an upper bound of lag does."""
    if found is None or true is None:
        return found is true
    bounds = zip(true["records"], found["lag"], true["lag"], strict=True)
    return all(records <= lag <= offsets for records, lag, offsets in bounds) and all(
        value == true[name] for name, value in found.items() if name != "lag"
    )


@pytest.fixture(scope="module", params=["topic", pytest.param("polled", marks=pytest.mark.rare)])
def world(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    lw = Installation(bootstrap=cluster.bootstrap, prefix=f"truth-lw-{now()}.")
    polling = Polling(lw) if request.param == "polled" else None
    if polling:
        compacted = {"cleanup.policy": "compact"}
        lw.create(lw.topics.commits, PARTITIONS_OF_COMMITS, **compacted)
    settings = PipelineSettings(
        bootstrap=lw.bootstrap,
        checkpoint=tmp_path_factory.mktemp("checkpoint"),
        prefix=lw.prefix,
        commits_polled=polling is not None,
    )
    stem = f"truth-{now()}"
    observer = Observer(
        {"bootstrap.servers": lw.bootstrap},
        lw.topics,
        ObserverSettings(include=(re.escape(stem) + "-.*",), begin_offsets_every=1, timeout=10.0),
        SilentLog(),
        commits_topic=settings.commits_topic,
    )
    query = pipeline.start(spark, settings)
    settled = f"settled-{stem}"
    lw.create(settled)
    world = World(lw, observer, query, settings.commits_topic, polling, stem, settled)
    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + world.observer_ahead, process_time=time.process_time
    )
    with pytest.MonkeyPatch.context() as patch, polling.running() if polling else nullcontext():
        patch.setattr(observer_module, "time", clock)
        yield world
    query.stop()
    observer.close()
    for reader in world.readers.values():
        reader.close()


@BY_BOTH_SOURCES
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_subscribes(world: World, protocol: str) -> None:
    topic, group = world.topic(protocol, 3, [20, 10, 0]), f"{world.stem}-{protocol}"
    consumer = world.client(group, **{"group.protocol": protocol})
    consumer.subscribe([topic])
    for message in consumer.consume(17, timeout=60):
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
    first = world.await_agreement([group], [topic])[group, topic]
    assert sum(first["lag"]) == 13
    other = world.topic(f"{protocol}-other", 2, [4, 4])
    consumer.subscribe([other])
    # A member goes on reading what it has until it has given it up.
    wait_until(
        "a record of the other topic",
        lambda: other in [message.topic() for message in consumer.consume(1, timeout=1)],
        pause=0,
    )
    found = world.await_agreement([group], [topic, other])
    assert (found[group, topic]["lag"], found[group, topic]["unclaimed"]) == ([0] * 3, [0, 1, 2])
    assert found[group, other]["lag"] == [4, 4]
    consumer.close()
    found = world.await_agreement([group], [topic, other])
    by_commit = [
        lag if offset != NONE else 0
        for lag, offset in zip(first["lag"], first["committed"], strict=True)
    ]
    assert found[group, topic]["lag"] == by_commit, "without members, its commits count again"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_has_never_committed(world: World, protocol: str) -> None:
    topic, group = world.topic(f"new-{protocol}", 2, [20, 10]), f"{world.stem}-new-{protocol}"
    consumer = world.client(group, **{"group.protocol": protocol})
    consumer.subscribe([topic])
    assert len(consumer.consume(3, timeout=60)) == 3
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["committed"], found["lag"]) == ([NONE, NONE], [20, 10])
    rows = describe_group(world.lw.bootstrap, group)
    assert {row.lag for row in rows.values()} == {None}, "the tool shows no lag"
    assert None not in {row.owner for row in rows.values()}
    consumer.close()
    assert world.await_agreement([group], [topic]) == {}


def test_a_consumer_that_assigns_itself(world: World) -> None:
    topic, group = world.topic("manual", 2, [20, 10]), f"{world.stem}-manual"
    world.commit(group, topic, {0: 5})
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["lag"], found["unclaimed"]) == ([15, 0], [1])
    rows = describe_group(world.lw.bootstrap, group)
    assert {key: row.lag for key, row in rows.items()} == {(topic, 0): 15}
    world.commit(group, topic, {1: 10})
    assert world.await_agreement([group], [topic])[group, topic]["lag"] == [15, 0]


@BY_BOTH_SOURCES
def test_commits_of_transactions_count_once_they_are_committed(world: World) -> None:
    topic, group = world.topic("commits", 1, [20]), f"{world.stem}-commits"
    producer = world.transactional("commits")
    for offset, end, lag in (
        (7, producer.commit_transaction, 13),
        (11, producer.abort_transaction, 13),
    ):
        producer.begin_transaction()
        world.send_offsets(producer, group, topic, {0: offset})
        world.end(producer, end)
        assert world.await_agreement([group], [topic])[group, topic]["lag"] == [lag]
    producer.begin_transaction()
    world.send_offsets(producer, group, topic, {0: 15})
    assert world.await_agreement([group], [topic])[group, topic]["lag"] == [13], (
        "the transaction is open"
    )
    world.end(producer, producer.commit_transaction)
    assert world.await_agreement([group], [topic])[group, topic]["lag"] == [5]


def test_records_of_an_open_transaction_are_not_there_yet_and_those_of_an_aborted_one_never(
    world: World,
) -> None:
    topic, group = world.topic("records", 2, [5, 5]), f"{world.stem}-records"
    world.commit(group, topic, {0: 5, 1: 5})
    producer = world.transactional("records")
    for end, after in (
        (producer.abort_transaction, [0, 0]),
        (producer.commit_transaction, [4, 4]),
    ):
        producer.begin_transaction()
        for partition in (0, 1):
            for _ in range(4):
                producer.produce(topic, b"x", partition=partition)
        producer.flush(30)
        assert world.await_agreement([group], [topic])[group, topic]["lag"] == [0, 0]
        world.end(producer, end)
        # Below the second transaction's 4 records stand the aborted ones and their marker.
        wait_until(
            "lag without gaps",
            lambda expected=after: observed_lag(world, group) == (expected, None),
        )
        world.await_agreement([group], [topic])


def test_aborted_records_in_the_middle_of_a_log_are_no_lag(world: World) -> None:
    topic, group = world.topic("middle", 1, [20]), f"{world.stem}-middle"
    world.commit(group, topic, {0: 5})
    producer = world.transactional("middle")
    for _ in range(3):
        producer.begin_transaction()
        for _ in range(9):
            producer.produce(topic, b"x", partition=0)
        producer.flush(30)
        world.end(producer, producer.abort_transaction)
    world.lw.fill(topic, [5])
    world.observe()
    # The last records are plain: nothing tells of the gaps before them, and the lag is too large.
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    world.end(producer, producer.commit_transaction)
    (tool,) = describe_group(world.lw.bootstrap, group).values()
    assert tool.lag == 15 + 3 * 10 + 5 + 2
    wait_until("lag without gaps", lambda: observed_lag(world, group) == ([15 + 5 + 1], None))


def observed_lag(world: World, group: str) -> tuple[Any, Any]:
    world.observe()
    records = [one for key, one in world.lw.latest("lag").items() if key[1] == group]
    return next(((one["lag"], one.get("lag_upper_bound")) for one in records), (None, None))


def test_an_open_transaction_hides_the_commits_of_no_other_group(world: World) -> None:
    topic, group = world.topic("held", 2, [20, 10]), f"{world.stem}-held"
    found = world.lw.admin.list_topics("__consumer_offsets", timeout=60).topics
    count = len(found["__consumer_offsets"].partitions)
    other = next(
        name
        for name in (f"{group}-{suffix}" for suffix in range(100_000))
        if offsets_partition(name, count) == offsets_partition(group, count)
    )
    world.commit(group, topic, {0: 1})
    world.commit(other, topic, {1: 1})
    world.await_agreement([group, other], [topic])
    producer = world.transactional("held")
    producer.begin_transaction()
    world.send_offsets(producer, group, topic, {0: 7})
    world.commit(other, topic, {1: 4})
    assert world.await_agreement([group, other], [topic])[other, topic]["lag"] == [0, 6]
    world.commit(other, topic, {1: 5})
    world.observer_ahead += HELD_SECONDS
    found = world.await_agreement([group, other], [topic])
    assert (found[group, topic]["lag"], found[other, topic]["lag"]) == ([19, 0], [0, 5])
    (row,) = describe_group(world.lw.bootstrap, other).values()
    assert row.lag == 5
    world.end(producer, producer.commit_transaction)
    assert world.await_agreement([group, other], [topic])[group, topic]["lag"] == [13, 0]


def test_a_marker_at_the_end_is_no_lag(world: World) -> None:
    topic, group = world.topic("marker"), f"{world.stem}-marker"
    producer = world.transactional("marker")
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    world.end(producer, producer.commit_transaction)
    consumer = world.client(group)
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = consumer.consume(1, timeout=30)
    consumer.commit(message=message, asynchronous=False)
    consumer.close()
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["committed"], found["lag"]) == ([1], [0])
    (record,) = [one for key, one in world.lw.latest("lag").items() if key[1] == group]
    assert (record["end"], record["data_end"]) == ([2], [1])


def test_deleted_records_are_lost_and_no_lag(world: World) -> None:
    topic, group = world.topic("deleted", 2, [20, 20]), f"{world.stem}-deleted"
    world.commit(group, topic, {0: 5, 1: 15})
    for answer in world.lw.admin.delete_records(
        [TopicPartition(topic, 0, 12), TopicPartition(topic, 1, 12)]
    ).values():
        answer.result()
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["lag"], found["lost"]) == ([8, 5], [7, 0])


def test_a_commit_beyond_the_end_counts_from_where_its_reader_begins_again(world: World) -> None:
    topic, group = world.topic("beyond", 1, [5]), f"{world.stem}-beyond"
    world.commit(group, topic, {0: 50})
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["lag"], found["stale"], found["reset"]) == ([5], [], [0])
    (row,) = describe_group(world.lw.bootstrap, group).values()
    assert row.lag is not None
    assert row.lag <= 0, "the tool takes the commit from the end"
    consumer = world.client(group)
    consumer.subscribe([topic])
    assert len(consumer.consume(5, timeout=60)) == 5, "it reads all that was counted"
    consumer.close()


@BY_BOTH_SOURCES
def test_a_recreated_topic_counts_from_its_own_commits(world: World) -> None:
    topic, group, transactional = (
        world.topic("anew", 1, [20]),
        f"{world.stem}-anew",
        f"{world.stem}-anew-tx",
    )
    producer = world.transactional("anew")

    def commit(offset: int) -> None:
        world.commit(group, topic, {0: offset})
        producer.begin_transaction()
        world.send_offsets(producer, transactional, topic, {0: offset})
        world.end(producer, producer.commit_transaction)

    commit(15)
    assert world.await_agreement([group, transactional], [topic])[transactional, topic]["lag"] == [
        5
    ]
    recreate_topic(world, topic, 1)
    world.lw.fill(topic, [4])
    assert world.await_agreement([group, transactional], [topic]) == {}, (
        "nobody has committed to the new one"
    )
    commit(1)
    world.await_agreement([group, transactional], [topic])
    # What agrees is an upper bound, and 0 is one as long as no reader sees the new records.
    wait_until(
        "lag in the new topic",
        lambda: all(
            world.lw.lag_of(each, topic).get("lag") == [3] for each in (group, transactional)
        ),
    )


@BY_BOTH_SOURCES
def test_commits_to_a_recreated_topic_count_before_the_observer_has_seen_it(world: World) -> None:
    topic, group = world.topic("anew-unseen", 1, [20]), f"{world.stem}-anew-unseen"
    producer = world.transactional("anew-unseen")
    world.commit(group, topic, {0: 15})
    world.await_agreement([group], [topic])
    recreate_topic(world, topic, 1)
    world.lw.fill(topic, [4])
    producer.begin_transaction()
    world.send_offsets(producer, group, topic, {0: 1})
    world.end(producer, producer.commit_transaction)
    assert world.await_agreement([group], [topic])[group, topic]["lag"] == [3]


def test_more_partitions_show_at_once(world: World) -> None:
    topic, group = world.topic("grown", 1, [5]), f"{world.stem}-grown"
    world.commit(group, topic, {0: 5})
    world.await_agreement([group], [topic])
    world.lw.admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    # The other producer remembers a single partition.
    producer = Producer({"bootstrap.servers": world.lw.bootstrap})
    wait_until(
        "new partitions", lambda: len(producer.list_topics(topic, 60).topics[topic].partitions) == 3
    )
    for partition, count in enumerate([0, 3, 2]):
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    producer.flush(30)
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["lag"], found["unclaimed"]) == ([0, 0, 0], [1, 2])


@BY_BOTH_SOURCES
def test_a_deleted_group_disappears(world: World) -> None:
    topic, group = world.topic("group", 1, [5]), f"{world.stem}-group"
    world.commit(group, topic, {0: 5})
    assert world.await_agreement([group], [topic])
    world.readers.pop(group).close()
    world.lw.admin.delete_consumer_groups([group])[group].result()
    assert world.await_agreement([group], [topic]) == {}


@BY_BOTH_SOURCES
def test_an_expired_commit_disappears(world: World) -> None:
    topic, group = world.topic("expires", 2, [5, 5]), f"{world.stem}-expires"
    world.commit(group, topic, {0: 2})
    commit_that_expires(world.lw.bootstrap, group, topic, 1, 3, 1)
    wait_until("expiry", lambda: world.committed(group, topic, 2) == [2, NONE])
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["lag"], found["unclaimed"]) == ([3, 0], [1])


@BY_BOTH_SOURCES
def test_a_commit_of_no_offset_takes_the_former_one_back(world: World) -> None:
    topic, group = world.topic("none", 2, [5, 5]), f"{world.stem}-none"
    world.commit(group, topic, {0: 2, 1: 4})
    commit_that_expires(world.lw.bootstrap, group, topic, 0, -1, HOUR_MS)
    found = world.await_agreement([group], [topic])[group, topic]
    assert (found["committed"], found["lag"]) == ([NONE, 4], [0, 1])
    assert found["unclaimed"] == [0]


@contextmanager
def errors_allowed(*codes: int) -> Iterator[None]:
    """Suppress errors of the client with these codes."""
    try:
        yield
    except KafkaException as error:
        if error.args[0].code() not in codes:
            raise


def recreate_topic(world: World, topic: str, partitions: int) -> None:
    world.lw.admin.delete_topics([topic])[topic].result()

    def made() -> bool:
        with errors_allowed(KafkaError.TOPIC_ALREADY_EXISTS):
            world.lw.create(topic, partitions)
            return True
        return False

    # Brokers learn of the deletion one after the other.
    wait_until(f"new topic {topic}", made)


OPERATIONS_OF_A_COMPARISON = 500
LAST_OPERATIONS = 10
"""Number of operations before each comparison of the kinds that a later commit would hide."""


@dataclass(slots=True)
class RandomOperations:
    """Random operations of producers, consumers, operators and the observer."""

    world: World
    random: random.Random
    topics: list[str]
    groups: list[str]
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Approximate end offset of each partition."""

    def topic_partition(self) -> tuple[str, int]:
        return self.random.choice(self.topics), self.random.randrange(3)

    def random_offset(self, topic_partition: tuple[str, int]) -> int:
        return self.random.randrange(
            self.ends.get(topic_partition, 0) + 3
        )  # now and then beyond the end

    def produce(self, producer: Producer, records: int, offsets: int) -> None:
        topic, partition = topic_partition = self.topic_partition()
        for _ in range(records):
            producer.produce(topic, b"x", partition=partition)
        self.ends[topic_partition] = self.ends.get(topic_partition, 0) + offsets

    def produce_records(self) -> None:
        count = self.random.randrange(1, 6)
        self.produce(self.world.lw.producer, count, count)

    def commit(self) -> None:
        topic, partition = topic_partition = self.topic_partition()
        self.world.commit(
            self.random.choice(self.groups), topic, {partition: self.random_offset(topic_partition)}
        )

    def transaction(self) -> None:
        producer = self.world.transactional("random")
        producer.begin_transaction()
        for _ in range(self.random.randrange(3)):
            self.produce(producer, 1, 2)  # with its marker
        end = (
            producer.commit_transaction
            if self.random.random() < 0.6
            else producer.abort_transaction
        )
        try:
            if self.random.random() < 0.7:
                topic, partition = topic_partition = self.topic_partition()
                group = self.random.choice(self.groups)
                self.world.send_offsets(
                    producer, group, topic, {partition: self.random_offset(topic_partition)}
                )
            end(30)
        except KafkaException:
            self.world.producers.pop("random")  # the next one fences it, and so aborts what is open
            raise

    def tombstone_commit(self) -> None:
        topic, partition = self.topic_partition()
        try:
            commit_that_expires(
                self.world.lw.bootstrap,
                self.random.choice(self.groups),
                topic,
                partition,
                -1,
                HOUR_MS,
            )
        except AssertionError as refused:
            raise KafkaException(str(refused)) from refused

    def delete_records(self) -> None:
        topic, partition = topic_partition = self.topic_partition()
        before = TopicPartition(topic, partition, self.random_offset(topic_partition))
        for answer in self.world.lw.admin.delete_records([before]).values():
            answer.result()

    def delete_group(self) -> None:
        group = self.random.choice(self.groups[1:])
        if group in self.world.readers:
            self.world.readers.pop(group).close()
            self.world.lw.admin.delete_consumer_groups([group])[group].result()

    def recreate_a_topic(self) -> None:
        topic = self.random.choice(self.topics)
        recreate_topic(self.world, topic, 3)
        self.world.producers.pop(
            "random", None
        )  # its sequence numbers are those of the deleted topic
        self.ends |= {(topic, partition): 0 for partition in range(3)}

    def tick(self) -> None:
        self.world.observer.tick_metadata()
        self.world.observer.tick_offsets()

    def run(self, count: int) -> int:
        """Do `count` operations; return how many of them the brokers refused.

        A re-created topic is not known to all brokers at once, and a group may not exist.
        """
        rare = {
            self.transaction: 40,
            self.delete_records: 10,
            self.delete_group: 10,
            self.tombstone_commit: 10,
            self.recreate_a_topic: 1,
            self.tick: 20,
        }
        often = {self.produce_records: 300, self.commit: 600, **rare}
        last = {**rare, self.transaction: 10, self.recreate_a_topic: 5}
        refused = 0
        for operation in [
            *self.random.choices(list(often), list(often.values()), k=count - LAST_OPERATIONS),
            *self.random.choices(list(last), list(last.values()), k=LAST_OPERATIONS),
        ]:
            if operation not in (self.produce_records, self.commit):
                self.world.lw.producer.flush(30)
            try:
                operation()
            except KafkaException:
                refused += 1
        self.world.lw.producer.flush(30)
        return refused


@pytest.mark.parametrize(
    "comparisons", [2, pytest.param(6, marks=pytest.mark.rare)], ids=["1000", "3000"]
)
def test_after_thousands_of_random_operations_there_is_no_difference(
    world: World, comparisons: int
) -> None:
    topics = [world.topic(f"random-{comparisons}-{number}", 3) for number in range(5)]
    groups = [f"{world.stem}-random-{comparisons}-{number}" for number in range(8)]
    world.commit(groups[0], topics[0], {0: 0})
    random_operations = RandomOperations(world, random.Random(drawn_seed()), topics, groups)
    refused = found = 0
    for _ in range(comparisons):
        refused += random_operations.run(OPERATIONS_OF_A_COMPARISON)
        if "random" in world.producers:
            world.settle(world.producers["random"])
        found += len(world.await_agreement(groups, topics))
    assert refused < comparisons * OPERATIONS_OF_A_COMPARISON / 10
    assert found > comparisons * len(groups)
