"""Time from a reassignment of replicas in Kafka to the published plan, with the whole daemon.

    python tests/benchmarks/bench_reassignment.py [--rounds 30] [--partitions 12]
                                                  [--set observer.metadata_interval=0.5]

Real brokers, and consumers that follow their assignments. Each round moves all replicas of a topic
to the next rack and waits for the plan that takes its partitions to consumers there. Time runs
from the request that the brokers accepted (`asked`), or from when the metadata that any client
reads has the new replicas and no others (`placed`, read every 20 ms). It ends when the plan's
transaction is committed. All intervals are the defaults, but the cool-down between two plans of a
group is off.
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

from levelwind.assignors.handover.timers import Timers
from levelwind.deploy.cluster import Cluster

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
        "--set", action="append", default=[], help="a setting of the daemon, as in levelwind run"
    )
    options = parser.parse_args()
    settings = ("control.cooldown.duration=0", f"groups.{GROUP}.strategy=range", *options.set)
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as directory:
        daemon = DaemonProcess(cluster.bootstrap, Path(directory), *settings)
        try:
            daemon.wait_for("the lead", lambda: daemon.logged("daemon.leading"), 180)
            print_delays(
                measure_rounds(cluster.bootstrap, daemon, options.rounds, options.partitions)
            )
        finally:
            daemon.stop()


def measure_rounds(
    bootstrap: str, daemon: DaemonProcess, rounds: int, partitions: int
) -> list[tuple[float, float]]:
    """Seconds from asked to the plan and from placed to the plan, by round."""
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
        daemon.wait_for(
            "the end of its hand-over", lambda: daemon.logged("handover.settled", group=GROUP)
        )
        daemon.wait_for("the pipeline", lambda: daemon.logged("pipeline.caught_up"), 180)
        time.sleep(10)  # the pipeline is warm then, and has read the group's commits
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
    """Move every partition to the next broker, and so to the next rack."""
    placement = {partition: [(partition + number) % 3 + 1] for partition in range(partitions)}
    before = len(daemon.logged("plan.published", group=GROUP, cause="racks"))
    settled = len(daemon.logged("handover.settled", group=GROUP))
    time.sleep(0.1 * (number % 7))  # out of step with the observer
    placed: list[float] = []
    watch = threading.Thread(target=lambda: placed.append(placed_at(admin, placement)))
    watch.start()
    asked = time.time()
    reassignment.reassign(bootstrap, TOPIC, placement)
    watch.join()

    def plans() -> Sequence[dict[str, Any]]:
        published = daemon.logged("plan.published", group=GROUP, cause="racks")[before:]
        return [plan for plan in published if plan["after"]["cross_rack"] == 0.0]

    plan = daemon.wait_for("the plan", plans)[0]
    at = datetime.fromisoformat(plan["time"]).timestamp()
    print(
        f"    round {number}: {at - asked:.2f} s since asked, {at - placed[0]:.2f} s since placed",
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
    return at - asked, at - placed[0]


def placed_at(admin: AdminClient, placement: dict[int, list[int]]) -> float:
    """Wait until the cluster's metadata has a placement; the time, seconds since the epoch."""
    while True:
        described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result()
        current = {
            partition.id: [node.id for node in partition.replicas]
            for partition in described.partitions
        }
        if current == placement:
            return time.time()
        time.sleep(0.02)


def print_delays(rounds: list[tuple[float, float]]) -> None:
    for name, delays in zip(("asked", "placed"), zip(*rounds, strict=True), strict=True):
        print(f"{name} to the published plan, {len(delays)} reassignments: {quantiles(delays)}")


if __name__ == "__main__":
    main()
