"""Hand-over of a healthy partition: from the published plan to the first record at the new owner.

    python tests/benchmarks/bench_handover.py [--moves 200] [--members 4] [--partitions 16]

Real brokers, member processes and the daemon, timers as in production, no Spark. A further member
joins and leaves again and again: each time partitions move. A hand-over begins with the time stamp
of the plan's record and ends when the new owner's handler begins. Records arrive all the time, so
that a partition's first record waits for the next one of its topic, 15 ms on average. `moved` are
partitions that one running member gives up and another gets; `freed` were given up by the member
that left before the plan, so that only the second half of a hand-over is measured. The steps of a
hand-over are shown one below the other; each begins where the one before it ends.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import GroupRecord, MemberAssignment, MemberRecord, decode
from levelwind.assignors.protocol.topics import Topics
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.chaos.chaos_run import PREFIX, planner_command
from levelwind_testing.chaos.chaos_worker import Orders, boot_time
from levelwind_testing.chaos.crew import Member, PlannerProcess, stop_everything
from levelwind_testing.chaos.journal import read_journal
from levelwind_testing.chaos.traffic import SteadyProducer, create_topics
from levelwind_testing.quantiles import quantiles

GROUP, TOPIC = "moved", "moving"
RECORDS_A_SECOND = 33
"""Of each partition."""
GOAL_SECONDS = 0.5
BACKLOG_SECONDS = 5.0
"""Time in which members work off what was written before they were ready."""
CLOCK_SECONDS = 0.002
"""Precision of time stamps."""


LOG_LINE = re.compile(r"([\d-]+ [\d:,]+) \w+ (member\.\w+) ")
EPOCH = re.compile(r" epoch=(\d+)")
STEPS = {
    "read": "the former owner reads the plan's records",
    "revoking": "its application's thread begins to revoke",
    "released": "processed offsets are committed, partitions given up",
    "acked": "the release is announced",
    "granted": "the daemon reads that and publishes the grant",
    "received": "the new owner reads the grant",
    "gained": "its application's thread has the committed offsets",
    "first_record": "the first record is fetched and handed out",
}


class HandOver(NamedTuple):
    """Moments of one move, in seconds after the plan's record; None where there is none."""

    read: float | None
    revoking: float | None
    released: float | None
    acked: float | None
    granted: float
    received: float
    gained: float
    first_record: float


@dataclass(slots=True)
class ProcessMoments:
    """One process of a member: boot times of what it did, by partition or by epoch."""

    received: dict[int, float] = field(default_factory=dict)
    """When each assignment was read, by its epoch."""
    revoking: list[float] = field(default_factory=list)
    gained: dict[int, list[float]] = field(default_factory=dict)
    released: dict[int, list[float]] = field(default_factory=dict)
    begun: dict[int, list[float]] = field(default_factory=dict)
    """Beginnings of handlers."""
    incarnations: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TopicContents:
    """What stands in levelwind's topics, each with its boot time, oldest first."""

    plans: list[float] = field(default_factory=list)
    announced: list[tuple[float, MemberRecord]] = field(default_factory=list)
    assigned: list[tuple[float, MemberAssignment]] = field(default_factory=list)


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
            begun = start_staying(planner, members[:-1])
            move_partitions(planner, members, options.moves, options.partitions)
            stop_everything(members)
            wall_minus_boot = time.time() - boot_time()
            written = read_topics(cluster.bootstrap, wall_minus_boot)
            lives = list(read_lives(members, directory, wall_minus_boot))
            written.plans = [at for at in written.plans if at > begun]
            print_times(list(hand_overs(lives, written)))
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


def start_staying(planner: PlannerProcess, staying: list[Member]) -> float:
    """Start the members that stay; return the boot time from which on their work is up to date."""
    for member in staying:
        settled = planner.count("handover.settled")
        member.start()
        await_hand_over(planner, settled + 1)
    time.sleep(BACKLOG_SECONDS)
    return boot_time()


def move_partitions(
    planner: PlannerProcess, members: list[Member], moves: int, partitions: int
) -> None:
    """Let the last member join and leave until enough partitions have moved to it."""
    guest = members[-1]
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


def read_lives(
    members: Iterable[Member], directory: Path, wall_minus_boot: float
) -> Iterator[ProcessMoments]:
    """Read the journal and the log of each process of each member."""
    for name in (life.name for member in members for life in member.lives):
        life = ProcessMoments()
        for entry in read_journal(directory / f"{name}.journal"):
            life.incarnations.add(entry.incarnation)
            moments = {"gained": life.gained, "released": life.released, "begin": life.begun}
            if entry.event in moments:
                moments[entry.event].setdefault(entry.number, []).append(entry.at)
        for line in (directory / f"{name}.log").read_text().splitlines():
            if (match := LOG_LINE.match(line)) is None:
                continue
            at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
            if match[2] == "member.assignment_received":
                life.received[int(EPOCH.search(line)[1])] = at - wall_minus_boot
            elif match[2] == "member.revoking":
                life.revoking.append(at - wall_minus_boot)
        yield life


def read_topics(bootstrap: str, wall_minus_boot: float) -> TopicContents:
    """Read the group's records with the time stamps that their producers gave them."""
    topics = Topics(PREFIX)
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    unread = {
        (topic, number)
        for topic in (topics.members, topics.assignments)
        for number in reader.list_topics(topic, timeout=10).topics[topic].partitions
    }
    reader.assign([TopicPartition(*partition, 0) for partition in unread])
    written = TopicContents()
    while unread:
        for message in reader.consume(1000, 1):
            if message.error() is not None:
                unread.discard((message.topic(), message.partition()))
                continue
            kind = "members" if message.topic() == topics.members else "assignments"
            at = message.timestamp()[1] / 1000 - wall_minus_boot
            match decode(kind, message.key(), message.value()):
                case GroupRecord():
                    written.plans.append(at)
                case MemberRecord() as record:
                    written.announced.append((at, record))
                case MemberAssignment() as record:
                    written.assigned.append((at, record))
    reader.close()
    return written


def hand_overs(lives: list[ProcessMoments], written: TopicContents) -> Iterator[HandOver]:
    """Every gain of a partition that had an owner before."""
    for life in lives:
        for number, gains in life.gained.items():
            for gained in gains:
                first_record = next((at for at in life.begun.get(number, ()) if at >= gained), None)
                former, released = max(
                    (
                        (other, at)
                        for other in lives
                        for at in other.released.get(number, ())
                        if at <= gained
                    ),
                    key=lambda release: release[1],
                    default=(None, 0.0),
                )
                plan = max((at for at in written.plans if at <= gained), default=None)
                if first_record is None or former is None or plan is None:
                    continue
                granted, received = grant_of(life, number, gained, written)
                before = released_by(former, number, plan, released, written)
                moments = (*before, granted, received, gained, first_record)
                yield HandOver(*(None if at is None else at - plan for at in moments))


def grant_of(
    life: ProcessMoments, number: int, gained: float, written: TopicContents
) -> tuple[float, float]:
    """When the record that granted a partition was written, and when its member read it."""
    found: tuple[float, float] | None = None
    had = False
    for at, record in written.assigned:
        if record.incarnation in life.incarnations and at <= gained:
            has = number in record.assigned.get(TOPIC, ())
            if has and not had:
                found = (at, life.received[record.member_epoch])
            had = has
    assert found is not None, f"partition {number} was not granted before {gained}"
    return found


def released_by(
    former: ProcessMoments, number: int, plan: float, released: float, written: TopicContents
) -> tuple[float | None, float | None, float | None, float | None]:
    """When a former owner read the plan, began to revoke, gave a partition up, and said so."""
    if released <= plan:
        return None, None, None, None
    read = min(at for at in former.received.values() if at >= plan)
    revoking = max(at for at in former.revoking if at <= released)
    acked = min(
        at
        for at, record in written.announced
        if record.incarnation in former.incarnations
        and at >= released - CLOCK_SECONDS
        and number not in record.owned.get(TOPIC, ())
    )
    return read, revoking, released, acked


def print_times(found: list[HandOver]) -> None:
    moved = [move for move in found if move.released is not None]
    freed = [move for move in found if move.released is None]
    for name, moves in (("moved", moved), ("freed", freed)):
        print(f"\n{name}: {len(moves)} partitions, seconds after the plan's record")
        if moves:
            print_steps(moves)
    late = sum(move.first_record > GOAL_SECONDS for move in moved)
    print(f"\nmoved later than {GOAL_SECONDS} s: {late} of {len(moved)}")


def print_steps(moves: list[HandOver]) -> None:
    """Print how long each step takes, and all together."""
    before = [0.0] * len(moves)
    for step, words in STEPS.items():
        after = [getattr(move, step) for move in moves]
        if None not in after:
            took = [end - begin for begin, end in zip(before, after, strict=True)]
            print(f"  {words:56} {quantiles(took, digits=3)}")
            before = after
    print(f"  {'all':56} {quantiles(before, digits=3)}")


if __name__ == "__main__":
    main()
