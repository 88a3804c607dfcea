"""The query on real brokers: commits become lag and triggers, and restarts leave no trace."""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from assignors.protocol.records import MemberAssignment, Tombstone
from deploy.cluster import Cluster
from levelwind_testing import records
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.pipeline.mounted_files import mount
from streaming.errors import ClusterUnreachable, TopicMissing
from streaming.spark import query
from streaming.spark.progress import NothingToRead, Progress, QueryNews
from streaming.spark.settings import PipelineSettings

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

OFFSETS = "__consumer_offsets"


class Running:
    """A running query and its news."""

    def __init__(self, spark: SparkSession, settings: PipelineSettings) -> None:
        self.news: list[QueryNews] = []
        self.set_aside: list[str] = []
        self.query = query.start(spark, settings, self.news.append, self.set_aside.append)

    @property
    def batches(self) -> list[Progress]:
        return [news for news in self.news if isinstance(news, Progress)]

    def counted(self, what: str) -> dict[str, int]:
        total: dict[str, int] = {}
        for batch in self.batches:
            for name, count in getattr(batch, what).items():
                total[name] = total.get(name, 0) + count
        return total


@pytest.fixture(scope="module")
def lw(cluster: Cluster) -> Installation:
    return Installation(bootstrap=cluster.bootstrap, prefix=f"lw-{now()}.")


@pytest.fixture(scope="module")
def running(
    spark: SparkSession, lw: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    settings = PipelineSettings(
        bootstrap=lw.bootstrap,
        checkpoint=tmp_path_factory.mktemp("checkpoint"),
        prefix=lw.prefix,
        skew_duration=1000,
    )
    running = Running(spark, settings)
    yield running
    running.query.stop()


def lag_of(lw: Installation, group: str, topic: str) -> dict[str, object]:
    found = lw.latest("lag").get(("lag", group, topic))
    return found or {}


def test_the_lag_of_a_real_consumer_is_its_true_lag(
    lw: Installation, running: Running, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("work"), fresh("readers")
    lw.create(topic, 3)
    lw.fill(topic, [100, 50, 0])
    lw.observe(topic)
    consumer = Consumer(
        {
            "bootstrap.servers": lw.bootstrap,
            "group.id": group,
            "client.rack": "a",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    for message in consumer.consume(60, timeout=60):
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
    committed = consumer.committed([TopicPartition(topic, partition) for partition in range(3)])
    offsets = [partition.offset for partition in committed]
    truth = [end - max(offset, 0) for offset, end in zip(offsets, [100, 50, 0], strict=True)]
    sampled = lw.sample(topic)
    found = lw.eventually(
        lambda: (
            (now := lag_of(lw, group, topic))
            and now["at"] == sampled.at
            and now["lag"] == truth
            and now
        )
    )
    assert sum(truth) == 90
    assert found["id"] == sampled.id
    assert found["committed"] == [max(offset, -1) for offset in offsets]
    assert found["end"] == [100, 50, 0]
    consumer.close()


def test_aborted_transactional_commits_do_not_count(
    lw: Installation, running: Running, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("work"), fresh("transactional")
    lw.create(topic)
    lw.fill(topic, [100])
    lw.observe(topic)
    producer = Producer({"bootstrap.servers": lw.bootstrap, "transactional.id": group})
    producer.init_transactions()
    member = Consumer({"bootstrap.servers": lw.bootstrap, "group.id": group})
    for offset, end in ((30, producer.commit_transaction), (70, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], member.consumer_group_metadata()
        )
        end()
    member.close()
    sampled = lw.sample(topic)
    found = lw.eventually(
        lambda: (now := lag_of(lw, group, topic)) and now["at"] == sampled.at and now
    )
    assert (found["committed"], found["lag"]) == ([30], [70])


def test_a_reassignment_to_other_racks_is_a_trigger(
    lw: Installation,
    running: Running,
    fresh: Callable[[str], str],
    reassign: Callable[[str, Mapping[int, Sequence[int]]], None],
) -> None:
    topic, group = fresh("moved"), fresh("readers")
    lw.create(topic, 2, replicas=[[1, 2], [1, 2]])
    lw.fill(topic, [10, 10])
    before = lw.observe(topic)
    lw.publish(assigned(group, "m0", {topic: (0, 1)}, rack="a"))
    lw.sample(topic)
    lw.commit(group, topic, {0: 5})
    lw.eventually(lambda: lag_of(lw, group, topic))
    assert ("racks", group) not in lw.latest("triggers")
    reassign(topic, {1: [1, 3]})
    after = lw.observe(topic)
    assert before.racks != after.racks
    trigger = lw.eventually(lambda: lw.latest("triggers").get(("racks", group)))
    assert trigger["evidence"] == {
        "topics": {topic: {"1": {"from": list(before.racks[1]), "to": list(after.racks[1])}}},
        "partitions": 1,
    }
    assert trigger["since"] == after.at


def test_lasting_skew_is_a_trigger_and_deleting_the_topic_ends_it(
    lw: Installation, running: Running, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("skewed"), fresh("readers")
    lw.create(topic, 4)
    lw.fill(topic, [500, 500, 0, 0])
    lw.observe(topic)
    lw.publish(assigned(group, "m0", {topic: (0, 1)}))
    lw.publish(assigned(group, "m1", {topic: (2, 3)}))
    lw.commit(group, topic, {0: 1, 1: 1, 2: 0, 3: 0})

    def trigger() -> object:
        lw.sample(topic)
        time.sleep(0.3)
        return lw.latest("triggers").get(("skew", group))

    found = lw.eventually(trigger)
    members = found["evidence"]["members"]
    assert {name: load["backlog"] for name, load in members.items()} == {"m0": 998, "m1": 0}
    assert found["at"] - found["since"] >= 1000
    for word in ("topic", "offsets"):
        lw.publish(Tombstone((word, topic)))
    lw.eventually(
        lambda: ("skew", group) not in lw.latest("triggers") and not lag_of(lw, group, topic)
    )


def test_garbage_in_the_offsets_topic_is_kept_and_counted_and_a_restart_reads_no_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic, group = "work", "readers"
    with Cluster.start(1) as own:
        lw = Installation(bootstrap=own.bootstrap, prefix="garbage.", replication=1)
        lw.create(topic)
        lw.fill(topic, [10])
        lw.commit(group, topic, {0: 4})
        settings = PipelineSettings(bootstrap=lw.bootstrap, checkpoint=tmp_path, prefix=lw.prefix)
        running = Running(spark, settings)
        lw.garbage(OFFSETS, b"\x00\x01garbage", b"zz")
        lw.garbage(lw.topics.metadata, b'["offsets","x"]', b"{")
        letters = lw.eventually(lambda: len(found := lw.latest("dead-letters")) >= 2 and found)
        lw.observe(topic)
        lw.fill(topic, [5])
        lw.sample(topic)
        assert lw.eventually(lambda: lag_of(lw, group, topic))["lag"] == [11]
        lw.eventually(
            lambda: (
                running.counted("rejected") == {"malformed key": 1, "malformed levelwind record": 1}
            )
        )
        lw.eventually(lambda: done(running))
        running.query.stop()
        again = Running(spark, settings)
        lw.eventually(lambda: NothingToRead() in again.news)
        assert again.counted("rejected") == {}
        again.query.stop()
    by_topic = {key[0]: value for key, value in letters.items()}
    assert by_topic[OFFSETS]["reason"] == "malformed key"
    assert base64.b64decode(by_topic[OFFSETS]["key"]) == b"\x00\x01garbage"
    assert by_topic[lw.topics.metadata]["reason"].startswith("malformed levelwind record: not JSON")


def test_an_unreachable_cluster_ends_the_start(spark: SparkSession, tmp_path: Path) -> None:
    settings = PipelineSettings(
        bootstrap="127.0.0.1:9",
        checkpoint=tmp_path,
        start_timeout=1000,
    )
    with pytest.raises(ClusterUnreachable):
        query.start(spark, settings)


def test_missing_topics_end_the_start_with_their_names(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    settings = PipelineSettings(
        bootstrap=cluster.bootstrap, checkpoint=tmp_path, prefix="nobodys.", start_timeout=1000
    )
    with pytest.raises(TopicMissing, match=r"nobodys\.metadata"):
        query.start(spark, settings)


@pytest.mark.parametrize("executors_see_it", [True, False], ids=["path", "uri"])
def test_a_query_that_is_stopped_again_and_again_ends_where_an_unbroken_one_does(
    spark: SparkSession,
    cluster: Cluster,
    fresh: Callable[[str], str],
    tmp_path: Path,
    executors_see_it: bool,
) -> None:
    topic, group = fresh("work"), fresh("readers")
    whole, broken = (
        Installation(bootstrap=cluster.bootstrap, prefix=fresh(name) + ".")
        for name in ("whole", "broken")
    )
    whole.create(topic, 3)
    for step in range(1, 60):
        whole.commit(group, topic, {0: step, 1: 2 * step, 2: 40})
    begin = now()
    for lw in (whole, broken):
        write_input(lw, topic, group, begin)
    checkpoints = {
        lw.prefix: tmp_path / lw.prefix if executors_see_it else mount(spark, tmp_path / lw.prefix)
        for lw in (whole, broken)
    }

    def settings(lw: Installation) -> PipelineSettings:
        return PipelineSettings(
            bootstrap=lw.bootstrap,
            checkpoint=checkpoints[lw.prefix],
            prefix=lw.prefix,
            skew_duration=5000,
            max_offsets_per_trigger=40,
        )

    def outcome(lw: Installation) -> str:
        """The lag in full, and the keys of the active triggers.

        A trigger's figures are those of the sample that raised it, which depends on the batches.
        """
        lag = {repr(key): value for key, value in lw.latest("lag").items() if group in key}
        active = sorted(repr(key) for key in lw.latest("triggers") if group in key)
        return json.dumps([lag, active], sort_keys=True).replace(lw.prefix, "")

    unbroken = Running(spark, settings(whole))
    whole.eventually(lambda: done(unbroken))
    # Samples wait for the commits that they count, however late the batches bring those.
    assert "('skew'" in outcome(whole)
    change_racks(whole, topic, begin)
    whole.eventually(lambda: "('racks'" in outcome(whole))
    unbroken.query.stop()

    def stopped_after(seconds: float) -> None:
        stopped = Running(spark, settings(broken))
        time.sleep(seconds)
        stopped.query.stop()
        assert stopped.set_aside == []

    stopped_after(6.0)
    stopped_after(1.5)
    middle = Running(spark, settings(broken))
    broken.eventually(lambda: done(middle))
    middle.query.stop()
    change_racks(broken, topic, begin)
    stopped_after(0.4)  # within the first batch
    stopped_after(2.5)
    last = Running(spark, settings(broken))
    broken.eventually(lambda: done(last))
    last.query.stop()
    assert outcome(broken) == outcome(whole)
    assert '"committed": [59, 118, 40]' in outcome(whole)
    assert "('racks'" in outcome(whole)
    assert "('skew'" in outcome(whole)


def done(running: Running) -> bool:
    """Whether the query has read all its input; a restarted one may find nothing left."""
    assert running.query.isActive, running.query.exception()
    return bool(running.query.status["message"] == "Waiting for data to arrive")


def write_input(lw: Installation, topic: str, group: str, begin: int) -> None:
    """Write the input of an installation; `begin` is the time of its first record."""
    publish_layout(lw, topic, begin, (("a",), ("b",), ("c",)))
    lw.publish(assigned(group, "m0", {topic: (0, 1)}, rack="a"), at=begin)
    lw.publish(assigned(group, "m1", {topic: (2,)}), at=begin)
    topic_id, cut = id_of(lw, topic), lw.ends(OFFSETS)
    for second in range(1, 40):
        ends = (1000, 1000, 1000) if second < 6 else (2500, 4000, 41)
        at = begin + second * 1000
        sampled = records.offsets(topic, ends, at=at, topic_id=topic_id, offsets_topic_ends=cut)
        lw.publish(sampled, at=at)


def change_racks(lw: Installation, topic: str, begin: int) -> None:
    """Move a partition, once the group is known: the first layout of a group is its baseline."""
    publish_layout(lw, topic, begin + 60_000, (("a",), ("b",), ("a",)))


def publish_layout(
    lw: Installation, topic: str, at: int, racks: tuple[tuple[str, ...], ...]
) -> None:
    lw.publish(records.topic(topic, racks, at=at, topic_id=id_of(lw, topic)), at=at)


def id_of(lw: Installation, topic: str) -> str:
    return str(lw._described(topic).topic_id).translate(str.maketrans("+/", "-_"))


def assigned(
    group: str, instance: str, partitions: Mapping[str, tuple[int, ...]], rack: str | None = None
) -> MemberAssignment:
    return records.assignment(instance, partitions, group=group, incarnation="x", rack=rack)
