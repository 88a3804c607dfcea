"""Unit costs of the pipeline, and what they make of a fleet, as in docs/spark-cluster.md.

    python tests/benchmarks/bench_sizing.py [--keys 200000]
    python tests/benchmarks/bench_sizing.py --keys 2000000

Costs are CPU seconds of the pipeline's own functions, without Spark, which hold on a machine that
does other work, too. `--keys` is the number of live keys (group, topic, partition) that are then
restored from their packed states, and updated by a second of commits and a sample of each topic.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from bench_batch import Story, TimedPipeline

from levelwind.streaming.bucket.state import BucketState
from levelwind.streaming.topic.state import TopicState
from levelwind_testing.processes.offsets_writer import Load

COMMITS = 20_000
GROUPS, TOPICS, OWNERS = 100, 10, 5
FEW, MANY = 10, 100
"""Partitions of each topic, for the cost of a pair and of a partition in it."""
SPARK_COMMIT, SPARK_PAIR = 2.6e-6, 42e-6
"""CPU seconds of the JVM for a commit and for a lag record, by `bench_pipeline.py`."""
LONE_BATCHES = 50
"""Batches of one group, for the cost of a bucket besides its groups."""
TASKS = 8
"""Tasks of the large fleet's pipeline, each with a bucket of groups."""
CHUNK = 100_000
"""Commits of one batch while the keys are made."""


FORMULA = """\
cores = C * commit + (N * pair + K * partition) / i + (K * key + T * bucket) / t
state = K * key's bytes
C commits a second, N pairs of group and topic, K keys, T tasks with a bucket each, seconds i
between samples and t between batches; commit and pair with their parts in the JVM. For requests
see bench_observer.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    """Constants of the model; seconds are of one core."""

    commit: float
    """Seconds for a commit."""
    pair: float
    """Seconds for a sample of a topic and one group that reads it."""
    grouped: float
    """The part of it in the buckets of groups, with `FEW` partitions; the rest is by topic."""
    bucket: float
    """Seconds for a bucket in a batch that touches it, besides its groups."""
    partition: float
    """Seconds for each partition in it."""
    key: float
    """Seconds to unpack and pack the states of one key, in a batch that touches its topic."""
    key_bytes: float
    """Bytes of the packed states of one key."""

    def cores(self, fleet: "Fleet", *, interval: float, batch: float) -> float:
        """Cores that functions and JVM need; samples and batches come every so many seconds."""
        pairs = fleet.pairs / interval
        return (
            fleet.commits * (self.commit + SPARK_COMMIT)
            + pairs * (self.pair + SPARK_PAIR + fleet.keys / fleet.pairs * self.partition)
            + fleet.keys / batch * self.key
            + TASKS / batch * self.bucket
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is watched."""

    groups: int
    topics: int
    """Topics that one group reads."""
    keys: int
    commits: float
    """Commits a second."""

    @property
    def pairs(self) -> int:
        return self.groups * self.topics


LARGE = Fleet(groups=5_000, topics=10, keys=2_000_000, commits=100_000)


def cpu_of(step: Callable[[], object]) -> float:
    begun = time.process_time()
    step()
    return time.process_time() - begun


def spent(pipeline: TimedPipeline) -> float:
    return sum(pipeline._cpu.values())


def filled(load: Load) -> tuple[Story, TimedPipeline]:
    """A pipeline that knows every key of a load, and its sampled topics."""
    story, pipeline = Story(load, behind=False), TimedPipeline()
    left = story.beginning() if load.groups * load.topics * load.partitions <= CHUNK else []
    if left:
        pipeline.run(left)
    else:
        keys, story._keys = story._keys, story._keys[:1]
        pipeline.run(story.beginning())
        story._keys = keys
        for _ in range(0, len(keys), CHUNK):
            pipeline.run(story._commits(min(CHUNK, len(keys))))
    for _ in range(2):
        pipeline.run(story.batch(1, 0))
    gc.collect()
    gc.freeze()
    pipeline.reset()
    return story, pipeline


def measured() -> UnitCosts:
    """Measure each constant apart."""
    story, pipeline = filled(Load(0, GROUPS, TOPICS, MANY, OWNERS))
    keys = GROUPS * TOPICS * MANY
    key = restored(pipeline) / keys
    key_bytes = state_bytes(pipeline) / keys
    pipeline.run(story.batch(0, COMMITS))
    commit = max(spent(pipeline) - keys * key, 0.0) / COMMITS
    pipeline.reset()
    pipeline.run(story.batch(1, 0))
    many = (spent(pipeline) - keys * key) / (GROUPS * TOPICS)
    story, pipeline = filled(Load(0, GROUPS, TOPICS, FEW, OWNERS))
    pipeline.run(story.batch(1, 0))
    few = (spent(pipeline) - GROUPS * TOPICS * FEW * key) / (GROUPS * TOPICS)
    grouped = in_buckets(pipeline) / (GROUPS * TOPICS)
    partition = max(many - few, 0.0) / (MANY - FEW)
    story, pipeline = filled(Load(0, 1, 1, FEW, OWNERS))
    for _ in range(LONE_BATCHES):
        pipeline.run(story.batch(1, 0))
    alone = in_buckets(pipeline) / LONE_BATCHES
    return UnitCosts(
        commit=commit,
        pair=max(few - FEW * partition, 0.0),
        grouped=grouped,
        bucket=max(alone - grouped, 0.0),
        partition=partition,
        key=key,
        key_bytes=key_bytes,
    )


def in_buckets(pipeline: TimedPipeline) -> float:
    """CPU seconds in the buckets of groups."""
    return sum(seconds for name, seconds in pipeline._cpu.items() if name.startswith("bucket"))


def restored(pipeline: TimedPipeline) -> float:
    """CPU seconds to unpack all states and pack them again."""

    def restore() -> None:
        for packed in pipeline._topics.values():
            TopicState.unpack(packed).pack()
        for name in {key.rpartition("/")[0] for key in pipeline._buckets}:
            samples, members = (
                pipeline._buckets[f"{name}/{part}"] for part in ("samples", "members")
            )
            BucketState.unpack(samples, members)

    return cpu_of(restore)


def state_bytes(pipeline: TimedPipeline) -> int:
    states = (*pipeline._topics.values(), *pipeline._buckets.values())
    return sum(map(len, states))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=200_000)
    options = parser.parse_args()
    costs = measured()
    print(f"commit                    {costs.commit * 1e6:8.2f} us of CPU")
    print(f"pair of group and topic   {costs.pair * 1e6:8.2f} us a sample")
    print(f"    of it in the buckets  {costs.grouped * 1e6:8.2f} us")
    print(f"bucket of groups          {costs.bucket * 1e6:8.0f} us a batch that touches it")
    print(f"partition of a pair       {costs.partition * 1e6:8.3f} us a sample")
    print(f"key, unpacked and packed  {costs.key * 1e6:8.3f} us a batch that touches its topic")
    print(f"key, in packed states     {costs.key_bytes:8.1f} bytes")
    print(
        f"in the JVM, a commit      {SPARK_COMMIT * 1e6:8.2f} us; a pair {SPARK_PAIR * 1e6:.0f} us"
    )
    print(FORMULA)
    for interval, batch in ((1.0, 1.0), (5.0, 5.0), (10.0, 10.0)):
        cores = costs.cores(LARGE, interval=interval, batch=batch)
        print(
            f"5,000 groups of 10 topics, 2,000,000 keys, 100,000 commits/s, a sample and a batch"
            f" every {interval:g} s: {cores:.1f} cores,"
            f" {costs.key_bytes * LARGE.keys / 1e6:,.0f} MB of state"
        )
    groups, topics = max(options.keys // 10_000, 1), 100
    story, pipeline = filled(Load(0, groups, topics, 100, OWNERS))
    seconds, keys = restored(pipeline), groups * topics * 100
    print(
        f"{keys:,} keys: {state_bytes(pipeline) / 1e6:,.0f} MB, unpacked and packed"
        f" in {seconds:.1f} s of CPU, {seconds / keys * 1e6:.2f} s a million"
    )
    pipeline.run(story.batch(1, CHUNK))
    print(
        f"updated by {CHUNK:,} commits and a sample of each topic: {spent(pipeline):.1f} s of CPU"
    )


if __name__ == "__main__":
    main()
