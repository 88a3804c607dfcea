"""Deaths of the pipeline's processes, one after the other, as by the kernel's OOM killer."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from daemon.config.settings import PipelineSection, Settings
from deploy.cluster import Cluster
from levelwind_testing.pipeline.installation import Installation
from levelwind_testing.processes.supervised_pipeline import Supervised
from streaming.spark.settings import WORKER_DAEMON

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

NOTICED_SECONDS = 5.0
"""Time from a death to its event and the start of the next attempt."""
GROUP, TOPIC = "readers", "work"
# A JVM that compiles fast rather than well, since most of these runs are short.
QUICK = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
# Of the workers and what forks them: the JVM's command has that module's name in a setting.
WORKER = f"-m {WORKER_DAEMON}"
MAIN, JVM = "daemon.pipeline.process", "SparkSubmit"


@pytest.fixture(scope="module")
def lw() -> Iterator[Installation]:
    with Cluster.start(1) as cluster:
        lw = Installation(bootstrap=cluster.bootstrap, prefix="deaths.", replication=1)
        lw.create(TOPIC, 3)
        lw.observe(TOPIC)
        yield lw


@pytest.fixture(scope="module")
def supervised(lw: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    settings = Settings(
        bootstrap=lw.bootstrap,
        prefix=lw.prefix,
        state_dir=tmp_path_factory.mktemp("state"),
        pipeline=PipelineSection(spark=QUICK, answer_timeout=20.0),
    )
    with Supervised(settings) as supervised:
        yield supervised


def lag_shows(lw: Installation, supervised: Supervised, offset: int) -> None:
    """Commit, and wait until the pipeline has published the lag of that commit."""
    lw.commit(GROUP, TOPIC, {0: offset})
    lw.sample(TOPIC)
    key = ("lag", GROUP, TOPIC)
    supervised.wait_for(lambda: lw.latest("lag").get(key, {}).get("committed", [None])[0] == offset)


def kill(supervised: Supervised, command: str, number: int = signal.SIGKILL) -> float:
    """Send a signal to all processes with this text in their command; the time of it."""
    victims = supervised.pids(command)
    assert victims
    at = time.monotonic()
    for pid in victims:
        os.kill(pid, number)
    return at


def next_attempt(supervised: Supervised, within: float) -> list[dict[str, object]]:
    """Wait for the death of this attempt and the start of the next one; what was logged."""
    structlog.reset_defaults()
    with capture_logs() as logged:
        supervised.wait_for(
            lambda: [event for event in logged if event["event"] == "pipeline.starting"], within
        )
    names = [event["event"] for event in logged]
    assert names.index("pipeline.died") < names.index("pipeline.starting")
    return logged


def test_a_killed_jvm_is_a_dead_pipeline(lw: Installation, supervised: Supervised) -> None:
    lag_shows(lw, supervised, 1)
    former = supervised.processes()
    kill(supervised, JVM)
    logged = next_attempt(supervised, NOTICED_SECONDS)
    (failed,) = [event for event in logged if event["event"] == "pipeline.failed"]
    assert (failed["cause"], failed["rebuild"]) == ("machine", False)
    assert "signal 9" in failed["error"]
    assert not former.keys() & supervised.processes().keys()
    lag_shows(lw, supervised, 2)


def test_killed_workers_are_a_dead_pipeline_or_are_replaced(
    lw: Installation, supervised: Supervised
) -> None:
    since = kill(supervised, WORKER)
    lag_shows(lw, supervised, 3)
    for event in supervised.named("pipeline.failed", since=since):
        assert (event["cause"], event["rebuild"]) == ("machine", False)


def test_a_killed_process_takes_its_jvm_along(lw: Installation, supervised: Supervised) -> None:
    former = supervised.processes()
    kill(supervised, MAIN)
    next_attempt(supervised, NOTICED_SECONDS)
    for pid in former:
        assert not Path(f"/proc/{pid}").exists()
    lag_shows(lw, supervised, 4)


def test_a_jvm_that_stands_still_is_killed(lw: Installation, supervised: Supervised) -> None:
    kill(supervised, JVM, signal.SIGSTOP)
    logged = next_attempt(supervised, 20.0 + NOTICED_SECONDS)
    (silent,) = [event for event in logged if event["event"] == "pipeline.silent"]
    assert "has not answered" in silent["reason"]
    lag_shows(lw, supervised, 5)
    assert supervised.named("pipeline.checkpoint_set_aside") == []
