"""Faults: a killed driver, a restarted broker, a damaged checkpoint and a full disk.

Each time the outcome must be that of an undisturbed pipeline over the same input: the compacted lag
and triggers, key by key, value by value, each with its source. `make rare` kills the driver
`FAULTS_KILLS` times (default 10), `DRAWN_SEED` decides when; the seed is printed.

    FAULTS_KILLS=20 pytest -s tests/streaming/spark/test_faults.py -k killed
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from levelwind.assignors.protocol.records import BrokerRecord
from levelwind.assignors.protocol.topics import partition_for
from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.errors import PipelineFailedError
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.deploy import guard
from levelwind.deploy.cluster import Cluster
from levelwind.deploy.jars import classpath
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.pipeline.fault_input import GROUPS, TOPIC, write_input
from levelwind_testing.pipeline.installation import PARTITIONS, Installation, now
from levelwind_testing.pipeline.published_outcome import (
    ends,
    outcome,
    outdated_repeats,
    published_values,
)
from levelwind_testing.processes.json_lines import follow_json_lines
from levelwind_testing.processes.supervised_pipeline import Supervised
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

KILLS = int(os.environ.get("FAULTS_KILLS", "10"))
FILES_OF_A_BATCH = 6
"""Files of the checkpoint that a batch writes: the first one of a checkpoint some more."""
# A JVM that compiles fast rather than well, since most of these runs are short.
QUICK = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A broker of this module's own: tests stop it, and its offsets topic holds nothing else."""
    with Cluster.start(1, settings=PATIENT) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lw(own: Cluster) -> Installation:
    """An installation whose input has been written and does not grow."""
    lw = Installation(bootstrap=own.bootstrap, prefix="faults.", replication=1)
    lw.create(TOPIC, 3)
    write_input(lw)
    return lw


def settings(lw: Installation, state: Path) -> Settings:
    state.mkdir(exist_ok=True)
    return Settings(
        bootstrap=lw.bootstrap,
        prefix=lw.prefix,
        state_dir=state,
        pipeline=PipelineSection(
            skew_duration=5.0,
            max_offsets_per_trigger=240,
            trigger_interval=0.0,
            restart_window=600.0,
            spark=QUICK,
        ),
    )


class Driver:
    """The pipeline's process, started as the daemon does, but not restarted."""

    def __init__(self, lw: Installation, state: Path) -> None:
        self._file = state / "order.json"
        order = PipelineOrder(settings=settings(lw, state), jars=classpath("spark"))
        self._file.write_text(order.model_dump_json())
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self.child: guard.Guarded | None = None

    def start(self) -> None:
        self.events.clear()
        command = [sys.executable, "-m", "levelwind.daemon.pipeline.process", str(self._file)]
        self.child = guard.start(command, output=subprocess.PIPE)
        follow_json_lines(self.child.process, self.events.append, self.noise)

    def wait_for(self, what: str, question: Callable[[], Any]) -> Any:
        """Wait for an event while the process runs."""

        def running() -> Any:
            assert self.child is not None
            assert self.child.poll() is None, self.tail()
            return question()

        return wait_until(what, running, 240, pause=0.01, shown=self.tail)

    def logged(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == name]

    def tail(self) -> str:
        return "\n".join([*map(str, self.events[-10:]), *self.noise[-40:]])

    def kill(self) -> None:
        assert self.child is not None
        self.child.kill()

    def to_the_end(self) -> None:
        """Start, read everything, and stop."""
        self.start()
        self.wait_for("end of the input", lambda: self.logged("pipeline.caught_up"))
        self.kill()

    def kill_after(self, files: int) -> None:
        """Start, and kill once the checkpoint has some more files, or all has been read."""
        before = self._files()
        self.start()
        self.wait_for("start", lambda: self.logged("pipeline.started"))
        self.wait_for(
            f"{files} files of the checkpoint",
            lambda: len(self._files() - before) >= files or self.logged("pipeline.caught_up"),
        )
        last = max((event["batch"] for event in self.logged("pipeline.batch")), default="none")
        self.kill()
        print(f"killed after {files} files, in the batch after {last}")

    def _files(self) -> set[str]:
        """The files of the checkpoint, without those of which each is the checksum of another."""
        walked = os.walk(self._file.parent / "checkpoint")
        return {
            f"{directory}/{name}"
            for directory, _, names in walked
            for name in names
            if not name.startswith(".")
        }


@pytest.fixture(scope="module")
def finished(lw: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of an undisturbed pipeline that has read everything."""
    state = tmp_path_factory.mktemp("unbroken")
    Driver(lw, state).to_the_end()
    return state


@pytest.fixture(scope="module")
def truth(lw: Installation, finished: Path) -> dict[str, Any]:
    """The outcome of an undisturbed pipeline."""
    found = outcome(lw)
    assert sum(key.startswith("lag ") for key in found) == len(GROUPS)
    assert {key.split(" ")[1] for key in found if key.startswith("triggers ")} == {
        '["racks","readers"]',
        '["skew","readers"]',
    }
    return found


@pytest.mark.parametrize(
    "kills", [2, pytest.param(KILLS, marks=pytest.mark.rare)], ids=["twice", "many times"]
)
def test_a_driver_that_is_killed_again_and_again_ends_where_an_unbroken_one_does(
    lw: Installation, truth: dict[str, Any], tmp_path: Path, kills: int
) -> None:
    chance = random.Random(drawn_seed())
    before = ends(lw)
    driver = Driver(lw, tmp_path)
    for number in range(kills):
        # Half of the kills hit the first batch, which loads the state, half a later one.
        first, behind = (FILES_OF_A_BATCH, 4 * FILES_OF_A_BATCH) if number % 2 else (0, 6)
        driver.kill_after(chance.randrange(first, behind))
    driver.to_the_end()
    assert driver.logged("pipeline.checkpoint_set_aside") == []
    assert outcome(lw, before) == truth
    for key, values in published_values(lw, before).items():
        assert outdated_repeats(values) == [], key


@pytest.mark.parametrize("victim", ["offsets", "state"])
def test_a_damaged_checkpoint_is_set_aside_and_the_state_rebuilt(
    lw: Installation, truth: dict[str, Any], finished: Path, tmp_path: Path, victim: str
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    query = tmp_path / "checkpoint" / "query"
    if victim == "offsets":
        newest = max((query / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        content = newest.read_bytes()
        newest.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])  # one digit
    else:
        # Without checksums the damage is found only when the query dies of it.
        for file in query.rglob("*.crc"):
            file.unlink()
        # Half of the file, since Spark never reads what follows the last record.
        for file in (query / "state").rglob("*.changelog"):
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2])
        # The next batch loads the state: have one, by a record that the pipeline has no use for.
        lw.publish(BrokerRecord(broker=1, at=now(), rack="a", online=True))
    stale_keys = publish_stale_records(lw)
    before = ends(lw)
    with Supervised(settings(lw, tmp_path)) as supervised:
        caught_up = supervised.wait_for_event("pipeline.caught_up")
        supervised.wait_for(
            "end of the records that the rebuilt state does not confirm",
            lambda: not stale_keys & outcome(lw).keys(),
        )
        (aside,) = supervised.named("pipeline.checkpoint_set_aside")
    assert caught_up["rebuilt"]
    assert ("checksum" in aside["reason"]) == (victim == "offsets")
    assert list(Path(aside["moved_to"]).iterdir())
    assert len(supervised.named("pipeline.died")) == (victim == "state")
    assert outcome(lw, before) == outcome(lw) == truth


def test_a_full_disk_costs_time_and_nothing_else(
    lw: Installation, truth: dict[str, Any], tmp_path: Path
) -> None:
    before = ends(lw)
    small = tmp_path / "checkpoint"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    ballast = small / "ballast"
    try:
        with Supervised(settings(lw, tmp_path), allowed=1) as supervised:
            supervised.wait_for_event("pipeline.batch")
            fill(ballast)
            supervised.wait_for_event("pipeline.died")
            with pytest.raises(PipelineFailedError, match="pipeline\\.restarts"):
                supervised.wait_for("end after the second death", lambda: False)
            assert {event["cause"] for event in supervised.named("pipeline.failed")} == {"machine"}
            assert supervised.named("pipeline.caught_up") == []
        ballast.unlink()
        with Supervised(settings(lw, tmp_path)) as supervised:
            supervised.wait_for_event("pipeline.caught_up")
            assert supervised.named("pipeline.checkpoint_set_aside") == []
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert outcome(lw, before) == truth


def publish_stale_records(lw: Installation) -> set[str]:
    """Publish lag of a missing group and an ended trigger; returns their keys in `outcome`."""
    published = outcome(lw)
    keys = {
        "lag": (f'["lag","{GROUPS[0]}","{TOPIC}"]', f'["lag","gone","{TOPIC}"]'),
        "triggers": (f'["skew","{GROUPS[0]}"]', f'["skew","{GROUPS[1]}"]'),
    }
    for name, (model, stale) in keys.items():
        value = {**published[f"{name} {model}"]}
        if name == "triggers":
            value["group"] = GROUPS[1]
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        lw.producer.produce(
            lw.prefix + name, text, stale, partition_for(json.loads(stale)[1], PARTITIONS[name])
        )
    lw.producer.flush()
    return {f"{name} {stale}" for name, (_, stale) in keys.items()}


def fill(file: Path) -> None:
    """Write to a file until its disk is full."""
    with file.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            pass


def test_a_broker_that_restarts_is_waited_for(
    own: Cluster, lw: Installation, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    with Supervised(settings(lw, tmp_path)) as supervised:
        supervised.wait_for_event("pipeline.caught_up")
        own.stop_broker(1)
        lived = supervised.heartbeats
        supervised.wait_for("heartbeats", lambda: supervised.heartbeats >= lived + 3)
        own.start_broker(1)
        lw.commit(GROUPS[2], TOPIC, {0: 999})
        supervised.wait_for(
            "lag of the commit",
            lambda: outcome(lw)[f'lag ["lag","{GROUPS[2]}","{TOPIC}"]']["committed"][0] == 999,
        )
        assert supervised.named("pipeline.checkpoint_set_aside") == []
