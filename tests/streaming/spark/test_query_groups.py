"""The query on real brokers: owners in KIP-848 groups, and dead letters that are retried."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from daemon.cli.main import main
from deploy.cluster import Cluster
from levelwind_testing.pipeline.installation import Installation, now
from streaming.decoding import ingest
from streaming.spark import query as pipeline
from streaming.spark.settings import PipelineSettings

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def lag_of(lw: Installation, group: str, topic: str) -> dict[str, Any]:
    return lw.latest("lag").get(("lag", group, topic)) or {}


def owners(found: dict[str, Any]) -> list[str | None]:
    return [None if number < 0 else found["members"][number] for number in found.get("owner", [])]


def test_owners_and_racks_of_a_kip_848_group_come_and_go_with_its_members(
    spark: SparkSession, cluster: Cluster, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group = fresh("work"), fresh("consumers")
    lw = Installation(bootstrap=cluster.bootstrap, prefix=fresh("kip848") + ".")
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

    query = pipeline.start(
        spark, PipelineSettings(bootstrap=lw.bootstrap, checkpoint=tmp_path, prefix=lw.prefix)
    )
    first = member("a")
    read = first.consume(20, timeout=60)
    assert len(read) == 20
    first.commit(asynchronous=False)

    def lag_with_owners(*members: Consumer) -> dict[str, Any]:
        """The lag record, once each of these members and no other owns a partition."""
        names = {member.memberid() for member in members}

        def answer() -> Any:
            for consumer in members:
                consumer.poll(0.1)
            lw.sample(topic)
            found = lag_of(lw, group, topic)
            return set(owners(found)) == names and found

        return dict(lw.eventually(answer))

    alone = lag_with_owners(first)
    assert alone["local"] == ["a" in racks for racks in layout.racks]
    assert alone["lag"] == [0, 0]
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
    lw.eventually(lambda: (lw.sample(topic), "owner" not in lag_of(lw, group, topic))[1])
    assert lag_of(lw, group, topic)["committed"] == [10, 10], "its offsets are still there"
    lw.eventually(lambda: lw.admin.delete_consumer_groups([group])[group].exception() is None)
    lw.eventually(lambda: not lag_of(lw, group, topic))
    query.stop()


def of_version(newest_commit: int) -> SimpleNamespace:
    """The ingest module of a release that knows commits up to a version."""

    def pack_batch(
        records: Any, topics: Any, buckets: Any
    ) -> Any:  # in Spark's worker, which outlives a query
        from streaming.decoding import ingest as worker_ingest  # noqa: PLC0415
        from streaming.decoding import offset_commits  # noqa: PLC0415

        offset_commits.NEWEST_VERSION = newest_commit
        return worker_ingest.pack_batch(records, topics, buckets)

    return SimpleNamespace(read_batch=ingest.read_batch, pack_batch=pack_batch)


def test_a_dead_letter_that_an_upgrade_can_read_counts_once_an_operator_retries_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "work"
    with Cluster.start(1) as own:
        lw = Installation(bootstrap=own.bootstrap, prefix=f"letters-{now()}.", replication=1)
        lw.create(topic, 2)
        lw.fill(topic, [10, 10])
        lw.observe(topic)
        settings = PipelineSettings(bootstrap=lw.bootstrap, checkpoint=tmp_path, prefix=lw.prefix)
        set_aside: list[Any] = []

        def started(version: int) -> Any:
            monkeypatch.setattr(pipeline, "ingest", of_version(version))
            return pipeline.start(spark, settings, on_set_aside=set_aside.append)

        def command(*options: str) -> list[dict[str, Any]]:
            arguments = [
                "dead-letters",
                "--bootstrap",
                lw.bootstrap,
                "--set",
                f"prefix={lw.prefix}",
            ]
            done = CliRunner().invoke(main, [*arguments, "--format", "json", *options])
            assert done.exit_code == 0, done.output
            return [json.loads(line) for line in done.stdout.splitlines()]

        old = started(3)
        lw.commit("g", topic, {0: 4, 1: 5})
        lw.commit("h", topic, {0: 1})
        lw.eventually(lambda: len(lw.latest("dead-letters")) == 3)
        assert command("--topic", "nothing") == []
        lw.commit("h", topic, {0: 2})  # makes the former outdated
        lw.eventually(lambda: len(lw.latest("dead-letters")) == 4)
        lw.sample(topic)
        assert not lag_of(lw, "g", topic)
        old.stop()

        new = started(4)
        listed = command()
        assert [letter["reason"] for letter in listed] == ["unknown commit version"] * 4
        assert sorted(letter["verdict"] for letter in listed) == [
            "outdated",
            "readable",
            "readable",
            "readable",
        ]
        command("--retry")
        lw.eventually(lambda: not lw.latest("dead-letters"))
        lw.sample(topic)
        found = lw.eventually(lambda: lag_of(lw, "g", topic))
        assert (found["committed"], found["lag"]) == ([4, 5], [6, 5])
        assert lw.eventually(lambda: lag_of(lw, "h", topic))["committed"] == [2, -1]
        assert command("--retry") == []
        lw.commit("g", topic, {0: 6})
        lw.eventually(lambda: lag_of(lw, "g", topic)["committed"] == [6, 5])
        assert set_aside == []
        new.stop()
