"""What may befall a pipeline, befalls it: its driver is killed, its brokers go, its checkpoint is damaged, its disk is full.

Each time the end must be that of a pipeline that nothing befell, over the same input: the compacted lag and triggers,
key by key, value by value, each with the source that it was made of. As many kills as `LEVELWIND_KILLS` says, 4 without;
what fell when is told by `LEVELWIND_SEED`, which is printed.

    LEVELWIND_KILLS=20 pytest -s tests/streaming/test_faults.py -k killed
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, TopicPartition

from assignors.protocol.records import BrokerRecord, MemberAssignment, OffsetsRecord, TopicRecord
from assignors.protocol.topics import partition_for
from daemon.config.settings import (
    PipelineSection,
    Settings,
)
from daemon.errors import PipelineFailedError
from daemon.pipeline.order import PipelineOrder
from daemon.pipeline.supervisor import (
    Attempts,
    PipelineChild,
)
from deploy import guard
from deploy.cluster import Cluster
from deploy.jars import classpath
from levelwind_testing.pipeline.installation import (
    PARTITIONS,
    Installation,
    now,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

KILLS = int(os.environ.get("LEVELWIND_KILLS", "4"))
SEED = int(os.environ.get("LEVELWIND_SEED", str(random.SystemRandom().randrange(2**32))))
GROUPS, STEPS, TOPIC = ("readers", "writers", "idlers"), 200, "work"
# A JVM that compiles fast rather than well: most of these runs are starts.
QUICK = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
PATIENT = {"broker.session.timeout.ms": "45000", "controller.quorum.fetch.timeout.ms": "20000"}


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A broker that may be taken away, and whose offsets topic holds nothing else."""
    with Cluster.start(1, settings=PATIENT) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lw(own: Cluster) -> Installation:
    """An installation whose input is written and stands still."""
    lw = Installation(bootstrap=own.bootstrap, prefix="faults.", replication=1)
    lw.create(TOPIC, 3)
    write_story(lw)
    return lw


def settings(lw: Installation, state: Path) -> Settings:
    state.mkdir(exist_ok=True)
    return Settings(
        bootstrap=lw.bootstrap,
        prefix=lw.prefix,
        state_dir=state,
        pipeline=PipelineSection(
            skew_floor=10,
            skew_duration=5.0,
            max_offsets_per_trigger=60,
            restart_window=600.0,
            spark=QUICK,
        ),
    )


class Driver:
    """The pipeline's process, as the daemon starts it, without a daemon that starts it again."""

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
        threading.Thread(target=self._read, args=(self.child.process.stdout,), daemon=True).start()

    def _read(self, lines: Any) -> None:
        for line in lines:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.noise.append(line.decode(errors="replace"))

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
        """Read all that there is, and stop."""
        self.start()
        self.wait_for("pipeline.caught_up")
        self.kill()


class Supervised:
    """The pipeline under the daemon's own supervision."""

    def __init__(self, lw: Installation, state: Path, *, allowed: int = 9) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.child = PipelineChild(
            settings(lw, state),
            classpath("spark"),
            Attempts(allowed=allowed, window=600.0, longest=4.0),
            self.events.append,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()

    def said(self, name: str) -> list[Mapping[str, Any]]:
        return [event for event in list(self.events) if event["event"] == name]

    def wait_for(self, question: Callable[[], Any], within: float = 300.0) -> Any:
        until = time.monotonic() + within
        while not (answer := question()):
            assert time.monotonic() < until, self.events[-20:]
            self.child.watch(time.monotonic())
            time.sleep(0.1)
        return answer


def outcome(lw: Installation, since: Mapping[tuple[str, int], int] | None = None) -> dict[str, Any]:
    """The compacted lag and triggers by key, of what was written since some offsets."""
    newest = {key: said[-1] for key, said in told(lw, since).items()}
    return {key: json.loads(value) for key, value in sorted(newest.items()) if value is not None}


def told(
    lw: Installation, since: Mapping[tuple[str, int], int] | None = None
) -> dict[str, list[bytes | None]]:
    """All that was said of each lag and trigger since some offsets, in its order."""
    found: dict[str, list[bytes | None]] = defaultdict(list)
    reader = Consumer(
        {"bootstrap.servers": lw.bootstrap, "group.id": "x", "enable.auto.commit": False}
    )
    for (name, partition), end in ends(lw).items():
        here = TopicPartition(lw.prefix + name, partition, (since or {}).get((name, partition), 0))
        reader.assign([here])
        position = here.offset
        while position < end:
            message = reader.poll(10)
            assert message is not None
            assert message.error() is None, message.error()
            position = message.offset() + 1
            found[f"{name} {message.key().decode()}"].append(message.value())
    reader.close()
    return found


def ends(lw: Installation) -> dict[tuple[str, int], int]:
    reader = Consumer({"bootstrap.servers": lw.bootstrap, "group.id": "x"})
    places = [
        (name, partition) for name in ("lag", "triggers") for partition in range(PARTITIONS[name])
    ]
    found = {
        place: reader.get_watermark_offsets(TopicPartition(lw.prefix + place[0], place[1]))[1]
        for place in places
    }
    reader.close()
    return found


@pytest.fixture(scope="module")
def truth(lw: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes of the story when nothing befalls the pipeline."""
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
        # Half of them fall into the first batch, which loads the state, half somewhere into those that follow.
        driver.wait_for(chance.choice(["pipeline.started", "pipeline.batch"]))
        pause = chance.uniform(0.0, 3.0)
        time.sleep(pause)
        batches = [event["batch"] for event in driver.events if event["event"] == "pipeline.batch"]
        driver.kill()
        print(
            f"kill {number + 1}: after {pause:.2f} s, in the batch after {max(batches, default='none')}"
        )
    driver.to_the_end()
    assert [
        event for event in driver.events if event["event"] == "pipeline.checkpoint_set_aside"
    ] == []
    assert outcome(lw, before) == truth
    for key, said in told(lw, before).items():
        assert repeated(said) == [], key


def repeated(said: list[bytes | None]) -> list[bytes | None]:
    """What is older, by its source, than something that was said before it, and yet was not said already."""
    sources = [json.loads(value)["source"] if value is not None else {} for value in said]
    return [
        value
        for number, (value, source) in enumerate(zip(said, sources, strict=True))
        if any(
            before.get(place, -1) > source[place] for before in sources[:number] for place in source
        )
        and value not in said[:number]
    ]


@pytest.mark.parametrize("victim", ["offsets", "state"])
def test_a_damaged_checkpoint_is_set_aside_and_the_state_built_anew(
    lw: Installation, truth: dict[str, Any], tmp_path: Path, victim: str
) -> None:
    Driver(lw, tmp_path).to_the_end()
    query = tmp_path / "checkpoint" / "query"
    if victim == "offsets":
        newest = max((query / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        content = newest.read_bytes()
        newest.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])  # one digit
    else:
        # On a file system without checksums nobody sees it before the query dies of it.
        for file in query.rglob("*.crc"):
            file.unlink()
        # Half of it: what stands behind the last record Spark never reads.
        for file in (query / "state").rglob("*.changelog"):
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2])
        # State is loaded by the next batch, and so there must be one: of a record that nothing is made of.
        lw.publish(BrokerRecord(broker=1, at=now(), rack="a", online=True))
    ghosts = haunt(lw)
    before = ends(lw)
    with Supervised(lw, tmp_path) as supervised:
        caught_up = supervised.wait_for(lambda: supervised.said("pipeline.caught_up"))[0]
        assert supervised.wait_for(lambda: not ghosts & outcome(lw).keys()), (
            "what nobody stands by is ended"
        )
        (aside,) = supervised.said("pipeline.checkpoint_set_aside")
    assert caught_up["rebuilt"]
    assert ("checksum" in aside["reason"]) == (victim == "offsets")
    assert list(Path(aside["moved_to"]).iterdir())
    assert len(supervised.said("pipeline.died")) == (victim == "state")
    assert outcome(lw, before) == outcome(lw) == truth


def test_a_full_disk_costs_time_and_nothing_else(
    lw: Installation, truth: dict[str, Any], tmp_path: Path
) -> None:
    before = ends(lw)
    small = tmp_path / "checkpoint"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can be had by root alone")
    ballast = small / "ballast"
    try:
        with Supervised(lw, tmp_path) as supervised:
            supervised.wait_for(lambda: supervised.said("pipeline.batch"))
            fill(ballast)
            supervised.wait_for(lambda: supervised.said("pipeline.died"))
            assert {event["cause"] for event in supervised.said("pipeline.failed")} == {"machine"}
            assert supervised.said("pipeline.caught_up") == []
        with (
            Supervised(lw, tmp_path, allowed=0) as impatient,
            pytest.raises(PipelineFailedError, match="pipeline\\.restarts"),
        ):
            impatient.wait_for(lambda: False)
        ballast.unlink()
        with Supervised(lw, tmp_path) as supervised:
            supervised.wait_for(lambda: supervised.said("pipeline.caught_up"))
            assert supervised.said("pipeline.checkpoint_set_aside") == []
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert outcome(lw, before) == truth


def haunt(lw: Installation) -> set[str]:
    """Let the topics tell of a group that is gone, and of one whose trigger stands no more; by their names in `outcome`."""
    standing = outcome(lw)
    keys = {
        "lag": (f'["lag","{GROUPS[0]}","{TOPIC}"]', f'["lag","ghost","{TOPIC}"]'),
        "triggers": (f'["skew","{GROUPS[0]}"]', f'["skew","{GROUPS[1]}"]'),
    }
    for name, (model, ghost) in keys.items():
        value = {**standing[f"{name} {model}"]}
        if name == "triggers":
            value["group"] = GROUPS[1]
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        lw.producer.produce(
            lw.prefix + name, text, ghost, partition_for(json.loads(ghost)[1], PARTITIONS[name])
        )
    lw.producer.flush()
    return {f"{name} {ghost}" for name, (_, ghost) in keys.items()}


def fill(file: Path) -> None:
    """Take all the room that there is."""
    with file.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            pass


def test_a_broker_that_restarts_is_waited_for(
    own: Cluster, lw: Installation, tmp_path: Path
) -> None:
    with Supervised(lw, tmp_path) as supervised:
        supervised.wait_for(lambda: supervised.said("pipeline.caught_up"))
        own.stop_broker(1)
        time.sleep(3)
        own.start_broker(1)
        lw.commit(GROUPS[2], TOPIC, {0: 999})
        supervised.wait_for(
            lambda: outcome(lw)[f'lag ["lag","{GROUPS[2]}","{TOPIC}"]']["committed"][0] == 999
        )
        assert supervised.said("pipeline.checkpoint_set_aside") == []


# The story, written once.


def write_story(lw: Installation) -> None:
    """Three groups read a topic; one's lag grows skewed, and a replica moves to another rack."""
    topic_id = str(lw._described(TOPIC).topic_id).translate(str.maketrans("+/", "-_"))
    commit_all(lw)
    begin = now()

    def layout(at: int, racks: tuple[tuple[str, ...], ...]) -> None:
        same = {"leader": (1, 1, 1), "replicas": ((1,),) * 3, "isr": ((1,),) * 3}
        lw.publish(TopicRecord(topic=TOPIC, at=at, id=topic_id, racks=racks, **same), at=at)

    layout(begin, (("a",), ("b",), ("c",)))
    for instance, places, rack in (("m0", (0, 1), "a"), ("m1", (2,), None)):
        lw.publish(assigned(GROUPS[0], instance, places, rack), at=begin)
    for second in range(1, 120):
        stable = (1000, 1000, 1000) if second < 20 else (1000, 4000, 141)
        at = begin + second * 1000
        sample = OffsetsRecord(
            topic=TOPIC, at=at, id=topic_id, begin=(0, 0, 0), stable=stable, high=stable
        )
        lw.publish(sample, at=at)
        if second == 60:
            layout(at + 500, (("a",), ("b",), ("a",)))


def commit_all(lw: Installation) -> None:
    readers = [
        Consumer(
            {"bootstrap.servers": lw.bootstrap, "group.id": group, "enable.auto.commit": False}
        )
        for group in GROUPS
    ]
    for step in range(1, STEPS + 1):
        for reader in readers:
            places = [
                TopicPartition(TOPIC, number, offset)
                for number, offset in enumerate((step, 2 * step, 40))
            ]
            reader.commit(offsets=places, asynchronous=False)
    for reader in readers:
        reader.close()


def assigned(
    group: str, instance: str, places: tuple[int, ...], rack: str | None
) -> MemberAssignment:
    return MemberAssignment(
        group=group,
        instance=instance,
        incarnation="x",
        planner_epoch=1,
        group_epoch=1,
        member_epoch=1,
        state="active",
        assigned={TOPIC: places},
        pending={},
        revoking={},
        rack=rack,
        capacity=1.0,
        reason="",
    )
