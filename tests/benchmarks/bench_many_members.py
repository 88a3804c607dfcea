"""A group of a thousand members: time until all of them follow a new plan.

    python tests/benchmarks/bench_many_members.py [--members 1000] [--partitions 2000]

Three real brokers and the daemon, timers as in production, no Spark. Members are real state
machines that announce real records, many in a process; they read no partition of the topic. Each
line is one change: seconds from the change to the plan, which waits until nothing has changed for
`control.settle` (1 s, and at most 5 s); from the plan until the daemon has read that every member
has given up, started and acknowledged (`handover.settled`); both together; partitions that changed
their owner; and CPU of the daemon meanwhile.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from levelwind.assignors.handover.timers import Timers
from levelwind.daemon.config.settings import load
from levelwind.daemon.inspection.rebalance import request_rebalance
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.chaos.chaos_run import PREFIX, planner_command
from levelwind_testing.chaos.crew import PlannerProcess
from levelwind_testing.chaos.programs import ENVIRONMENT
from levelwind_testing.chaos.traffic import create_topics
from levelwind_testing.processes import processes

GROUP, TOPIC = "many", "wide"
GOAL_SECONDS = 5.0
QUIET_SECONDS = 2.5
"""A hand-over is over when no other plan has come for so long after it."""
REST_SECONDS = 20.0


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

    def order(self, command: str, first: int, last: int) -> None:
        """Let members join or leave."""
        for index, process in enumerate(self._processes):
            # Numbers are dealt out in tens, so that whoever joined in a process leaves there.
            for begin in range(first - first % 10, last + 1, 10):
                if begin // 10 % len(self._processes) == index:
                    chosen = max(begin, first), min(begin + 9, last)
                    process.stdin.write(f"{command} {chosen[0]} {chosen[1]}\n")
            process.stdin.flush()

    def stop(self) -> None:
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait(10)


class ManyMembers:
    """The daemon and its members, and a table with a line for each change."""

    def __init__(self, planner: PlannerProcess, bootstrap: str, hosts: Hosts) -> None:
        self.hosts = hosts
        self._planner = planner
        settings = {"bootstrap": bootstrap, "prefix": PREFIX}
        self._settings = load(None, settings)
        print(f"{'':24}{'to the plan':>12}{'to all':>9}{'together':>10}{'moved':>7}{'CPU':>8}")

    def ask_for_plan(self) -> None:
        """Request a plan as an operator does."""
        request_rebalance(self._settings, GROUP, "benchmark")

    def change(self, name: str, act: Callable[[], Any]) -> None:
        """Make a change, and wait until the daemon is satisfied and plans no more."""
        planner = self._planner
        seen = planner.count("plan.published")
        before, begun = self._cpu(), time.time()
        act()
        planner.wait_for(f"plan after {name}", lambda: planner.count("plan.published") > seen, 60)
        planner.wait_for(f"end of {name}", lambda: self._settled_since(begun), 120)
        plans = planner.logged("plan.published")[seen:]
        settled = planner.logged("handover.settled")[-1]
        first, last = at(plans[0]) - begun, at(settled) - begun
        moved = sum(int(plan["moved"]) for plan in plans)
        more = f"  {len(plans)} plans" if len(plans) > 1 else ""
        missed = "  missed" if last > GOAL_SECONDS else ""
        print(
            f"{name:24}{first:10.2f} s{last - first:7.2f} s{last:8.2f} s{moved:7}"
            f"{self._cpu() - before:6.2f} s{missed}{more}",
            flush=True,
        )

    def rest(self) -> None:
        """Print what a group costs the daemon in which nothing happens."""
        before = self._cpu()
        time.sleep(REST_SECONDS)
        print(f"at rest: {100 * (self._cpu() - before) / REST_SECONDS:.1f} % of a core")
        print(f"evictions: {self._planner.count('member.evicted')}")

    def _settled_since(self, begun: float) -> bool:
        """Whether the newest plan is followed, and no other has come for a while."""
        settled = self._planner.logged("handover.settled")
        plan = self._planner.logged("plan.published")[-1]
        if not settled or at(settled[-1]) < max(at(plan), begun):
            return False
        return time.time() - at(settled[-1]) > QUIET_SECONDS

    def _cpu(self) -> float:
        return sum(used.cpu for used in processes.usage(self._planner.pid, stop="").values())


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
            measure(ManyMembers(planner, cluster.bootstrap, hosts), options.members)
        finally:
            hosts.stop()
            planner.stop()


def measure(scene: ManyMembers, members: int) -> None:
    """Print a line for each change."""
    tenth = max(members // 10, 1)
    order = scene.hosts.order
    scene.change(f"{members} members join", lambda: order("join", 1, members))
    first, last = members + 1, members + tenth
    scene.change("one member joins", lambda: order("join", first, first))
    scene.change("it leaves", lambda: order("leave", first, first))
    scene.change("an operator's request", scene.ask_for_plan)
    scene.change(f"{tenth} members join", lambda: order("join", first, last))
    scene.change("they leave", lambda: order("leave", first, last))
    scene.rest()


def at(event: dict[str, Any]) -> float:
    """Seconds of the wall clock at which the daemon logged an event."""
    return datetime.fromisoformat(event["time"]).timestamp()


if __name__ == "__main__":
    main()
