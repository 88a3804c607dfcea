"""The query on a broker whose offsets topic holds nothing else: dead letters and restarts."""

import base64
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.sql import SparkSession

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC as OFFSETS
from levelwind.daemon.cli.main import main
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.decoding import ingest
from levelwind.streaming.rules.skew import SkewRule
from levelwind.streaming.spark import checkpoint, cluster_metadata
from levelwind.streaming.spark import query as pipeline
from levelwind.streaming.spark.batches.progress import NothingToRead
from levelwind.streaming.spark.settings import PipelineSettings
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles
from levelwind_testing import records
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.pipeline.mounted_files import mount
from levelwind_testing.pipeline.running_query import RunningQuery
from levelwind_testing.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def lone() -> Iterator[Cluster]:
    """A broker whose offsets topic holds what this module writes and nothing else."""
    with Cluster.start(1, settings=PATIENT) as cluster:
        yield cluster


def installed(lone: Cluster, topic: str) -> Installation:
    """An installation of its own that has observed a topic of ten records in one partition."""
    lw = Installation(bootstrap=lone.bootstrap, prefix=f"{topic}-lw.", replication=1)
    lw.create(topic)
    lw.fill(topic, [10])
    lw.observe(topic)
    return lw


def settings_of(lw: Installation, directory: Path) -> PipelineSettings:
    """The settings of an installation's pipeline, whose batches follow one another."""
    return PipelineSettings(
        bootstrap=lw.bootstrap, checkpoint=directory, prefix=lw.prefix, trigger_interval=0
    )


def of_version(newest_commit: int) -> SimpleNamespace:
    """The ingest module of a release that knows commits up to a version."""

    def pack_batch(records: Any, topics: Any, buckets: Any) -> Any:
        # In Spark's worker, which outlives the query.
        from levelwind.streaming.decoding import ingest as worker_ingest  # noqa: PLC0415
        from levelwind.streaming.decoding import offset_commits  # noqa: PLC0415

        newest = offset_commits.NEWEST_VERSION
        offset_commits.NEWEST_VERSION = newest_commit
        try:
            return worker_ingest.pack_batch(records, topics, buckets)
        finally:
            offset_commits.NEWEST_VERSION = newest

    release = {name: getattr(ingest, name) for name in ("read_batch", "REASONS")}
    return SimpleNamespace(pack_batch=pack_batch, **release)


def test_a_dead_letter_that_an_upgrade_can_read_counts_once_an_operator_retries_it(
    spark: SparkSession, lone: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first test on this broker: the older release can read no commit of the others."""
    topic = "letters"
    lw = Installation(bootstrap=lone.bootstrap, prefix="letters-lw.", replication=1)
    lw.create(topic, 2)
    lw.fill(topic, [10, 10])
    lw.observe(topic)
    settings = settings_of(lw, tmp_path)

    def command(*options: str) -> list[dict[str, Any]]:
        prefix = ("--bootstrap", lw.bootstrap, "--set", f"prefix={lw.prefix}")
        arguments = ["dead-letters", *prefix, "--format", "json", *options]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    monkeypatch.setattr(pipeline, "ingest", of_version(3))
    old = RunningQuery(spark, settings)
    lw.commit("g", topic, {0: 4, 1: 5})
    lw.commit("h", topic, {0: 1})
    wait_until("dead letters", lambda: len(lw.latest("dead-letters")) == 3)
    assert command("--topic", "nothing") == []
    lw.commit("h", topic, {0: 2})  # makes the former outdated
    wait_until("dead letter", lambda: len(lw.latest("dead-letters")) == 4)
    wait_until("end of the input", lambda: old.is_done)
    known = old.query.lastProgress["batchId"]
    lw.sample(topic)
    wait_until("batch with the sample", lambda: old.query.lastProgress["batchId"] > known)
    assert not lw.lag_of("g", topic)
    old.query.stop()

    monkeypatch.setattr(pipeline, "ingest", of_version(4))
    new = RunningQuery(spark, settings)
    listed = command()
    assert [letter["reason"] for letter in listed] == ["unknown commit version"] * 4
    assert sorted(letter["verdict"] for letter in listed) == [
        "outdated",
        "readable",
        "readable",
        "readable",
    ]
    command("--retry")
    wait_until("end of the dead letters", lambda: not lw.latest("dead-letters"))
    lw.sample(topic)
    found = wait_until("lag", lambda: lw.lag_of("g", topic))
    assert (found["committed"], found["lag"]) == ([4, 5], [6, 5])
    assert wait_until("lag", lambda: lw.lag_of("h", topic))["committed"] == [2, -1]
    assert command("--retry") == []
    lw.commit("g", topic, {0: 6})
    wait_until("commit", lambda: lw.lag_of("g", topic)["committed"] == [6, 5])
    assert (old.set_aside, new.set_aside) == ([], [])
    new.query.stop()


def test_much_committed_is_the_work_of_two_tasks_and_a_state_keeps_its_number(
    spark: SparkSession, lone: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = "busy", "writers"
    lw = installed(lone, topic)
    commits = itertools.count(1)

    def parallelism(directory: str, busy: float) -> tuple[int | None, bool]:
        """The tasks of a query whose lag is right, where so many commits a second are much.

        With them, whether its batches shuffle rows.
        """
        monkeypatch.setattr(pipeline, "BUSY", busy)
        files = LocalFiles(tmp_path / directory)
        settings = settings_of(lw, files.directory)
        running = RunningQuery(spark, settings)
        committed = next(commits)
        lw.commit(group, topic, {0: committed})
        lw.sample(topic)
        wait_until("lag", lambda: lw.lag_of(group, topic).get("committed") == [committed])
        shuffles = "Exchange" in running.executed_plan
        running.query.stop()
        assert running.set_aside == []
        return checkpoint.parallelism(files), shuffles

    # A broker of tests has some commits a minute.
    assert parallelism("quiet", busy=500) == (1, False)
    assert parallelism("quiet", busy=0.01) == (1, False)
    assert parallelism("much", busy=0.01) == (2, True)
    assert parallelism("much", busy=500) == (2, True)


def test_a_pipeline_with_more_unread_than_tombstones_live_builds_its_state_anew(
    spark: SparkSession, lone: Cluster, tmp_path: Path
) -> None:
    topic, group = "away", "away-readers"
    lw = installed(lone, topic)
    lw.commit(group, topic, {0: 4})
    settings = settings_of(lw, tmp_path)

    def write_aged(partition: int, *hours: int) -> None:
        """Write records of some age into a partition that has no others."""
        for age in hours:
            at = now() - age * 3_600_000
            lw.producer.produce(lw.topics.assignments, None, b'["x"]', partition, timestamp=at)
        lw.producer.flush()

    shorten_life_of_tombstones(lw, lw.topics.replays)  # which has none
    write_aged(1, 27)
    before = RunningQuery(spark, settings)
    lw.sample(topic)
    wait_until("lag", lambda: lw.lag_of(group, topic))
    wait_until("end of the input", lambda: before.is_done)
    before.query.stop()
    make_older(tmp_path, hours=27)
    write_aged(0, 17, 0)
    again = RunningQuery(spark, settings)
    wait_until("batch with the aged records", lambda: again.batches)
    wait_until("end of the input", lambda: again.is_done)
    again.query.stop()
    assert again.set_aside == [], "it has read all that is old"
    # As compaction leaves it: the first record of the last hours lies beyond what has been read.
    write_aged(1, 26, 0)
    copied = tmp_path.with_name(f"{tmp_path.name}-copied")
    shutil.copytree(tmp_path, copied)
    soon = RunningQuery(spark, replace(settings, checkpoint=copied))
    soon.query.stop()
    assert soon.set_aside == [], "a minute ago it had read all there was"
    make_older(tmp_path, hours=0, batch_hours=19)
    after = RunningQuery(spark, settings)
    (former,) = after.set_aside
    assert f"offset 1 of partition 1 of {lw.topics.assignments}, and 2 is" in former.reason
    lw.commit(group, topic, {0: 6})
    lw.sample(topic)
    wait_until("lag", lambda: lw.lag_of(group, topic).get("committed") == [6])
    wait_until("end of the input", lambda: after.is_done)
    after.query.stop()
    last = RunningQuery(spark, settings)
    last.query.stop()
    assert last.set_aside == []


def test_a_pipeline_whose_topic_was_made_again_builds_its_state_anew(
    spark: SparkSession, lone: Cluster, tmp_path: Path
) -> None:
    """Else a trigger that is active would not be published again, and its group not be planned."""
    topic, group = "anew", "anew-readers"
    lw = installed(lone, topic)
    lw.commit(group, topic, {0: 4})
    lw.sample(topic)
    settings = settings_of(lw, tmp_path)
    before = RunningQuery(spark, settings)
    wait_until("lag", lambda: lw.lag_of(group, topic))
    wait_until("end of the input", lambda: before.is_done)
    before.query.stop()
    again = NewTopic(lw.topics.triggers, 4, 1)
    lw.admin.delete_topics([again.topic])[again.topic].result(60)
    create_topics({"bootstrap.servers": lw.bootstrap}, again)
    after = RunningQuery(spark, settings)
    (former,) = after.set_aside
    assert former.reason == f"topic {again.topic} was deleted, and made again, since"
    lw.commit(group, topic, {0: 6})
    lw.sample(topic)
    wait_until("lag", lambda: lw.lag_of(group, topic).get("committed") == [6])
    after.query.stop()
    last = RunningQuery(spark, settings)
    last.query.stop()
    assert last.set_aside == []


def test_the_first_offset_since_a_time_is_known_where_compaction_may_pass_it(
    spark: SparkSession, lone: Cluster, tmp_path: Path
) -> None:
    topic, hour, present = "aged", 3_600_000, now()
    lw = Installation(bootstrap=lone.bootstrap, prefix="aged-lw.", replication=1)
    lw.create(topic, 3)
    open_one = Producer({"bootstrap.servers": lone.bootstrap, "transactional.id": "aged"})
    open_one.init_transactions(60)
    open_one.begin_transaction()
    for partition, producer, ages in (
        (0, lw.producer, (3, 2, 0, 3)),
        (1, lw.producer, (3, 2)),  # nothing since
        (2, lw.producer, (3,)),
        (2, open_one, (0,)),  # nothing below an open transaction
    ):
        for age in ages:
            at = present - age * hour
            producer.produce(topic, b"v", b"k", partition, timestamp=at)
            producer.flush()
    partitions = {topic: 4}  # one more than there are, so that nobody answers for it
    settings = PipelineSettings(bootstrap=lone.bootstrap, checkpoint=tmp_path, start_timeout=60_000)
    found = cluster_metadata.first_offsets(spark, settings, partitions, present - hour)
    assert found == {topic: {0: 2}}
    open_one.abort_transaction(60)


def shorten_life_of_tombstones(lw: Installation, topic: str) -> None:
    """Have a topic keep its tombstones for a millisecond."""
    entry = ConfigEntry("delete.retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    lw.admin.incremental_alter_configs([resource])[resource].result()


def make_older(directory: Path, hours: int, batch_hours: int = 27) -> None:
    """Have a checkpoint be made some hours earlier, and its batches be planned so."""
    marker = directory / checkpoint.MARKER
    shape = json.loads(marker.read_text(encoding="utf-8"))
    shape[checkpoint.BEGUN_FIELD] -= hours * 3_600_000
    marker.write_text(json.dumps(shape), encoding="utf-8")
    for entry in (directory / "query" / "offsets").glob("[0-9]*"):
        version, line, offsets = entry.read_text(encoding="utf-8").split("\n")
        batch = json.loads(line)
        batch["batchTimestampMs"] -= batch_hours * 3_600_000
        entry.write_text("\n".join((version, json.dumps(batch), offsets)), encoding="utf-8")
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def test_garbage_in_the_offsets_topic_is_kept_and_counted_and_a_restart_reads_no_more(
    spark: SparkSession, lone: Cluster, tmp_path: Path
) -> None:
    topic, group = "work", "readers"
    lw = Installation(bootstrap=lone.bootstrap, prefix="garbage.", replication=1)
    lw.create(topic)
    lw.fill(topic, [10])
    lw.commit(group, topic, {0: 4})
    settings = PipelineSettings(
        bootstrap=lw.bootstrap,
        checkpoint=tmp_path,
        prefix=lw.prefix,
        trigger_interval=0,
        parallelism=2,
    )
    running = RunningQuery(spark, settings)
    lw.garbage(OFFSETS, b"\x00\x01garbage", b"zz")
    lw.garbage(lw.topics.metadata, b'["offsets","x"]', b"{")
    letters = wait_until(
        "dead letters", lambda: len(found := lw.latest("dead-letters")) >= 2 and found
    )
    lw.observe(topic)
    lw.fill(topic, [5])
    lw.sample(topic)
    assert wait_until("lag", lambda: lw.lag_of(group, topic))["lag"] == [11]
    wait_until(
        "count of what was rejected",
        lambda: (
            running.counted("rejected") == {"malformed key": 1, "malformed levelwind record": 1}
        ),
    )
    wait_until("end of the input", lambda: running.is_done)
    running.query.stop()
    again = RunningQuery(spark, settings)
    wait_until("look that finds nothing", lambda: NothingToRead() in again.news)
    assert again.counted("rejected") == {}
    again.query.stop()
    by_topic = {key[0]: value for key, value in letters.items()}
    assert by_topic[OFFSETS]["reason"] == "malformed key"
    assert base64.b64decode(by_topic[OFFSETS]["key"]) == b"\x00\x01garbage"
    assert by_topic[lw.topics.metadata]["reason"].startswith("malformed levelwind record: not JSON")


@dataclass(frozen=True, slots=True)
class Unbroken:
    """An input, and what an undisturbed query publishes of it."""

    bootstrap: str
    topic: str
    group: str
    begin: int
    """The time of the first record."""
    outcome: str

    def installation(self, prefix: str) -> Installation:
        """An installation with the input, but for the racks that change in the end."""
        lw = Installation(bootstrap=self.bootstrap, prefix=prefix, replication=1)
        write_input(lw, self.topic, self.group, self.begin)
        return lw

    def settings(self, lw: Installation, checkpoint: Path | str) -> PipelineSettings:
        return PipelineSettings(
            bootstrap=lw.bootstrap,
            checkpoint=checkpoint,
            prefix=lw.prefix,
            skew=SkewRule(duration_ms=5000),
            max_offsets_per_trigger=40,
            trigger_interval=0,
            parallelism=2,
        )

    def outcome_of(self, lw: Installation) -> str:
        """The lag in full, and the keys of the active triggers.

        A trigger's figures are those of the sample that raised it, which depends on the batches.
        """
        lag = {repr(key): value for key, value in lw.latest("lag").items() if self.group in key}
        active = sorted(repr(key) for key in lw.latest("triggers") if self.group in key)
        return json.dumps([lag, active], sort_keys=True).replace(lw.prefix, "")


@pytest.fixture(scope="module")
def unbroken(
    spark: SparkSession, lone: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Unbroken:
    topic, group = "interrupted", "interrupted-readers"
    client = Installation(bootstrap=lone.bootstrap, prefix="input.", replication=1)
    client.create(topic, 3)
    for step in range(1, 60):
        client.commit(group, topic, {0: step, 1: 2 * step, 2: 40})
    found = Unbroken(lone.bootstrap, topic, group, now(), "")
    lw = found.installation("whole.")
    running = RunningQuery(spark, found.settings(lw, tmp_path_factory.mktemp("whole")))
    wait_until("end of the input", lambda: running.is_done)
    # Samples wait for the commits that they count, however late the batches bring those.
    assert "('skew'" in found.outcome_of(lw)
    change_racks(lw, topic, found.begin)
    wait_until("trigger", lambda: "('racks'" in found.outcome_of(lw))
    running.query.stop()
    return replace(found, outcome=found.outcome_of(lw))


@pytest.mark.parametrize(
    ("executors_see_it", "often"),
    [(True, True), (False, False), pytest.param(False, True, marks=pytest.mark.rare)],
    ids=["path", "uri", "uri, as often"],
)
def test_a_query_that_is_stopped_again_and_again_ends_where_an_unbroken_one_does(
    spark: SparkSession,
    unbroken: Unbroken,
    fresh: Callable[[str], str],
    tmp_path: Path,
    executors_see_it: bool,
    often: bool,
) -> None:
    broken = unbroken.installation(fresh("broken") + ".")
    settings = unbroken.settings(broken, tmp_path if executors_see_it else mount(spark, tmp_path))

    def stopped_once(what: str, moment: Callable[[], bool]) -> None:
        stopped = RunningQuery(spark, settings)
        wait_until(what, moment, pause=0.01)
        stopped.query.stop()
        assert stopped.set_aside == []

    def to_the_end() -> None:
        whole = RunningQuery(spark, settings)
        wait_until("end of the input", lambda: whole.is_done)
        whole.query.stop()
        assert whole.set_aside == []

    def is_within(batch: int) -> bool:
        """Whether the query works on a batch, this one or a later one, or has done this one.

        A batch may be over before it was seen to begin, and the next one need not come.
        """
        committed = newest(tmp_path, "commits")
        return committed >= batch or newest(tmp_path, "offsets") >= max(batch, committed + 1)

    stopped_once("third batch", lambda: is_within(2))
    if often:
        later = newest(tmp_path, "offsets") + 1
        stopped_once("batch after the one that was begun before", lambda: is_within(later))
    to_the_end()
    change_racks(broken, unbroken.topic, unbroken.begin)
    if often:
        next_one = newest(tmp_path, "offsets") + 1
        stopped_once("first batch of a start", lambda: is_within(next_one))
    to_the_end()
    found = unbroken.outcome_of(broken)
    assert found == unbroken.outcome
    assert '"committed": [59, 118, 40]' in found
    assert "('racks'" in found
    assert "('skew'" in found


def newest(checkpoint: Path, log: str) -> int:
    """The newest batch in one of the logs of a checkpoint: `offsets` or `commits`."""
    files = checkpoint.glob(f"query*/{log}/*")
    return max((int(file.name) for file in files if file.name.isdigit()), default=-1)


def write_input(lw: Installation, topic: str, group: str, begin: int) -> None:
    """Write the input of an installation; `begin` is the time of its first record."""
    publish_layout(lw, topic, begin, (("a",), ("b",), ("c",)))
    for instance, partitions, rack in (("m0", (0, 1), "a"), ("m1", (2,), None)):
        member = records.assignment(
            instance, {topic: partitions}, group=group, incarnation="x", rack=rack
        )
        lw.publish(member, at=begin)
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
