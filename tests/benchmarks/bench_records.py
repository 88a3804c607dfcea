"""Time to read and write a record, beside Python's own JSON of the same bytes.

    python tests/benchmarks/bench_records.py [--partitions 50] [--rounds 5]

A lag record has three figures and an owner of each partition, a plan ten members and a topic.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from levelwind.assignors.protocol.records import (
    PlannedMember,
    PlannedRacks,
    PlannedTopic,
    Record,
    decode,
    encode,
)
from levelwind.assignors.protocol.topics import TopicKind
from levelwind.assignors.protocol.unread_lag import left_unread

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from levelwind_testing import records

CALLS = 2000
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5, help="the best of these counts")
    options = parser.parse_args()
    print(f"{'microseconds':14}{'bytes':>7}{'read':>8}{'json':>8}{'write':>8}{'json':>8}")
    for topic, record in examples(options.partitions).items():
        key, value = encode(record)
        document = json.loads(value)
        figures = (
            best(options.rounds, lambda t=topic, k=key, v=value: decode(t, k, v)),
            best(options.rounds, lambda v=value: json.loads(v)),
            best(options.rounds, lambda r=record: encode(r)),
            best(options.rounds, lambda d=document: canonical(d).encode()),
        )
        print(f"{topic:14}{len(value):7}" + "".join(f"{figure:8.1f}" for figure in figures))
        if topic == "lag":
            unread = left_unread("g", "t", value)
            print(
                f"{'  time alone':21}"
                f"{best(options.rounds, lambda v=value: left_unread('g', 't', v)):8.1f}"
            )
            print(f"{'  figures alone':21}{best(options.rounds, unread.figures):8.1f}")


def best(rounds: int, call: Callable[[], object]) -> float:
    """Return the microseconds of a call in the best round."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS)
    return min(times) * 1e6


def examples(partitions: int) -> dict[TopicKind, Record]:
    """Return a record of each topic that has many."""
    draw = random.Random(1)
    figures = [tuple(draw.random() * 100 for _ in range(partitions)) for _ in range(3)]
    members = [f"member-{number}" for number in range(10)]
    racks = (("a", "b", "c"),) * partitions
    ends = [draw.randrange(10**6, 10**9) for _ in range(partitions)]
    return {
        "lag": records.lag(
            *(draw.randrange(1000) for _ in range(partitions)),
            ends=ends,
            racks=racks,
            rate=figures[0],
            velocity=figures[1],
            seconds=figures[2],
            members=tuple(members),
            owner=tuple(number % 10 for number in range(partitions)),
            local=(True,) * partitions,
        ),
        "metadata": records.offsets("t", ends, at=1000, offsets_topic_ends=tuple(ends)),
        "members": records.member("member-0", owned={"t": tuple(range(partitions))}),
        "assignments": records.plan(
            topics={
                "t": PlannedTopic(
                    id=records.TOPIC_ID,
                    partitions=partitions,
                    racks=PlannedRacks(at=1000, racks=racks),
                )
            },
            members=tuple(
                PlannedMember(instance=name, incarnation="1", rack="a", capacity=1.0, topics=("t",))
                for name in members
            ),
        ),
    }


if __name__ == "__main__":
    main()
