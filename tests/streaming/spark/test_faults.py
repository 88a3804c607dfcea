"""Faults: a killed driver, a restarted broker, a damaged checkpoint and a full disk.

Each time the outcome must be that of an undisturbed pipeline over the same input: the compacted lag
and triggers, key by key, value by value, each with its source. `LEVELWIND_KILLS` is the number of
kills (default 4), `LEVELWIND_SEED` decides their times; the seed is printed.

    LEVELWIND_KILLS=20 pytest -s tests/streaming/spark/test_faults.py -k killed
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assignors.protocol.records import BrokerRecord
from assignors.protocol.topics import partition_for
from daemon.config.settings import PipelineSection, Settings
from daemon.errors import PipelineFailedError
from daemon.pipeline.order import PipelineOrder
from deploy import guard
from deploy.cluster import Cluster
from deploy.jars import classpath
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

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

KILLS = int(os.environ.get("LEVELWIND_KILLS", "4"))
SEED = int(os.environ.get("LEVELWIND_SEED", str(random.SystemRandom().randrange(2**32))))
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
            max_offsets_per_trigger=120,
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
        command = [sys.executable, "-m", "daemon.pipeline.process", str(self._file)]
        self.child = guard.start(command, output=subprocess.PIPE)
        follow_json_lines(self.child.process, self.events.append, self.noise)

    def wait_for(self, *names: str, within: float = 240.0) -> dict[str, Any]:
        """The first event of one of these names."""
        until = time.monotonic() + within
        while not (found := [event for event in list(self.events) if event["event"] in names]):
            assert self.child is not None
            assert self.child.poll() is None, self.tail()
            assert time.monotonic() < until, self.tail()
            time.sleep(0.02)
        return found[0]

    def tail(self) -> str:
        return "\n".join([*map(str, self.events[-10:]), *self.noise[-40:]])

    def kill(self) -> None:
        assert self.child is not None
        self.child.kill()

    def to_the_end(self) -> None:
        """Start, read everything, and stop."""
        self.start()
        self.wait_for("pipeline.caught_up")
        self.kill()


@pytest.fixture(scope="module")
def truth(lw: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of an undisturbed pipeline."""
    Driver(lw, tmp_path_factory.mktemp("unbroken")).to_the_end()
    found = outcome(lw)
    assert sum(key.startswith("lag ") for key in found) == len(GROUPS)
    assert {key.split(" ")[1] for key in found if key.startswith("triggers ")} == {
        '["racks","readers"]',
        '["skew","readers"]',
    }
    return found


def test_a_driver_that_is_killed_again_and_again_ends_where_an_unbroken_one_does(
    lw: Installation, truth: dict[str, Any], tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    print(f"LEVELWIND_SEED={SEED}")
    before = ends(lw)
    driver = Driver(lw, tmp_path)
    for number in range(KILLS):
        driver.start()
        # Half of the kills hit the first batch, which loads the state, half a later one.
        driver.wait_for(chance.choice(["pipeline.started", "pipeline.batch"]), "pipeline.caught_up")
        pause = chance.uniform(0.0, 3.0)
        time.sleep(pause)
        batches = [event["batch"] for event in driver.events if event["event"] == "pipeline.batch"]
        driver.kill()
        last = max(batches, default="none")
        print(f"kill {number + 1}: after {pause:.2f} s, in the batch after {last}")
    driver.to_the_end()
    assert [
        event for event in driver.events if event["event"] == "pipeline.checkpoint_set_aside"
    ] == []
    assert outcome(lw, before) == truth
    for key, values in published_values(lw, before).items():
        assert outdated_repeats(values) == [], key


@pytest.mark.parametrize("victim", ["offsets", "state"])
def test_a_damaged_checkpoint_is_set_aside_and_the_state_rebuilt(
    lw: Installation, truth: dict[str, Any], tmp_path: Path, victim: str
) -> None:
    Driver(lw, tmp_path).to_the_end()
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
        caught_up = supervised.wait_for(lambda: supervised.named("pipeline.caught_up"))[0]
        assert supervised.wait_for(lambda: not stale_keys & outcome(lw).keys()), (
            "records that the rebuilt state does not confirm end"
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
        with Supervised(settings(lw, tmp_path)) as supervised:
            supervised.wait_for(lambda: supervised.named("pipeline.batch"))
            fill(ballast)
            supervised.wait_for(lambda: supervised.named("pipeline.died"))
            assert {event["cause"] for event in supervised.named("pipeline.failed")} == {"machine"}
            assert supervised.named("pipeline.caught_up") == []
        with (
            Supervised(settings(lw, tmp_path), allowed=0) as impatient,
            pytest.raises(PipelineFailedError, match="pipeline\\.restarts"),
        ):
            impatient.wait_for(lambda: False)
        ballast.unlink()
        with Supervised(settings(lw, tmp_path)) as supervised:
            supervised.wait_for(lambda: supervised.named("pipeline.caught_up"))
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
    own: Cluster, lw: Installation, tmp_path: Path
) -> None:
    with Supervised(settings(lw, tmp_path)) as supervised:
        supervised.wait_for(lambda: supervised.named("pipeline.caught_up"))
        own.stop_broker(1)
        time.sleep(3)
        own.start_broker(1)
        lw.commit(GROUPS[2], TOPIC, {0: 999})
        supervised.wait_for(
            lambda: outcome(lw)[f'lag ["lag","{GROUPS[2]}","{TOPIC}"]']["committed"][0] == 999
        )
        assert supervised.named("pipeline.checkpoint_set_aside") == []
