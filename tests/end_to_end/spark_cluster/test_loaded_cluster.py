"""Workers killed under two thousand commits a second, and what restoring and rebuilding cost.

It takes minutes: `make cluster-faults` runs it. `FAULTS_KILLS` is the number of kills at random
moments, `DRAWN_SEED` decides them.
"""

import os
import random
import time

import pytest

from levelwind.assignors.protocol.topics import Topics
from levelwind.deploy.cluster import Cluster
from levelwind_testing.drawn_seeds import drawn_seed
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.pipeline.published_outcome import (
    PublishedTopics,
    ends,
    outcome,
    outdated_repeats,
    published_values,
)
from levelwind_testing.processes.cluster_pipeline import (
    ClusterPipeline,
    batches_done,
    own_installation,
)
from levelwind_testing.processes.commit_load import CommitLoad
from levelwind_testing.processes.offsets_writer import Load, OffsetsWriter
from levelwind_testing.waiting import wait_until

KILLS = int(os.environ.get("FAULTS_KILLS", "0"))
LOAD = Load(commits=2**40, groups=100, topics=10, partitions=50)
COMMITS_PER_SECOND = 2_000
QUIET_SECONDS = 5.0
PREFIX = "loaded."

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not KILLS, reason="minutes of load: `make cluster-faults`"),
]


def test_workers_killed_under_load_leave_no_trace(spark, archive, tmp_path):
    chance = random.Random(drawn_seed())
    settings = PATIENT | {"offsets.topic.num.partitions": str(LOAD.offsets_partitions)}
    with Cluster.start(1, settings=settings) as brokers:
        writer = OffsetsWriter(brokers.bootstrap, Topics(PREFIX))
        writer.create("real", 1)
        load = CommitLoad(writer, LOAD, COMMITS_PER_SECOND)
        load.prepare()
        lw = PublishedTopics(brokers.bootstrap, PREFIX, {"lag": 4, "triggers": 4})

        def pipeline_of(name: str, offsets: int) -> ClusterPipeline:
            directory = tmp_path / name
            return ClusterPipeline(
                spark,
                archive,
                directory,
                [
                    *own_installation(brokers.bootstrap, PREFIX, directory),
                    f"pipeline.max_offsets_per_trigger={offsets}",
                ],
            )

        broken = pipeline_of("broken", 1_000_000)
        query = tmp_path / "broken" / "checkpoint" / "query"
        broken.start()
        broken.wait_for("the keys", lambda: broken.caught_up)
        load.start()
        known = batches_done(query)
        broken.wait_for("batches", lambda: batches_done(query) > known + 3)
        for number in range(KILLS):
            time.sleep(chance.uniform(1.0, 10.0))
            victim, done, at = chance.choice(spark.workers), batches_done(query), time.monotonic()
            spark.kill(victim)
            spark.start_worker()
            broken.wait_for("the next batch", lambda known=done: batches_done(query) > known)
            print(f"kill {number + 1}, {victim}: next batch after {time.monotonic() - at:.1f} s")
        load.stop()
        settle(lw)
        broken.kill()
        keys = LOAD.groups * LOAD.topics * LOAD.partitions

        broken.start()
        load.sample()  # a batch for all keys
        first = broken.wait_for("a batch", lambda: broken.logged("pipeline.progress"))[0]
        seconds = first["batch_ms"] / 1000
        print(f"restored: {keys:,} keys, first batch {seconds:.1f} s", end="")
        print(f" ({seconds / keys * 1e6:.1f} s a million keys)")
        settle(lw)
        broken.kill()
        found, middle = outcome(lw), ends(lw)
        for key, values in published_values(lw).items():
            assert outdated_repeats(values) == [], key
        assert len(found) == LOAD.groups * LOAD.topics

        unbroken = pipeline_of("unbroken", 10_000_000)
        unbroken.start()
        unbroken.to_the_end()
        (rebuilt,) = unbroken.logged("pipeline.caught_up")
        settle(lw)
        unbroken.kill()
        seconds = sum(event["batch_ms"] for event in unbroken.logged("pipeline.progress")) / 1000
        print(
            f"rebuilt: {keys:,} keys from {rebuilt['rows']:,} records in {seconds:.1f} s"
            f" ({seconds / keys * 1e6:.1f} s a million keys), with the start {rebuilt['seconds']} s"
        )
        print(f"{load.written:,} commits under load")
        assert outcome(lw, middle) == found


def settle(lw):
    """Wait until nothing is published from one look to the next."""
    looks = [None]

    def is_quiet():
        looks.append(ends(lw))
        return looks[-1] == looks[-2]

    wait_until("quiet pipeline", is_quiet, within=600, pause=QUIET_SECONDS)
