"""Seconds from the end of a daemon until the next one leads its proxied group on.

    python tests/benchmarks/bench_proxied_lead.py [--rounds 4]

Three real brokers and two unmodified confluent-kafka consumers, which never restart. In each round
the daemon is killed and started anew, killed beside a standby, asked to stop beside a standby, and
asked to stop and started anew. In the end all that was written was read, and no partition was two
members' at once.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from itertools import count
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes.proxied_stage import ProxiedStage
from levelwind_testing.quantiles import quantiles

ENDS = {
    "killed, and started anew": (False, True),
    "killed beside a standby": (True, True),
    "stopped beside a standby": (True, False),
    "stopped, and started anew": (False, False),
}
"""Ends of a daemon: whether another stands by, and whether the daemon is killed."""


class Topics:
    """Makes the topics of a stage."""

    def __init__(self, bootstrap):
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name, partitions, replication):
        self.admin.create_topics([NewTopic(name, partitions, replication)])[name].result(30)


def end_daemon(stage, *, beside, killed):
    """End the newest daemon; return the seconds until another one leads."""
    ending = stage.daemon
    if beside:
        stage.start_stand_by()
    begun = time.monotonic()
    if killed:
        ending.kill()
    else:
        ending.stop()
    if not beside:
        stage.start_daemon()
    stage.wait(stage.leads, "lead")
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    numbers, seconds = count(), defaultdict(list)
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as directory:
        stage = ProxiedStage(
            {"bootstrap.servers": cluster.bootstrap},
            Topics(cluster.bootstrap),
            lambda stem: f"{stem}-{next(numbers)}",
            Path(directory),
        )
        try:
            stage.lead_two()
            stage.level()
            members = stage.members.copy()
            for _ in range(options.rounds):
                for end, (beside, killed) in ENDS.items():
                    seconds[end].append(end_daemon(stage, beside=beside, killed=killed))
                    if not stage.is_leveled():
                        raise SystemExit(f"{end}: the lead was lost")
            if stage.members != members:
                raise SystemExit("a member restarted")
            stage.nothing_was_lost_or_shared()
        finally:
            stage.stop()
    for end, measured in seconds.items():
        print(f"{end}: {quantiles(measured)} ({len(measured)} times)")


if __name__ == "__main__":
    main()
