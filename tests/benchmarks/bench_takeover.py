"""Two daemons under a supervisor that are killed again and again, and a group that they plan for.

    python tests/benchmarks/bench_takeover.py [--minutes 10] [--factor 0.2] [--pause 10]
                                              [--seed 1]

Three real brokers, two daemons that are restarted a second after they end, and three consumers in
processes of their own. At random the leader, the standby or a consumer gets SIGKILL, or the leader
and a consumer together, or the leader is asked to stop. Printed beside their promises: take-overs
and ends of leaders, seconds from a leader's end to the next term and to the next plan that an
operator asks for, and seconds from the death of a consumer until the others own its partitions. It
ends with 1 if a promise was broken.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import OperatorRecord
from levelwind.daemon.config.settings import load
from levelwind.daemon.kafka.record_writer import outgoing, write
from levelwind.daemon.wall_clock import now_ms
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes.daemon_process import timer_settings
from levelwind_testing.processes.supervised_group import SupervisedGroup
from levelwind_testing.quantiles import quantiles

PREFIX, TOPIC = "lw.", "orders"
PARTITIONS = 6
WITHIN = 120.0
"""Seconds in which whatever is waited for comes, or the run has failed."""
STOP = "leader asked to stop"
FAULTS = ("leader", "leader", "standby", "member", "leader and member", STOP)
PLAN_SECONDS = 4.0
"""The promise from the end of a session to the next plan: 10 s after a kill by default."""
STOP_SECONDS = 2.0
"""The promise from SIGTERM to the next plan."""


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
        self.settings = load(overrides={"bootstrap": bootstrap, "prefix": PREFIX})
        self.seconds: dict[str, list[float]] = defaultdict(list)
        """What was measured, by its name."""
        self.leaders_ended = 0

    @property
    def promises(self) -> dict[str, float]:
        """The longest that each measured time may be, in seconds."""
        return {
            "from a kill to the next term": self.timers.takeover + PLAN_SECONDS,
            "from a kill to the next plan": self.timers.takeover + PLAN_SECONDS,
            "from SIGTERM to the next plan": STOP_SECONDS,
            "from a consumer's death until all is owned": (
                self.timers.dead_after + self.timers.grant + 5
            ),
        }

    def settle(self) -> None:
        """Wait until a daemon leads, the other stands by, and everything is owned."""
        self.leader(WITHIN)
        self.standbys_are_ready(WITHIN)
        self.all_is_owned(WITHIN)

    def strike(self, fault: str, drawn: random.Random) -> None:
        leader, terms, begun = self.leader(WITHIN), self.terms(), time.monotonic()
        if "leader" in fault:
            self.leaders_ended += 1
            if fault == STOP:
                leader.now.child.process.send_signal(signal.SIGTERM)
            else:
                leader.kill()
        if fault == "standby":
            self.others()[0].kill()
        if "member" in fault:
            self.members.pop(drawn.randrange(len(self.members))).kill()
        if "leader" in fault:
            self.wait("next term", lambda: self.terms() > terms, WITHIN)
            if fault != STOP:
                self.seconds["from a kill to the next term"].append(time.monotonic() - begun)
            self.plan_is_asked_for()
            end = "SIGTERM" if fault == STOP else "a kill"
            self.seconds[f"from {end} to the next plan"].append(time.monotonic() - begun)
        if "member" in fault:
            self.all_is_owned(WITHIN)
            waited = self.timers.takeover if "leader" in fault else 0.0
            seconds = time.monotonic() - begun - waited
            self.seconds["from a consumer's death until all is owned"].append(seconds)
            self.join(f"m{self.members_started}")
            self.members_started += 1

    def plan_is_asked_for(self) -> None:
        """Ask for a plan as an operator does, and wait for it."""
        asked = len(self.logged("plan.published"))
        request = OperatorRecord(
            group="group", at=now_ms(), by="bench", action="rebalance", reason="a new leader"
        )
        records = outgoing(self.settings.topics, "control", request, partitions=1)
        write(self.settings.client(), records, timeout=10)
        self.wait("plan", lambda: len(self.logged("plan.published")) > asked, WITHIN)


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
    print(f"terms {terms}, ends of a leader {run.leaders_ended}")
    kept = terms == run.leaders_ended + 1
    for name, promise in run.promises.items():
        if seconds := run.seconds[name]:
            print(f"{name}: {quantiles(seconds)} ({len(seconds)} times), promised {promise:.1f} s")
            kept &= max(seconds) <= promise
    print("kept" if kept else "BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
