"""Two daemons under a supervisor that are killed again and again, and a group that they plan for.

    python tests/benchmarks/bench_takeover.py [--minutes 10] [--factor 0.2] [--pause 10]
                                              [--seed 1]

Three real brokers, two daemons that are restarted a second after they end, and three consumers in
processes of their own. At random the leader, the standby or a consumer gets SIGKILL, or the leader
and a consumer together. Printed: take-overs beside kills of the leader, seconds from a kill to the
next term, and seconds from the death of a consumer until the others own its partitions, beside the
promise. It ends with 1 if a promise was broken.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from assignors.handover.timers import Timers
from deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.supervised_group import SupervisedGroup
from levelwind_testing.quantiles import quantiles

PREFIX, TOPIC = "lw.", "orders"
PARTITIONS = 6
WITHIN = 120.0
"""Seconds in which whatever is waited for comes, or the run has failed."""
FAULTS = ("leader", "leader", "standby", "member", "leader and member")


class Run(SupervisedGroup):
    """The daemons, the consumers, and what was measured."""

    def __init__(self, bootstrap: str, directory: Path, factor: float) -> None:
        super().__init__(bootstrap, PREFIX, TOPIC, partitions=PARTITIONS, replicas=3, factor=factor)
        self.timers = Timers().scaled(factor)
        settings = (
            "pipeline.run=elsewhere",
            "control.cooldown.duration=1",
            *timer_settings(self.timers),
        )
        # One after the other: two that find a cluster without a planner would both become it.
        self.start(directory / "one", *settings)
        self.leader(WITHIN)
        self.start(directory / "two", *settings)
        self.join("m0", "m1", "m2")
        self.members_started = 3
        self.took_over: list[float] = []
        self.owned_again: list[float] = []
        self.leaders_killed = 0

    def settle(self) -> None:
        """Wait until a daemon leads, the other stands by, and everything is owned."""
        self.leader(WITHIN)
        self.standbys_are_ready(WITHIN)
        self.all_is_owned(WITHIN)

    def strike(self, fault: str, drawn: random.Random) -> None:
        leader, terms, begun = self.leader(WITHIN), self.terms(), time.monotonic()
        if "leader" in fault:
            self.leaders_killed += 1
            leader.kill()
        if fault == "standby":
            self.others()[0].kill()
        if "member" in fault:
            self.members.pop(drawn.randrange(len(self.members))).kill()
        if "leader" in fault:
            self.wait("next term", lambda: self.terms() > terms, WITHIN)
            self.took_over.append(time.monotonic() - begun)
        if "member" in fault:
            self.all_is_owned(WITHIN)
            waited = self.timers.takeover if "leader" in fault else 0.0
            self.owned_again.append(time.monotonic() - begun - waited)
            self.join(f"m{self.members_started}")
            self.members_started += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--factor", type=float, default=0.2, help="of all timers")
    parser.add_argument("--pause", type=float, default=10.0, help="mean seconds between faults")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    drawn = random.Random(options.seed)
    with Cluster.start() as cluster, tempfile.TemporaryDirectory() as directory:
        run = Run(cluster.bootstrap, Path(directory), options.factor)
        try:
            run.settle()
            end = time.monotonic() + 60 * options.minutes
            while time.monotonic() < end:
                run.settle()
                time.sleep(drawn.expovariate(1 / options.pause))
                fault = drawn.choice(FAULTS)
                run.strike(fault, drawn)
                print(f"{fault}: {run.terms()} terms", flush=True)
            run.settle()
            time.sleep(3 * run.timers.takeover)
            # Before the stop, which makes a standby the leader for a moment.
            terms = run.terms()
        finally:
            run.stop()
        return report(run, terms)


def report(run: Run, terms: int) -> int:
    promise = run.timers.dead_after + run.timers.grant + 5
    print(f"terms {terms}, kills of the leader {run.leaders_killed}")
    for name, seconds in (
        ("from a kill to the next term", run.took_over),
        ("from a consumer's death until all is owned", run.owned_again),
    ):
        if seconds:
            print(f"{name}: {quantiles(seconds)} ({len(seconds)} times)")
    print(f"promised: {promise:.1f} s, take-over {run.timers.takeover:.1f} s")
    kept = terms == run.leaders_killed + 1 and max(run.owned_again, default=0) <= promise
    print("kept" if kept else "BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
