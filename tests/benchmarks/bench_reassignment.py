"""How soon a reassignment of replicas in Kafka becomes a published plan: real brokers, the whole daemon, consumers that follow.

    python tests/benchmarks/bench_reassignment.py [--rounds 30] [--partitions 12] [--set observer.metadata_interval=0.5]

Each round moves all replicas of a topic to the next rack and waits for the plan that takes its partitions to consumers there.
Time runs from the brokers' word that they took the reassignment (`asked`), or from when the metadata that any client is given
names the new replicas, and no others (`placed`, looked at every 20 ms); it ends when the plan's transaction is committed. All
intervals are the defaults, but for the cool-down between two plans of a group: there is none.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from assignors.handover.timers import Timers
from deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.kafka import reassignment
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.followers import Follower
from levelwind_testing.quantiles import quantiles

GROUP, TOPIC, PREFIX = "moved", "moving", "levelwind."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument(
        "--set", action="append", default=[], help="a setting of the daemon's, as in levelwind run"
    )
    options = parser.parse_args()
    settings = ("control.cooldown.duration=0", f"groups.{GROUP}.strategy=range", *options.set)
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as directory:
        daemon = DaemonProcess(cluster.bootstrap, Path(directory), *settings)
        try:
            daemon.wait_for("the lead", lambda: daemon.logged("daemon.leading"), 180)
            told(measured(cluster.bootstrap, daemon, options.rounds, options.partitions))
        finally:
            daemon.stop()


def measured(
    bootstrap: str, daemon: DaemonProcess, rounds: int, partitions: int
) -> list[tuple[float, float]]:
    """Of each round, the seconds since it was asked for, and since it was in place."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    placement = [[number % 3 + 1] for number in range(partitions)]
    admin.create_topics([NewTopic(TOPIC, partitions, replica_assignment=placement)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(partitions):
        producer.produce(TOPIC, b"x", partition=number)
    producer.flush()
    followers = [
        Follower(
            bootstrap,
            PREFIX,
            GROUP,
            TOPIC,
            instance=f"at-{rack}",
            rack=rack,
            timers=Timers(),
            journal=[],
        )
        for rack in "abc"
    ]
    try:
        daemon.wait_for("the first plan", lambda: all(follower.owned for follower in followers))
        daemon.wait_for("its end", lambda: daemon.logged("handover.settled", group=GROUP))
        daemon.wait_for("the pipeline", lambda: daemon.logged("pipeline.caught_up"), 180)
        time.sleep(10)  # it is warm then, and has heard of the group's commits
        return [
            one_round(bootstrap, daemon, admin, number, partitions)
            for number in range(1, rounds + 1)
        ]
    finally:
        for follower in followers:
            follower.stop()


def one_round(
    bootstrap: str, daemon: DaemonProcess, admin: AdminClient, number: int, partitions: int
) -> tuple[float, float]:
    """Every partition goes to the next broker, and so to the next rack."""
    placement = {partition: [(partition + number) % 3 + 1] for partition in range(partitions)}
    before = len(daemon.logged("plan.published", group=GROUP, cause="racks"))
    settled = len(daemon.logged("handover.settled", group=GROUP))
    time.sleep(0.1 * (number % 7))  # not in step with the observer
    seen: list[float] = []
    watch = threading.Thread(target=lambda: seen.append(placed(admin, placement)))
    watch.start()
    asked = time.time()
    reassignment.reassign(bootstrap, TOPIC, placement)
    watch.join()

    def plans() -> Sequence[dict[str, Any]]:
        said = daemon.logged("plan.published", group=GROUP, cause="racks")[before:]
        return [plan for plan in said if plan["after"]["cross_rack"] == 0.0]

    plan = daemon.wait_for("the plan", plans)[0]
    at = datetime.fromisoformat(plan["time"]).timestamp()
    print(
        f"    round {number}: {at - asked:.2f} s since asked, {at - seen[0]:.2f} s since placed",
        flush=True,
    )
    daemon.wait_for(
        "the hand-over", lambda: len(daemon.logged("handover.settled", group=GROUP)) > settled
    )
    daemon.wait_for(
        "the trigger's end",
        lambda: (
            len(daemon.logged("trigger.cleared", group=GROUP))
            >= len(daemon.logged("trigger.raised", group=GROUP))
        ),
    )
    return at - asked, at - seen[0]


def placed(admin: AdminClient, placement: dict[int, list[int]]) -> float:
    """When the cluster's metadata says so."""
    while True:
        described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result()
        now = {one.id: [node.id for node in one.replicas] for one in described.partitions}
        if now == placement:
            return time.time()
        time.sleep(0.02)


def told(rounds: list[tuple[float, float]]) -> None:
    for name, delays in zip(("asked", "placed"), zip(*rounds, strict=True), strict=True):
        print(f"{name} to the published plan, {len(delays)} reassignments: {quantiles(delays)}")


if __name__ == "__main__":
    main()
