"""Bytes that the pipeline keeps for each key, in its two states as packed for the state store.

    python tests/benchmarks/bench_state_size.py

The state of a topic is one value, with the commits of all its groups; the state of a group is one
value, with the newest lag, owners and racks of all its topics. Figures are of the packed values
alone; RocksDB compresses its files, and its changelog again.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.pipeline.coordinator_commands import Groups, plan_of
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import run

TOPIC = "a-topic-of-some-length"
SIZES = ((1, 10), (1, 100), (10, 100), (100, 100), (10, 1000))
"""Numbers of groups and of partitions."""


def run_pipeline(groups: int, partitions: int, *, managed: bool) -> LocalPipeline:
    """Process a topic that groups of three members read, with two samples after their commits."""
    story = Groups()
    racks = [["abc"[number % 3], "abc"[(number + 1) % 3]] for number in range(partitions)]
    story.layout(0, TOPIC, racks)
    for number in range(groups):
        group = f"a-group-of-some-length-{number}"
        shares = [tuple(range(first, partitions, 3)) for first in range(3)]
        if managed:
            for index, share in enumerate(shares):
                story.member(
                    1,
                    group,
                    f"instance-{index}",
                    {TOPIC: share},
                    rack="abc"[index],
                )
        if managed:
            plan = plan_of(racks, 0)
            story.plan(1, group, metadata_at=0, topics={TOPIC: plan})
        story.commits(2, group, TOPIC, dict.fromkeys(range(partitions), 10**9))
    for second in (3, 4):
        story.sample(second, TOPIC, [2 * 10**9] * partitions)
    pipeline = LocalPipeline()
    run(story, pipeline)
    return pipeline


def bytes_a_key(states: dict[str, bytes], keys: int) -> float:
    return sum(map(len, states.values())) / keys


def main() -> None:
    print(
        "bytes a (group, topic, partition): "
        "topic state · group state, managed · group state, commits alone"
    )
    for groups, partitions in SIZES:
        keys = groups * partitions
        managed, plain = (
            run_pipeline(groups, partitions, managed=managed) for managed in (True, False)
        )
        figures = (
            bytes_a_key(managed.topics, keys),
            bytes_a_key(managed.groups, keys),
            bytes_a_key(plain.groups, keys),
        )
        print(
            f"{groups:4} groups x {partitions:5} partitions: "
            + " · ".join(f"{figure:7.1f}" for figure in figures)
        )


if __name__ == "__main__":
    main()
