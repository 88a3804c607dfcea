"""How many bytes the pipeline keeps for each key, in its two states as they are packed for the state store.

    .venv/bin/python tests/benchmarks/bench_state_size.py

Topics: one value a topic, with all its groups' commits; groups: one value a group, with the last lag, owners and racks of
all its topics. Figures are of the packed values alone; RocksDB compresses its files, and its changelog does once more.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.pipeline.coordinator_commands import (
    Groups,
    plan_of,
)
from levelwind_testing.pipeline.local_pipeline import LocalPipeline
from levelwind_testing.pipeline.scripted_log import run

SIZES = ((1, 10), (1, 100), (10, 100), (100, 100), (10, 1000))


def told(groups: int, partitions: int, *, managed: bool) -> LocalPipeline:
    """A topic that so many groups read, of three members each, sampled twice after their commits."""
    story = Groups()
    racks = [["abc"[place % 3], "abc"[(place + 1) % 3]] for place in range(partitions)]
    story.layout(0, "a-topic-of-some-length", racks)
    for number in range(groups):
        group = f"a-group-of-some-length-{number}"
        shares = [tuple(range(first, partitions, 3)) for first in range(3)]
        for place, share in enumerate(shares):
            if managed:
                story.member(
                    1,
                    group,
                    f"instance-{place}",
                    {"a-topic-of-some-length": share},
                    rack="abc"[place],
                )
        if managed:
            plan = plan_of(racks, 0)
            story.plan(1, group, metadata_at=0, topics={"a-topic-of-some-length": plan})
        story.commits(2, group, "a-topic-of-some-length", dict.fromkeys(range(partitions), 10**9))
    for second in (3, 4):
        story.sample(second, "a-topic-of-some-length", [2 * 10**9] * partitions)
    pipeline = LocalPipeline()
    run(story, pipeline)
    return pipeline


def size(states: dict[str, bytes], keys: int) -> float:
    return sum(map(len, states.values())) / keys


def main() -> None:
    print(
        "bytes a (group, topic, partition): topic state · group state, managed · group state, commits alone"
    )
    for groups, partitions in SIZES:
        keys = groups * partitions
        managed, plain = (told(groups, partitions, managed=yes) for yes in (True, False))
        figures = (size(managed.topics, keys), size(managed.groups, keys), size(plain.groups, keys))
        print(
            f"{groups:4} groups x {partitions:5} partitions: "
            + " · ".join(f"{one:7.1f}" for one in figures)
        )


if __name__ == "__main__":
    main()
