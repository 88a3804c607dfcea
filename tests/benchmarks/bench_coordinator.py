"""The assignor for brokers beside Kafka's `uniform`, both as the coordinator calls them.

    python tests/benchmarks/bench_coordinator.py
    python tests/benchmarks/bench_coordinator.py --cells 1000x100x100 --racks 4

A cell is members x topics x partitions of a topic; replicas are in three racks, or in all but one
where there are fewer. Members of the second kind read a quarter of the topics each. Each group goes
through one day: from scratch, at rest, after a tenth of the members left, after the replicas of a
fifth of the partitions moved, and after as many members joined in one rack. Both assignors are
asked at each step, and the group goes on with the plan of `rack-uniform`. Each call is made three
times, and the last one counts.

*Milliseconds* are the thread's CPU. *Local* is the share of the partitions with a replica in their
reader's rack. *Moved* counts the partitions whose last owner is still there and has them no more.
The *spread* is the partitions of the most loaded member less those of the least loaded one.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.coordinator.assignor_process import AssignorProcess, compiled

CELLS = "100x10x100,1000x100x100,5000x1000x50"
CALLS = 3


def group(cell: str, racks: int, *, equal: bool, draw: Random) -> dict[str, Any]:
    members, topics, partitions = map(int, cell.split("x"))
    return {
        "topics": [[replicas(racks, draw) for _ in range(partitions)] for _ in range(topics)],
        "members": [
            {
                "id": f"m{number:05}",
                "rack": f"r{draw.randrange(racks)}",
                "topics": sorted(draw.sample(range(topics), topics if equal else topics // 4)),
                "held": [],
            }
            for number in range(members)
        ],
    }


def replicas(racks: int, draw: Random) -> list[str]:
    return [f"r{rack}" for rack in draw.sample(range(racks), min(3, racks - 1))]


def day(asked: dict[str, Any], racks: int, draw: Random) -> Iterator[str]:
    """Change the group step by step; each time the name of the step."""
    yield "from scratch"
    yield "at rest"
    tenth = len(asked["members"]) // 10
    left, asked["members"] = asked["members"][:tenth], asked["members"][tenth:]
    yield "a tenth left"
    for topic in asked["topics"]:
        for number in range(0, len(topic), 5):
            topic[number] = replicas(racks, draw)
    yield "replicas moved"
    asked["members"] += [
        {**member, "id": f"n{member['id']}", "rack": "r0", "held": []} for member in left
    ]
    yield "as many joined"


def figures(asked: dict[str, Any], answer: dict[str, Any]) -> str:
    remote = moved = 0
    loads = []
    for member in asked["members"]:
        share = answer["members"][member["id"]]
        owned = {(int(topic), number) for topic in share for number in share[topic]}
        loads.append(len(owned))
        moved += sum(tuple(held) not in owned for held in member["held"])
        remote += sum(member["rack"] not in asked["topics"][topic][n] for topic, n in owned)
    spread = max(loads) - min(loads)
    local = 100 * (1 - remote / sum(loads))
    return (
        f"{answer['cpu_nanos'] / 1e6:.0f} ms, {local:.1f} % local, {moved} moved, spread {spread}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--racks", type=int, default=3)
    asked_for = parser.parse_args()
    with TemporaryDirectory() as directory, AssignorProcess(compiled(Path(directory))) as process:
        for cell in asked_for.cells.split(","):
            for equal in (True, False):
                draw, kind = Random(1), "equal" if equal else "unequal"
                asked = group(cell, asked_for.racks, equal=equal, draw=draw)
                for step in day(asked, asked_for.racks, draw):
                    for name in ("uniform", "rack-uniform"):
                        for _ in range(CALLS):
                            answer = process.ask({**asked, "assignor": name})
                        print(f"{cell}, {kind}, {step}, {name}: {figures(asked, answer)}")
                    for member in asked["members"]:
                        share = answer["members"][member["id"]]
                        member["held"] = [[int(t), n] for t in share for n in share[t]]


if __name__ == "__main__":
    main()
