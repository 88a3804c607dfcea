"""Hand-over of a healthy partition: from the published plan to the first record at the new owner.

    python tests/benchmarks/bench_handover.py [--moves 200] [--members 4] [--partitions 16]

Real brokers, member processes and the daemon, timers as in production, no Spark. A further member
joins and leaves again and again: each time partitions move. A hand-over begins with the time stamp
of the plan's record and ends when the new owner's handler begins. Records arrive all the time, so
that a partition's first record waits for the next one of its topic, 15 ms on average. `moved` are
partitions that one running member gives up and another gets; `freed` were given up by the member
that left before the plan, so that only the second half of a hand-over is measured.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from assignors.handover.timers import Timers
from assignors.protocol.records import GroupRecord, decode
from assignors.protocol.topics import Topics
from deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.chaos.chaos_run import PREFIX, planner_command
from levelwind_testing.chaos.chaos_worker import Orders, boot_time
from levelwind_testing.chaos.crew import Member, PlannerProcess, stop_everything
from levelwind_testing.chaos.journal import Entry, read_journal
from levelwind_testing.chaos.traffic import SteadyProducer, create_topics
from levelwind_testing.quantiles import quantiles

GROUP, TOPIC = "moved", "moving"
RECORDS_A_SECOND = 33
"""Of each partition."""
GOAL_SECONDS = 0.5


class HandOver(NamedTuple):
    """Moments of one move, in seconds after the plan's record."""

    released: float
    """Before 0 where the former owner had left before the plan."""
    gained: float
    first_record: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=16)
    options = parser.parse_args()
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        create_topics(cluster.bootstrap, [TOPIC], options.partitions)
        planner = PlannerProcess(
            planner_command(cluster.bootstrap, directory, Timers()), directory / "daemon.log"
        )
        members = [
            Member(orders(cluster.bootstrap, number), directory)
            for number in range(options.members + 1)
        ]
        rate = RECORDS_A_SECOND * options.partitions
        producer = SteadyProducer(cluster.bootstrap, [TOPIC], options.partitions, rate)
        try:
            planner.start()
            planner.wait_for("lead", lambda: planner.count("daemon.leading"), 60)
            producer.start()
            move_partitions(planner, members, options.moves, options.partitions)
            stop_everything(members)
            plans = list(publications(cluster.bootstrap))
            print_times(list(hand_overs(journals(members, directory), plans)))
        finally:
            stop_everything(members)
            planner.stop()


def orders(bootstrap: str, number: int) -> Orders:
    """A member with short handlers."""
    return Orders(
        bootstrap=bootstrap,
        group=GROUP,
        topics=[TOPIC],
        instance=f"member-{number}",
        prefix=PREFIX,
        timers=asdict(Timers()),
        journal="",
        seed=number,
        max_poll_interval=300.0,
        handler=0.0005,
        long_every=1e9,
    )


def move_partitions(
    planner: PlannerProcess, members: list[Member], moves: int, partitions: int
) -> None:
    """Let the last member join and leave until enough partitions have moved to it."""
    *staying, guest = members
    for member in staying:
        settled = planner.count("handover.settled")
        member.start()
        await_hand_over(planner, settled + 1)
    # A guest gets its even share each time.
    for _ in range(-(-moves // (partitions // len(members)))):
        settled = planner.count("handover.settled")
        guest.start()
        await_hand_over(planner, settled + 1)
        time.sleep(1)
        settled = planner.count("handover.settled")
        guest.ask_to_end()
        guest.await_end()
        await_hand_over(planner, settled + 1)
        time.sleep(1)


def await_hand_over(planner: PlannerProcess, settled: int) -> None:
    """Wait until as many hand-overs are complete."""
    planner.wait_for("hand-over", lambda: planner.count("handover.settled") >= settled, 60)


def journals(members: Iterable[Member], directory: Path) -> list[list[Entry]]:
    """Entries of each process of each member."""
    lives = [life for member in members for life in member.lives]
    return [list(read_journal(directory / f"{life.name}.journal")) for life in lives]


def publications(bootstrap: str) -> Iterator[float]:
    """Boot times of the group's plans, from the time stamps of their records."""
    wall_minus_boot = time.time() - boot_time()
    topic = Topics(PREFIX).assignments
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    unread = set(reader.list_topics(topic, timeout=10).topics[topic].partitions)
    reader.assign([TopicPartition(topic, number, 0) for number in unread])
    while unread:
        for message in reader.consume(1000, 1):
            if message.error() is not None:
                unread.discard(message.partition())
            elif isinstance(decode("assignments", message.key(), message.value()), GroupRecord):
                yield message.timestamp()[1] / 1000 - wall_minus_boot
    reader.close()


def hand_overs(lives: Iterable[list[Entry]], plans: list[float]) -> Iterator[HandOver]:
    """Every gain of a partition that had an owner before."""
    lives = list(lives)
    released: dict[int, list[float]] = {}
    for entries in lives:
        for entry in entries:
            if entry.event == "released":
                released.setdefault(entry.number, []).append(entry.at)
    for entries in lives:
        for index, entry in enumerate(entries):
            if entry.event != "gained":
                continue
            former = [at for at in released.get(entry.number, ()) if at <= entry.at]
            begun = [
                later.at
                for later in entries[index:]
                if later.event == "begin" and later.number == entry.number
            ]
            plan = max((at for at in plans if at <= entry.at), default=None)
            if former and begun and plan is not None:
                yield HandOver(max(former) - plan, entry.at - plan, begun[0] - plan)


def print_times(found: list[HandOver]) -> None:
    moved = [move for move in found if move.released > 0]
    freed = [move for move in found if move.released <= 0]
    for name, moves in (("moved", moved), ("freed", freed)):
        print(f"{name}: {len(moves)} partitions, seconds after the plan's record")
        if moves:
            for moment in HandOver._fields:
                if moment != "released" or name == "moved":
                    print(f"  {moment:13} {quantiles([getattr(move, moment) for move in moves])}")
    late = sum(move.first_record > GOAL_SECONDS for move in moved)
    print(f"moved later than {GOAL_SECONDS} s: {late} of {len(moved)}")


if __name__ == "__main__":
    main()
