"""The pipeline on a real Spark cluster: a master and two workers, each with an executor.

The executors' interpreter has neither levelwind's packages nor their libraries, and their class
path has none of levelwind's jars. The outcome under faults must be that of an undisturbed pipeline
over the same input, key by key and value by value. `FAULTS_KILLS` is the number of kills of a
worker at random moments (default 1), `DRAWN_SEED` decides them, and of a default run what part
of the driver is killed; `make cluster-faults` has more of both.
"""

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from levelwind.assignors.protocol.records import BrokerRecord
from levelwind.deploy.cluster import Cluster
from levelwind.streaming.spark.settings import WORKER_DAEMON
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.pipeline.fault_input import GROUPS, TOPIC, write_input
from levelwind_testing.pipeline.installation import Installation, now
from levelwind_testing.pipeline.published_outcome import (
    ends,
    outcome,
    outdated_repeats,
    published_values,
)
from levelwind_testing.processes.cluster_pipeline import (
    ClusterPipeline,
    batches_done,
    batches_planned,
    own_installation,
)
from levelwind_testing.processes.spark_cluster import (
    StandaloneSpark,
    command_of,
    descendants,
)

pytestmark = [pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("FAULTS_KILLS", "1"))
EVERYTHING = "FAULTS_KILLS" in os.environ
"""Whether the driver's JVM, its Python and both are killed, and not just one of the three."""
VICTIMS = ("jvm", "python", "both")
OFFSETS = 60 if EVERYTHING else 300
"""Records a batch: few, so that there are batches to kill something in."""
FORKING_DAEMON = WORKER_DAEMON.encode()


@pytest.fixture(scope="module")
def lw(brokers: Cluster) -> Installation:
    """An installation whose input has been written and does not grow."""
    lw = Installation(bootstrap=brokers.bootstrap, prefix="faults.", replication=1)
    lw.create(TOPIC, 3)
    write_input(lw)
    return lw


def pipeline_of(
    lw: Installation, spark: StandaloneSpark, archive: Path, directory: Path
) -> ClusterPipeline:
    return ClusterPipeline(
        spark,
        archive,
        directory,
        [
            *own_installation(lw.bootstrap, lw.prefix, directory),
            "pipeline.skew_duration=5.0",
            f"pipeline.max_offsets_per_trigger={OFFSETS}",
        ],
    )


@pytest.fixture(scope="module")
def truth(lw, spark, archive, tmp_path_factory):
    """The outcome of an undisturbed pipeline on the cluster."""
    pipeline = pipeline_of(lw, spark, archive, tmp_path_factory.mktemp("unbroken"))
    pipeline.start()
    pipeline.wait_for("the end of the input", lambda: pipeline.caught_up)
    for worker in spark.workers:
        below = descendants(spark.processes[worker].process.pid)
        assert any(FORKING_DAEMON in command_of(pid) for pid in below), "state lies on both"
    pipeline.kill()
    found = outcome(lw)
    assert sum(key.startswith("lag ") for key in found) == len(GROUPS)
    assert {key.split(" ")[1] for key in found if key.startswith("triggers ")} == {
        '["racks","readers"]',
        '["skew","readers"]',
    }
    return found


def same_as_unbroken(lw, before, truth):
    found = outcome(lw, before)
    assert found.keys() == truth.keys()
    for key, value in truth.items():
        assert {n: (v, value.get(n)) for n, v in found[key].items() if v != value.get(n)} == {}, key
    assert found == truth
    for key, values in published_values(lw, before).items():
        assert outdated_repeats(values) == [], key


def mid_batch(pipeline, query):
    """Wait until a batch was planned after the present ones and is not done."""
    planned = batches_planned(query)
    pipeline.wait_for(
        "a batch under way",
        lambda: batches_planned(query) > max(planned, batches_done(query), 0) or pipeline.caught_up,
    )


def test_workers_and_drivers_that_are_killed_leave_no_trace(
    lw, spark, archive, truth, tmp_path, capsys
):
    seed = drawn_seed()
    chance = random.Random(seed)
    before = ends(lw)
    pipeline = pipeline_of(lw, spark, archive, tmp_path)
    query = tmp_path / "checkpoint" / "query"
    report = [f"seed {seed}"]
    pipeline.start()
    for _ in range(KILLS):
        mid_batch(pipeline, query)
        time.sleep(chance.uniform(0.0, 0.5))
        victim, done, at = chance.choice(spark.workers), batches_done(query), time.monotonic()
        spark.kill(victim)
        spark.start_worker()
        pipeline.wait_for(
            "the next batch",
            lambda: batches_done(query) > done or pipeline.caught_up,  # noqa: B023
        )
        report.append(f"{victim} killed: next batch after {time.monotonic() - at:.1f} s")
    for victim in VICTIMS if EVERYTHING else [chance.choice(VICTIMS)]:
        mid_batch(pipeline, query)
        done, at = batches_done(query), time.monotonic()
        pipeline.kill(victim)
        pipeline.start()
        pipeline.wait_for(
            "the next batch",
            lambda: batches_done(query) > done or pipeline.caught_up,  # noqa: B023
        )
        report.append(f"driver's {victim} killed: next batch after {time.monotonic() - at:.1f} s")
        assert pipeline.logged("pipeline.checkpoint_set_aside") == []
    pipeline.wait_for("the end of the input", lambda: pipeline.caught_up)
    pipeline.kill()
    with capsys.disabled():
        print("\n" + "\n".join(report))
    same_as_unbroken(lw, before, truth)


def test_a_checkpoint_that_is_deleted_under_the_query_is_built_again(
    lw, spark, archive, truth, tmp_path
):
    before = ends(lw)
    pipeline = pipeline_of(lw, spark, archive, tmp_path)
    pipeline.start()
    mid_batch(pipeline, tmp_path / "checkpoint" / "query")
    # In one step, since the query writes to it meanwhile.
    (tmp_path / "checkpoint").rename(tmp_path / "deleted")
    shutil.rmtree(tmp_path / "deleted", ignore_errors=True)
    # Executors that have the state loaded may go on; what they leave cannot be continued.
    pipeline.to_the_end()
    pipeline.kill()
    # A pipeline without news has no batch, and needs no state: have one.
    lw.publish(BrokerRecord(broker=1, at=now(), rack="a", online=True))
    pipeline.start()
    pipeline.to_the_end()
    pipeline.kill()
    same_as_unbroken(lw, before, truth)
