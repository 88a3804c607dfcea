"""The query on real brokers: commits become lag and triggers, owners those of their groups."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace
from pyspark.sql import SparkSession

from levelwind.assignors.protocol.records import MemberAssignment, PlannedTopic, Tombstone
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC as OFFSETS
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.errors import ClusterUnreachable, TopicMissing
from levelwind.streaming.rules.skew import SkewRule
from levelwind.streaming.spark import cluster_metadata, query, session
from levelwind.streaming.spark.settings import WORKER_DAEMON, PipelineSettings
from levelwind_testing import records
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.pipeline.running_query import RunningQuery
from levelwind_testing.processes.processes import usage
from levelwind_testing.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


MANY = 30_000
"""Partitions of a topic whose lag is no small record."""


@pytest.fixture(scope="module")
def lw(cluster: Cluster) -> Installation:
    return Installation(bootstrap=cluster.bootstrap, prefix=f"lw-{now()}.")


@pytest.fixture(scope="module")
def running(
    spark: SparkSession, lw: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningQuery]:
    settings = PipelineSettings(
        bootstrap=lw.bootstrap,
        checkpoint=tmp_path_factory.mktemp("checkpoint"),
        prefix=lw.prefix,
        skew=SkewRule(duration_ms=1000),
        parallelism=2,
    )
    running = RunningQuery(spark, settings)
    yield running
    running.query.stop()


def topic_and_group_with_lag(lw: Installation, fresh: Callable[[str], str]) -> tuple[str, str]:
    topic, group = fresh("work"), fresh("readers")
    lw.create(topic)
    lw.fill(topic, [9])
    lw.observe(topic)
    lw.commit(group, topic, {0: 1})
    lw.sample(topic)
    wait_until("lag", lambda: lw.lag_of(group, topic))
    return topic, group


def test_the_query_keeps_to_the_cadence_from_its_first_batch_on(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
) -> None:
    topic, group = topic_and_group_with_lag(lw, fresh)
    executor = running.query._jsq.streamingQuery().triggerExecutor()
    # The listener hears of a batch after its records are written.
    wait_until("clock of ours", lambda: "Proxy" in executor.clock().getClass().getName())
    batches = len(running.batches)
    lw.commit(group, topic, {0: 2})
    wait_until("batch by that clock", lambda: len(running.batches) > batches)
    wait_until("lag", lambda: lw.lag_of(group, topic)["committed"] == [2])


def test_the_lag_of_a_real_consumer_is_its_true_lag(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
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
    found = wait_until(
        "true lag",
        lambda: (
            (now := lw.lag_of(group, topic))
            and now["at"] == sampled.at
            and now["lag"] == truth
            and now
        ),
    )
    assert sum(truth) == 90
    assert found["id"] == sampled.id
    assert found["committed"] == [max(offset, -1) for offset in offsets]
    assert found["end"] == [100, 50, 0]
    consumer.close()


def test_a_plan_that_was_optimized_once_is_not_improved_by_more_rounds(
    spark: SparkSession, lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
) -> None:
    topic_and_group_with_lag(lw, fresh)
    rounds = "spark.sql.optimizer.maxIterations"
    assert spark.conf.get(rounds) == "1"
    plan = running.execution.optimizedPlan()
    try:
        spark.conf.set(rounds, "100")
        optimizer = spark._jsparkSession.sessionState().optimizer()
        assert optimizer.execute(plan).fastEquals(plan)
    finally:
        spark.conf.set(rounds, "1")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_workers_that_have_kept_states_have_not_imported_pandas(
    spark: SparkSession, lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
) -> None:
    topic_and_group_with_lag(lw, fresh)
    jvm = session.jvm(spark)
    assert jvm is not None
    processes = usage(jvm.pid, lambda _, process: process.command)
    mapped = [
        Path(f"/proc/{pid}/maps").read_text()
        for pid, process in processes.items()
        if f"-m {WORKER_DAEMON}" in process.name
    ]
    assert len(mapped) > 1, "the daemon and what is forked from it"
    assert all("pyarrow" in files for files in mapped)
    assert not any("pandas" in files for files in mapped)


def test_aborted_transactional_commits_do_not_count(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
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
    found = wait_until(
        "lag of the sample",
        lambda: (now := lw.lag_of(group, topic)) and now["at"] == sampled.at and now,
    )
    assert (found["committed"], found["lag"]) == ([30], [70])


def test_a_topic_that_is_seen_later_than_its_plan_has_lag(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("later"), fresh("planned")
    planned = PlannedTopic(id=records.TOPIC_ID, partitions=1)
    lw.publish(replace(records.plan(group), topics={topic: planned, fresh("never"): planned}))
    topic_and_group_with_lag(lw, fresh)  # the plan is in a batch before what follows
    lw.create(topic)
    lw.fill(topic, [9])
    lw.observe(topic)
    lw.sample(topic)
    wait_until("lag", lambda: lw.lag_of(group, topic))


def test_a_reassignment_to_other_racks_is_a_trigger(
    lw: Installation,
    running: RunningQuery,
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
    wait_until("lag", lambda: lw.lag_of(group, topic))
    assert ("racks", group) not in lw.latest("triggers")
    reassign(topic, {1: [1, 3]})
    after = lw.observe(topic)
    assert before.racks != after.racks
    trigger = wait_until("trigger", lambda: lw.latest("triggers").get(("racks", group)))
    assert trigger["evidence"] == {
        "topics": {topic: {"1": {"from": list(before.racks[1]), "to": list(after.racks[1])}}},
        "partitions": 1,
    }
    assert trigger["since"] == after.at


def test_lasting_skew_is_a_trigger_and_deleting_the_topic_ends_it(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
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
        return lw.latest("triggers").get(("skew", group))

    found = wait_until("trigger", trigger, pause=0.3)
    members = found["evidence"]["members"]
    assert {name: load["backlog"] for name, load in members.items()} == {"m0": 998, "m1": 0}
    assert found["at"] - found["since"] >= 1000
    for word in ("topic", "offsets"):
        lw.publish(Tombstone((word, topic)))
    wait_until(
        "end of the trigger and of the lag",
        lambda: ("skew", group) not in lw.latest("triggers") and not lw.lag_of(group, topic),
    )


def test_owners_and_racks_of_a_kip_848_group_come_and_go_with_its_members(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("work"), fresh("consumers")
    lw.create(topic, 2, replicas=[[1, 2], [2, 3]])
    lw.fill(topic, [10, 10])
    layout = lw.observe(topic)

    def member(rack: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": lw.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        return consumer

    first = member("a")
    read = first.consume(20, timeout=60)
    assert len(read) == 20
    first.commit(asynchronous=False)

    def lag_with_owners(*members: Consumer) -> dict[str, Any]:
        """The lag record, once these members and no other own partitions, and all was committed."""
        names = {member.memberid() for member in members}

        def answer() -> Any:
            for consumer in members:
                consumer.poll(0.1)
            lw.sample(topic)
            found = lw.lag_of(group, topic)
            return set(owners(found)) == names and found["lag"] == [0, 0] and found

        return dict(wait_until("lag with these owners", answer, pause=0.3))

    alone = lag_with_owners(first)
    assert alone["local"] == ["a" in racks for racks in layout.racks]
    second = member("c")
    shared = lag_with_owners(first, second)
    racks = {first.memberid(): "a", second.memberid(): "c"}
    assert shared["local"] == [
        racks[str(owner)] in replicas
        for owner, replicas in zip(owners(shared), layout.racks, strict=True)
    ]
    first.close()
    lag_with_owners(second)
    second.close()
    wait_until(
        "lag without owners",
        lambda: (lw.sample(topic), "owner" not in lw.lag_of(group, topic))[1],
        pause=0.3,
    )
    assert lw.lag_of(group, topic)["committed"] == [10, 10], "its offsets are still there"
    wait_until(
        "deletion of the group",
        lambda: lw.admin.delete_consumer_groups([group])[group].exception() is None,
    )
    wait_until("end of the lag", lambda: not lw.lag_of(group, topic))


def test_an_unreachable_cluster_ends_the_start(spark: SparkSession, tmp_path: Path) -> None:
    settings = PipelineSettings(
        bootstrap="127.0.0.1:9",
        checkpoint=tmp_path,
        start_timeout=1000,
    )
    with pytest.raises(ClusterUnreachable):
        query.start(spark, settings)


def test_missing_topics_end_the_start_with_their_names(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count()
    jumping = SimpleNamespace(monotonic=lambda: 20.0 * next(looks), sleep=lambda _: None)
    monkeypatch.setattr(cluster_metadata, "time", jumping)
    settings = PipelineSettings(
        bootstrap=cluster.bootstrap, checkpoint=tmp_path, prefix="nobodys.", start_timeout=30_000
    )
    with pytest.raises(TopicMissing, match=r"nobodys\.metadata"):
        query.start(spark, settings)
    assert next(looks) == 3, "it looks again until its time is over"


def owners(found: dict[str, Any]) -> list[str | None]:
    return [None if number < 0 else found["members"][number] for number in found.get("owner", [])]


def assigned(
    group: str, instance: str, partitions: Mapping[str, tuple[int, ...]], rack: str | None = None
) -> MemberAssignment:
    return records.assignment(instance, partitions, group=group, incarnation="x", rack=rack)


def test_lag_of_a_topic_of_many_partitions_is_one_record(
    lw: Installation, running: RunningQuery, fresh: Callable[[str], str]
) -> None:
    """More than the 1 MiB that Kafka takes of a record by default."""
    topic, group = fresh("wide"), fresh("readers")
    lw.create(topic)
    lw.fill(topic, [10])
    seen, ends = lw.observe(topic), lw.sample(topic)
    ones = ((1,),) * MANY
    layout = {"leader": (1,) * MANY, "replicas": ones, "isr": ones, "racks": (("a",),) * MANY}
    lw.publish(replace(seen, at=now(), **layout))
    lw.commit(group, topic, {0: 4})
    offsets = {"begin": (0,) * MANY, "stable": (10,) * MANY, "high": (10,) * MANY}
    at = now()
    lw.publish(
        replace(
            ends, at=at, data_end=None, gaps=None, offsets_topic_ends=lw.ends(OFFSETS), **offsets
        )
    )
    found = wait_until(
        "lag", lambda: (lag := lw.lag_of(group, topic)) and len(lag["lag"]) == MANY and lag
    )
    assert found["lag"][0] == 6
    assert len(json.dumps(found)) > 2**20
    assert running.query.isActive


def test_each_partition_keeps_its_consumer_however_many_there_are(
    spark: SparkSession, lw: Installation, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    """Spark keeps 64 by default; of more, each batch would make all of them anew."""
    topic, partitions = fresh("wide"), 70
    lw.create(topic, partitions)
    lw.fill(topic, [1] * partitions)
    settings = PipelineSettings(bootstrap=lw.bootstrap, checkpoint=tmp_path / "none")
    stream = query.source(spark, settings, {topic: partitions}, 1).writeStream.format("noop")
    reading = stream.option("checkpointLocation", str(tmp_path / "noop")).start()
    reading.processAllAvailable()
    kept = idle_consumers(spark)
    reading.stop()
    assert kept >= partitions


def idle_consumers(spark: SparkSession) -> int:
    """The consumers that Spark's JVM keeps for further batches."""
    jvm: Any = spark.sparkContext._jvm
    cache = jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$")
    pool = cache.getDeclaredField("consumerPool")
    pool.setAccessible(True)
    count: int = pool.get(None).numIdle()
    return count
