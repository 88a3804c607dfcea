"""The query where its topics take small messages: records are cut, or cost themselves alone."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from msgspec.structs import replace
from pyspark.sql import SparkSession

from levelwind.assignors.protocol.declared.declaration import canonical
from levelwind.assignors.protocol.records import (
    CutRecord,
    Key,
    LagRecord,
    Record,
    Tombstone,
    encode_key,
)
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC as OFFSETS
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.spark.failure_diagnosis import diagnose
from levelwind.streaming.spark.settings import PipelineSettings
from levelwind_testing import records
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.pipeline.running_query import RunningQuery
from levelwind_testing.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

PARTITIONS = 1_000
"""Partitions of the wide topic; only the first exists."""


def test_a_record_that_is_too_large_is_cut_to_what_its_topic_takes_now_or_costs_itself_alone(
    spark: SparkSession, cluster: Cluster, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    lw = Installation(bootstrap=cluster.bootstrap, prefix=fresh("limited") + ".")
    wide, narrow, group, other = fresh("wide"), fresh("narrow"), fresh("readers"), fresh("others")
    endless = fresh("n" * 330)  # a name that leaves no room for a shard
    for topic in (wide, narrow):
        lw.create(topic)
        lw.fill(topic, [100])
    lw.observe(narrow)
    seen = lw.observe(wide)
    ones = ((1,),) * PARTITIONS
    racks = (("a",),) * PARTITIONS
    lw.publish(
        replace(seen, at=now(), leader=(1,) * PARTITIONS, replicas=ones, isr=ones, racks=racks)
    )

    def commit(offset: int) -> None:
        """Commit in all groups, and sample the ends."""
        for name, topic in ((group, wide), (other, narrow), (endless, narrow)):
            lw.commit(name, topic, {0: offset})
        lw.sample(narrow)
        ends, cut = (100,) * PARTITIONS, lw.ends(OFFSETS)
        lw.publish(records.offsets(wide, ends, at=now(), topic_id=seen.id, offsets_topic_ends=cut))

    def await_lag(lag: int, messages: range) -> None:
        """Wait for the lag of both groups, that of the wide topic in so many messages."""
        for name, topic in ((other, narrow), (group, wide)):
            wait_until(
                f"lag of {topic}",
                lambda name=name, topic=topic: lag_of(lw, name, topic) == lag,
                shown=lambda name=name: [key for key in lw.latest("lag") if name in key],
            )

        def alive() -> list[tuple[Any, ...]]:
            return [key for key in lw.latest("lag") if key[1:3] == (group, wide)]

        # Tombstones of shards come behind the record that does not need them.
        wait_until("messages of its size", lambda: len(alive()) in messages, shown=alive)

    settings = PipelineSettings(
        bootstrap=lw.bootstrap,
        checkpoint=tmp_path,
        prefix=lw.prefix,
        trigger_interval=0,
        # A batch of several records that the brokers refuse is sent until its time is over.
        kafka={"delivery.timeout.ms": "15000", "request.timeout.ms": "10000"},
    )
    limit(lw, 20_000)
    query = RunningQuery(spark, settings)
    commit(10)
    await_lag(90, messages=range(3, 12))
    wait_until("lag", lambda: lag_of(lw, endless, narrow) == 90)

    limit(lw, 600)
    further = itertools.count(11)

    def ended() -> bool:
        commit(next(further))  # brokers hear of a limit one after another
        return not query.query.isActive

    wait_until("end of the query", ended, pause=1)
    failure = diagnose(str(query.query.exception()))
    assert "max.message.bytes" in failure.summary
    query = RunningQuery(spark, settings)
    commit(20)
    await_lag(80, messages=range(50, 600))
    cut = wait_until("head", lambda: head_of(lw, endless, narrow))
    assert cut.shards is None

    # A query that ends within a batch, and goes on with a larger limit, leaves shards behind.
    wait_until("end of the input", lambda: query.is_done)
    query.query.stop()
    limit(lw, 2**20)
    query = RunningQuery(spark, settings)
    commit(40)
    await_lag(60, messages=range(1, 2))
    wait_until("lag", lambda: lag_of(lw, endless, narrow) == 60)
    assert query.set_aside == []
    query.query.stop()


def limit(lw: Installation, most_bytes: int) -> None:
    """Set the largest message that the topic of the lag takes."""
    entry = ConfigEntry(
        "max.message.bytes", str(most_bytes), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, lw.topics.lag, incremental_configs=[entry])
    lw.admin.incremental_alter_configs([resource])[resource].result()


def known(lw: Installation, group: str, topic: str) -> Record | None:
    """The newest lag record of a group in a topic, as the daemon reads the log."""
    reader, newest = RepeatedRecords(), {}
    for key, value in lw.records("lag"):
        found: Any = reader.decode(
            "lag", encode_key(tuple(key)), None if value is None else canonical(value)
        )
        if found is not None and found.key == ("lag", group, topic):
            newest[found.key] = None if isinstance(found, Tombstone) else found
    key: Key = ("lag", group, topic)
    return newest.get(key)


def lag_of(lw: Installation, group: str, topic: str) -> int | None:
    """The lag of the first partition; None while it is not known."""
    record = known(lw, group, topic)
    return record.lag[0] if isinstance(record, LagRecord) else None


def head_of(lw: Installation, group: str, topic: str) -> CutRecord | None:
    """What stands for a lag record that has no room; None while there is one."""
    record = known(lw, group, topic)
    return record if isinstance(record, CutRecord) else None
