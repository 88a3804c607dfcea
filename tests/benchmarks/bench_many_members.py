"""A group of a thousand members: time until all of them follow a new plan.

    python tests/benchmarks/bench_many_members.py [--members 1000] [--partitions 2000]

Real brokers and the daemon, timers as in production, no Spark. Members are real state machines that
announce real records, many in a process; they read no partition. Each line is one change: seconds
from the change to the plan, which waits until nothing has changed for `control.settle` (1 s), and
from the plan's record in the log until the daemon has read that every member has given up, started
and acknowledged (`handover.settled`).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from assignors.handover.timers import Timers
from deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.chaos.chaos_run import PREFIX, planner_command
from levelwind_testing.chaos.crew import PlannerProcess
from levelwind_testing.chaos.programs import ENVIRONMENT
from levelwind_testing.chaos.traffic import create_topics

GROUP, TOPIC = "many", "wide"
GOAL_SECONDS = 5.0


class Hosts:
    """Processes of members; a member belongs to the process of its number."""

    def __init__(self, bootstrap: str, count: int) -> None:
        command = [sys.executable, "-m", "levelwind_testing.processes.member_host"]
        self._processes = [
            subprocess.Popen(
                [*command, bootstrap, PREFIX, GROUP, TOPIC],
                stdin=subprocess.PIPE,
                text=True,
                env=ENVIRONMENT,
            )
            for _ in range(count)
        ]

    def tell(self, command: str, first: int, last: int) -> None:
        """Let members join or leave, an equal share of them in each process."""
        share = -(-(last - first + 1) // len(self._processes))
        for index, process in enumerate(self._processes):
            begin = first + index * share
            if begin <= last:
                process.stdin.write(f"{command} {begin} {min(begin + share - 1, last)}\n")
                process.stdin.flush()

    def stop(self) -> None:
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        create_topics(cluster.bootstrap, [TOPIC], options.partitions, replicas=1)
        planner = PlannerProcess(
            planner_command(cluster.bootstrap, directory, Timers()), directory / "daemon.log"
        )
        planner.start()
        planner.wait_for("lead", lambda: planner.count("daemon.leading"), 90)
        hosts = Hosts(cluster.bootstrap, options.processes)
        time.sleep(3)
        try:
            measure(planner, hosts, options.members)
        finally:
            hosts.stop()
            planner.stop()


def measure(planner: PlannerProcess, hosts: Hosts, members: int) -> None:
    """Print a line for each change."""
    tenth = max(members // 10, 1)
    print(f"{'change':28}{'to the plan':>12}{'plan to all':>12}{'moves':>7}")
    change(planner, f"{members} members join", lambda: hosts.tell("join", 1, members))
    first = members + 1
    change(planner, "one member joins", lambda: hosts.tell("join", first, first))
    change(planner, "it leaves", lambda: hosts.tell("leave", first, first))
    last = members + tenth
    change(planner, f"{tenth} members join", lambda: hosts.tell("join", first, last))
    change(planner, "they leave", lambda: hosts.tell("leave", first, last))
    time.sleep(30)
    print(f"evictions: {planner.count('member.evicted')}")


def change(planner: PlannerProcess, name: str, act: Any) -> None:
    """Make a change, and wait until the daemon is satisfied and plans no more."""
    seen = planner.count("plan.published")
    begun = time.time()
    act()
    planner.wait_for(f"plan after {name}", lambda: planner.count("plan.published") > seen, 60)
    planner.wait_for(f"end of {name}", lambda: _is_settled(planner), 120)
    plans = planner.logged("plan.published")[seen:]
    first, settled = plans[0], planner.logged("handover.settled")[-1]
    took = _at(settled) - _at(first)
    missed = "  missed" if took > GOAL_SECONDS else ""
    more = f"  ({len(plans)} plans)" if len(plans) > 1 else ""
    moves = sum(int(plan.get("moves", 0)) for plan in plans)
    print(f"{name:28}{_at(first) - begun:10.2f} s{took:10.2f} s{moves:7}{missed}{more}", flush=True)


def _is_settled(planner: PlannerProcess) -> bool:
    """Whether the newest plan is followed, and no other comes within a while."""
    settled = planner.logged("handover.settled")
    plan = planner.logged("plan.published")[-1]
    return bool(settled) and _at(settled[-1]) >= _at(plan) and time.time() - _at(settled[-1]) > 2.5


def _at(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


if __name__ == "__main__":
    main()
