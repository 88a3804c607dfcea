"""One chaos run: brokers behind a proxy, eight workers, the daemon, faults, and the check.

`run` starts everything, lets faults happen for a while, ends them, waits until all is committed,
and checks offline what was done. Timers are those of production times a factor, for members and
the daemon alike, so that many faults fit into minutes.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind_testing.chaos.chaos_plan import ChaosPlan
from levelwind_testing.chaos.chaos_worker import CALM_FILE, Orders, boot_time
from levelwind_testing.chaos.checker import (
    CLOCKS_DIFFER_SECONDS,
    Findings,
    GroupHistory,
    ProcessRecord,
    check,
)
from levelwind_testing.chaos.commit_history import read_commits
from levelwind_testing.chaos.crew import Member, PlannerProcess, stop_everything
from levelwind_testing.chaos.journal import Partition, read_journal
from levelwind_testing.chaos.proxied_cluster import ProxiedCluster, proxied_cluster
from levelwind_testing.chaos.traffic import SteadyProducer, create_topics
from levelwind_testing.chaos.weather import Weather
from levelwind_testing.processes.daemon_process import daemon_command
from levelwind_testing.waiting import wait_until

log = logging.getLogger("chaos.run")

PREFIX = "chaos."
MUTANT_DAEMON = "levelwind_testing.chaos.mutant_daemon"
MOST_MOVED_SECONDS = 0.5
"""The most by which the brokers' wall clock may be set during a run: else commits have no time."""
REPEAT_SECONDS = 10.0
"""Time after which a partition that is not committed gets another record, in case the application
committed by itself and that failed."""
MODES = ((1, "auto"), (20, "auto"), (1, "sync"), (20, "async"))
"""Records of a call and who commits, in turn over the members."""


@dataclass(slots=True, kw_only=True)
class ChaosReport:
    """What happened in a run."""

    plan: ChaosPlan
    findings: dict[str, Findings] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    """Kinds of faults of the plan that never began."""
    events: Counter[str] = field(default_factory=Counter)
    """Events in the daemon's log."""
    problems: list[str] = field(default_factory=list)
    """Processes that ended by themselves, and groups that did not settle."""
    settled: float = 0.0
    """Seconds from the end of the faults until everything was committed."""

    @property
    def violations(self) -> list[str]:
        """Everything that must not have happened."""
        return [*self.problems, *(v for f in self.findings.values() for v in f.violations)]

    def text(self) -> str:
        """The report for a reader."""
        plan = self.plan
        members = sum(group.members for group in plan.groups)
        lines = [
            f"chaos: seed {plan.seed}, {plan.seconds:g} s, {members} members, x {plan.scale:g}",
            *([f"  MUTANT: {plan.mutant}"] if plan.mutant else []),
            f"  faults ({self.faults.total()}): {_shown(self.faults)}",
            *([f"  none of: {', '.join(self.missing)}"] if self.missing else []),
            f"  the daemon: {_shown(self.events)}",
            f"  all committed {self.settled:.1f} s after the last fault",
        ]
        lines += [
            f"  group {name}: {_shown(findings.counts)}" for name, findings in self.findings.items()
        ]
        violations = self.violations
        lines.append(f"  violations: {len(violations)}")
        lines += [f"    {text}" for text in violations[:20]]
        return "\n".join(lines)


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items())) or "nothing"


def run(plan: ChaosPlan, directory: Path) -> ChaosReport:
    """Run once; journals and logs stay in the directory."""
    report = ChaosReport(plan=plan)
    directory.mkdir(parents=True)
    with (
        proxied_cluster(directory / "brokers") as cluster,
        _running(plan, directory, cluster) as scene,
    ):
        began = _clocks()
        scene.let_faults_happen(report)
        log.info("every fault has ended")
        scene.producer.stop()
        calm_at = time.monotonic()
        log.info("every record is written")
        scene.await_commits(report)
        report.settled = time.monotonic() - calm_at
        report.problems += filter(None, (member.crashed() for member in scene.members))
        stop_everything(scene.members)
        report.problems += [
            f"{name} did not end when it was asked to: its log says where it was"
            for member in scene.members
            for name in member.stuck()
        ]
        ended = _clocks()
        moved = abs(ended - began)
        if moved > MOST_MOVED_SECONDS:
            report.problems.append(f"the wall clock moved by {moved:.3f} s in the run")
        scene.check(report, (began + ended) / 2, moved)
        scene.planner.stop()
        report.events = scene.planner.events()
    return report


def _clocks() -> float:
    return time.time() - boot_time()


@dataclass(slots=True)
class Scene:
    """The running parts of a chaos run."""

    plan: ChaosPlan
    directory: Path
    cluster: ProxiedCluster
    planner: PlannerProcess
    members: list[Member]
    producer: SteadyProducer
    timers: Timers
    readers: dict[str, Consumer] = field(default_factory=dict)
    """Clients that ask for offsets, by group."""

    @property
    def bootstrap(self) -> str:
        """Address of the cluster, behind the proxy."""
        return self.cluster.cluster.bootstrap

    def await_begin(self) -> None:
        """Wait until every group works on every partition.

        Raises:
            AssertionError: it does not; the text quotes the daemon's log.
        """
        self.planner.wait_for(
            "commit of every partition",
            lambda: all(self._has_begun(group.name) for group in self.plan.groups),
            within=self.plan.settle,
        )

    def _has_begun(self, group: str) -> bool:
        committed = self._committed(group)
        return bool(committed) and min(committed.values()) > 0

    def let_faults_happen(self, report: ChaosReport) -> None:
        """Let faults happen for the time of the plan, then end them all."""
        plan = self.plan
        (self.directory / CALM_FILE).unlink()
        weather = Weather(plan.seed, self.cluster, self.members, self.planner, self.timers)
        if plan.faults:
            enough = (lambda: True) if plan.only else self._each_group_lost_partitions
            weather.blow(plan.seconds, plan.pause, plan.only, enough=enough)
        else:
            weather.come_and_go(plan.seconds, 20 * plan.scale)
        weather.calm()
        (self.directory / CALM_FILE).touch()
        report.faults = weather.counts
        if plan.faults:
            report.missing = sorted({*(plan.only or weather.kinds)} - weather.counts.keys())

    def _each_group_lost_partitions(self) -> bool:
        """Whether a member of each group has lost what it had: else the run tells little of it."""
        return all(
            any(b'"lost"' in path.read_bytes() for path in self.directory.glob(f"{name}-*.journal"))
            for name in (group.name for group in self.plan.groups)
        )

    def await_commits(self, report: ChaosReport) -> None:
        """Wait until every group has committed every record."""
        behind = self._behind()
        for _ in range(round(self.plan.settle / REPEAT_SECONDS)):
            if not behind:
                break
            self.producer.write_one_more({partition for _, partition in behind})
            with suppress(AssertionError):
                wait_until(
                    "commit of everything", lambda: not self._behind(), REPEAT_SECONDS, pause=0.5
                )
            behind = self._behind()
        for (group, partition), (committed, end) in behind.items():
            report.problems.append(
                f"{group} {partition.topic}[{partition.number}] was not committed within"
                f" {self.plan.settle:g} s: {committed} of {end}"
            )

    def _behind(self) -> dict[tuple[str, Partition], tuple[int | None, int]]:
        """Partitions of groups whose commit is not the log's end, with both offsets."""
        ends = self._ends()
        behind = {}
        for group in self.plan.groups:
            committed = self._committed(group.name)
            for partition, end in ends.items():
                if committed.get(partition) != end:
                    behind[group.name, partition] = (committed.get(partition), end)
        return behind

    def check(self, report: ChaosReport, wall_minus_boot: float, moved: float) -> None:
        """Check offline what every group did, with clocks that moved against each other."""
        groups = self.plan.groups
        commits = read_commits(self.bootstrap, [group.name for group in groups], wall_minus_boot)
        for group in groups:
            report.findings[group.name] = check(
                GroupHistory(
                    name=group.name,
                    processes=self._processes(group.name),
                    commits=commits[group.name],
                    committed=self._committed(group.name),
                    ends=self._ends(),
                    fenced=group.fencing is not None,
                    clocks_differ=CLOCKS_DIFFER_SECONDS + moved,
                )
            )

    def _processes(self, group: str) -> list[ProcessRecord]:
        lives = [life for m in self.members if m.orders.group == group for life in m.lives]
        records = []
        for life in lives:
            path = self.directory / f"{life.name}.journal"
            records.append(
                ProcessRecord(
                    name=life.name,
                    entries=list(read_journal(path)) if path.exists() else [],
                    ended=boot_time() if life.ended is None else life.ended,
                    pauses=life.pauses,
                )
            )
        return records

    def _ends(self) -> dict[Partition, int]:
        reader = self._reader("ends")
        return {
            partition: reader.get_watermark_offsets(TopicPartition(*partition), timeout=30)[1]
            for partition in self._partitions()
        }

    def _committed(self, group: str) -> dict[Partition, int]:
        """Committed offsets of a group; empty if the brokers do not answer."""
        asked = [TopicPartition(*partition) for partition in self._partitions()]
        try:
            answer = self._reader(group).committed(asked, timeout=10)
        except KafkaException as error:
            log.info("committed offsets: %s", error.args[0].str())
            return {}
        return {Partition(p.topic, p.partition): max(p.offset, 0) for p in answer}

    def _reader(self, group: str) -> Consumer:
        if group not in self.readers:
            self.readers[group] = Consumer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "log_level": 0,
                }
            )
        return self.readers[group]

    def _partitions(self) -> Sequence[Partition]:
        plan = self.plan
        return [Partition(t, n) for t in topics_of(plan) for n in range(plan.partitions)]


def topics_of(plan: ChaosPlan) -> list[str]:
    """Names of the topics of a run."""
    return [f"work-{number}" for number in range(plan.topics)]


@contextmanager
def _running(plan: ChaosPlan, directory: Path, cluster: ProxiedCluster) -> Iterator[Scene]:
    """Start the daemon, the members and the traffic."""
    timers = plan.timers
    bootstrap = cluster.cluster.bootstrap
    planner = PlannerProcess(
        planner_command(bootstrap, directory, timers, plan.mutant), directory / "daemon.log"
    )
    topics = topics_of(plan)
    members = [
        Member(
            Orders(
                bootstrap=bootstrap,
                group=group.name,
                topics=topics,
                instance=f"{group.name}-{number}",
                prefix=PREFIX,
                timers=asdict(timers),
                journal="",
                seed=1000 * plan.seed + 100 * index + 10 * number,
                fencing=group.fencing,
                batch=MODES[number % len(MODES)][0],
                commits=MODES[number % len(MODES)][1],
                max_poll_interval=plan.max_poll_interval,
                long_every=plan.long_every,
                mutant=plan.mutant,
            ),
            directory,
        )
        for index, group in enumerate(plan.groups)
        for number in range(group.members)
    ]
    producer = SteadyProducer(bootstrap, topics, plan.partitions, plan.rate)
    create_topics(bootstrap, topics, plan.partitions)
    (directory / CALM_FILE).touch()  # handlers are short until faults happen
    try:
        planner.start()
        planner.wait_for("lead", lambda: planner.count("daemon.leading"), 90)
        for member in members:
            member.start()
        producer.start()
        scene = Scene(plan, directory, cluster, planner, members, producer, timers)
        scene.await_begin()
        yield scene
        for reader in scene.readers.values():
            reader.close()
    finally:
        stop_everything(members)
        planner.stop()


def planner_command(
    bootstrap: str, directory: Path, timers: Timers, mutant: str | None = None
) -> list[str]:
    """Command line of the daemon of a run, or of a mutant of it."""
    settings: dict[str, object] = {
        "prefix": PREFIX,
        "kafka.client.id": PlannerProcess.name,
        "state_dir": str(directory / "state"),
        "pipeline.run": "elsewhere",  # plans follow members and topics, not lag
        "control.strategy": "sticky",
        **{f"timers.{timer.name}": getattr(timers, timer.name) for timer in fields(timers)},
    }
    if mutant is not None:
        # As hasty as it may be: else an eviction comes so late that hardly a handler is left.
        settings["timers.dead_after"] = 3 * timers.heartbeat
    command = daemon_command(bootstrap, *(f"{key}={value}" for key, value in settings.items()))
    if mutant is None:
        return command
    python, option, _, *arguments = command
    return [python, option, MUTANT_DAEMON, mutant, *arguments]
