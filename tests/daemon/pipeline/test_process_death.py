"""Deaths of the pipeline's processes, one after the other, and what those that live hold open."""

import itertools
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from structlog.testing import capture_logs

from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.spark.settings import WORKER_DAEMON
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.processes.supervised_pipeline import Supervised
from levelwind_testing.processes.tree_watch import TreeWatch, held_by
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

# A JVM that compiles fast rather than well, since most of these runs are short.
QUICK = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
# Of the workers and what forks them: the JVM's command has that module's name in a setting.
WORKER = f"-m {WORKER_DAEMON}"
MAIN, JVM = "levelwind.daemon.pipeline.process", "SparkSubmit"

SETTLED_AFTER = 30
"""Batches after a start in which connections are opened and workers started."""
LOOKS, BATCHES_A_LOOK = 12, 8
"""A batch takes half a second of CPU here; `make soak-daemon` watches thousands."""
FEW = 25
"""More of a kind that is no leak in so few batches: pools of the JVM open up to fifteen on a busy
machine, and a file a task would be hundreds. `make soak-daemon` sees smaller leaks."""


@pytest.fixture(scope="module")
def lw(cluster: Cluster) -> Installation:
    lw = Installation(bootstrap=cluster.bootstrap, prefix=f"deaths-{now()}.")
    lw.create(topic_of(lw), 3)
    lw.observe(topic_of(lw))
    return lw


@pytest.fixture(scope="module")
def supervised(lw: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    settings = Settings(
        bootstrap=lw.bootstrap,
        prefix=lw.prefix,
        state_dir=tmp_path_factory.mktemp("state"),
        pipeline=PipelineSection(spark=QUICK, answer_timeout=20.0, trigger_interval=0.0),
    )
    with (
        tempfile.TemporaryDirectory() as temporary,  # of a short path, since it holds sockets
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", temporary)
        patch.setattr(tempfile, "tempdir", temporary)
        with Supervised(settings) as supervised:
            yield supervised
        assert list(Path(temporary).iterdir()) == []


def topic_of(lw: Installation) -> str:
    return f"{lw.prefix}work"


def lag_shows(lw: Installation, supervised: Supervised, offset: int) -> None:
    """Commit, and wait until the pipeline has published the lag of that commit."""
    group, topic = f"{lw.prefix}readers", topic_of(lw)
    lw.commit(group, topic, {0: offset})
    lw.sample(topic)
    key = ("lag", group, topic)
    supervised.wait_for(
        f"lag of the commit of {offset}",
        lambda: lw.latest("lag").get(key, {}).get("committed", [None])[0] == offset,
    )


def kill(supervised: Supervised, command: str, number: int = signal.SIGKILL) -> None:
    """Send a signal to all processes with this text in their command."""
    victims = supervised.pids(command)
    assert victims
    for pid in victims:
        os.kill(pid, number)


def next_attempt(
    supervised: Supervised,
    hurry: float = 0.0,
    since: Callable[[Supervised], bool] = lambda _: True,
) -> list[MutableMapping[str, Any]]:
    """Wait for the death of this attempt and the start of the next one; what was logged.

    Args:
        supervised: the pipeline.
        hurry: seconds by which the supervisor's clock goes ahead at each look, ten times a second.
            With 0.3 a heartbeat still comes every four of its seconds.
        since: whether the clock may begin to hurry. Whether a query is fed is asked of the
            brokers, and takes seconds of theirs.
    """

    def started() -> bool:
        names = [event["event"] for event in logged]
        if "pipeline.silent" not in names and since(supervised):
            supervised.ahead += hurry
        return "pipeline.starting" in names

    with capture_logs() as logged:
        supervised.wait_for("next attempt", started)
    names = [event["event"] for event in logged]
    assert names.index("pipeline.died") < names.index("pipeline.starting")
    return logged


def assert_one_temporary_directory(supervised: Supervised) -> None:
    """Assert that an attempt has all of its temporary files in the only directory that is left."""
    (directory,) = Path(tempfile.gettempdir()).iterdir()
    found = {path.name.partition("-")[0] for path in directory.iterdir()}
    assert {"artifacts", "blockmgr", "spark"} <= found
    (jvm,) = supervised.pids(JVM)
    maps = Path(f"/proc/{jvm}/maps").read_text()
    unpacked = re.findall(r"/\S+/lib(?:rocksdb|lz4)\S*", maps)
    assert {Path(library).parent for library in unpacked} == {directory}


def assert_ended(pids: Iterable[int]) -> None:
    """Assert that processes end, which takes a moment after they were killed."""
    wait_until("ends", lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def assert_noticed_at_once(logged: list[MutableMapping[str, Any]]) -> None:
    """Assert that a death was noticed as such, and not by the silence after it."""
    assert [event for event in logged if event["event"] == "pipeline.silent"] == []


def test_a_killed_jvm_is_a_dead_pipeline(lw: Installation, supervised: Supervised) -> None:
    lag_shows(lw, supervised, 1)
    former, since = supervised.processes(), len(supervised.events)
    kill(supervised, JVM)
    assert_noticed_at_once(next_attempt(supervised))
    # What the process has said may be read after its death was seen.
    failed = supervised.wait_for_event("pipeline.failed", since=since)
    assert (failed["cause"], failed["rebuild"]) == ("machine", False)
    assert "signal 9" in failed["error"]
    assert not former.keys() & supervised.processes().keys()
    lag_shows(lw, supervised, 2)
    assert supervised.named("pipeline.failed", since=since) == [failed]


def test_killed_workers_are_a_dead_pipeline_or_are_replaced(
    lw: Installation, supervised: Supervised
) -> None:
    since = len(supervised.events)
    kill(supervised, WORKER)
    lag_shows(lw, supervised, 3)
    for event in supervised.named("pipeline.failed", since=since):
        assert (event["cause"], event["rebuild"]) == ("machine", False)


def test_a_killed_process_takes_its_jvm_along(lw: Installation, supervised: Supervised) -> None:
    former = supervised.processes()
    kill(supervised, MAIN)
    assert_noticed_at_once(next_attempt(supervised))
    assert_ended(former)
    lag_shows(lw, supervised, 4)
    assert_one_temporary_directory(supervised)


@pytest.mark.parametrize(
    ("victim", "reason", "offset", "since"),
    [
        (JVM, "has not answered", 5, lambda _: True),
        (WORKER, "although the brokers have input for it", 6, lambda supervised: supervised.fed),
    ],
    ids=["JVM", "workers"],
)
def test_what_stands_still_is_said_and_killed(
    lw: Installation,
    supervised: Supervised,
    victim: str,
    reason: str,
    offset: int,
    since: Callable[[Supervised], bool],
) -> None:
    former = supervised.processes()
    kill(supervised, victim, signal.SIGSTOP)
    lw.commit(f"{lw.prefix}readers", topic_of(lw), {0: offset})
    logged = next_attempt(supervised, hurry=0.3, since=since)
    for event in ("pipeline.quiet", "pipeline.silent"):
        (entry,) = [entry for entry in logged if entry["event"] == event]
        assert reason in entry["reason"]
    assert_ended(former)
    lag_shows(lw, supervised, offset)
    assert supervised.named("pipeline.checkpoint_set_aside") == []


def test_batches_leave_nothing_open_in_any_process(
    lw: Installation, supervised: Supervised
) -> None:
    """A socket a task, as Spark 4.2.0 left open (SPARK-58932), reaches any limit within hours."""
    group, topic, watch = f"{lw.prefix}readers", topic_of(lw), TreeWatch()
    lag_shows(lw, supervised, 10)
    offsets = itertools.count(11)
    client = {"bootstrap.servers": lw.bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(client)

    def batches() -> int:
        return len(supervised.named("pipeline.batch"))

    def do(number: int) -> None:
        until = batches() + number
        while (done := batches()) < until:
            commit_offsets(consumer, [TopicPartition(topic, 0, next(offsets))])
            supervised.wait_for("batch", lambda done=done: batches() > done)

    do(SETTLED_AFTER)
    for _ in range(LOOKS):
        do(BATCHES_A_LOOK)
        running = supervised.child._running
        assert running is not None
        watch.add(batches(), held_by({"pipeline": running.child.process.pid}))
    consumer.close()
    assert watch.leaks(besides=FEW) == [], str(watch)
