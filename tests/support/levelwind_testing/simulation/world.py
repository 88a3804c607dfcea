"""A simulated world: groups of members, daemons, machines and brokers, and the faults of a run."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.control.settings import ControlSettings, CooldownSettings, PlanSettings
from levelwind_testing.simulation.faults import inject
from levelwind_testing.simulation.invariants import Checks, ViolationError
from levelwind_testing.simulation.modelled_brokers.link import Link
from levelwind_testing.simulation.modelled_brokers.modelled_cluster import Cluster
from levelwind_testing.simulation.planner_inputs import PlannerInputs
from levelwind_testing.simulation.processes.member_process import MemberProcess
from levelwind_testing.simulation.processes.member_shell import Shell
from levelwind_testing.simulation.processes.planner_process import PlannerProcess
from levelwind_testing.simulation.virtual_time import LARGEST_RATE_ERROR, Machine, Scheduler

SETTLE_SLACK_SECONDS = 5.0
QUIET_SECONDS = 15.0
CONTROL = ControlSettings(settle=1.0, settle_max=5.0, cooldown=CooldownSettings(duration=60.0))


@dataclass(frozen=True, kw_only=True)
class WorldSettings:
    """Everything about a world that faults do not change."""

    groups: dict
    """Topics of each group."""
    instances: dict
    """Instances of each group."""
    outside: frozenset = frozenset()
    """Instances that do not run at the beginning."""
    topics: dict
    """Partitions of each topic."""
    machines: int = 3
    own_partitions: int = 1
    """Partitions of levelwind's topics."""
    strategy: str = "range"
    planner_timers: Timers = field(default_factory=Timers)
    member_timers: Timers = field(default_factory=Timers)
    max_poll_interval: float = 20.0
    broker_fenced: frozenset = frozenset()
    """Groups whose commits are transactional."""
    control: ControlSettings = CONTROL
    horizon: float = 120.0
    """Seconds within which faults begin."""

    def planning_of(self, _group):
        # No plan is cut by the real clock: a seed decides everything.
        return PlanSettings(strategy=self.strategy, options={"time_budget": 60.0})

    @property
    def least_wait(self):
        """Seconds that must pass between an eviction that can be read and a grant."""
        return self.member_timers.hold


class World:
    """One run: a world of some settings, and a list of faults."""

    def __init__(self, seed, settings, faults, *, shell=None, tracing=False):
        self.seed = seed
        self.settings = settings
        self.faults = faults
        self.shell = shell or Shell()
        self.tracing = tracing
        self.lines = []
        """Time, process and text of what happened, if tracing."""
        self.scheduler = Scheduler()
        self.cluster = Cluster(
            self.scheduler,
            self.random("brokers"),
            {"members": settings.own_partitions, "assignments": settings.own_partitions},
        )
        self.checks = Checks(self)
        self.cluster.on_committed = self.checks.committed
        self.cluster.on_marked = self.checks.marked
        self.cluster.on_announced = self.checks.announced
        self.cluster.on_commit = self.checks.commit_arrived
        self.machines = self._machines()
        self.planners = []
        """All starts of a daemon, the oldest first."""
        self.members = {}
        """The process that runs under the name of each instance, if any."""
        self.group_of = {
            instance: group for group, names in settings.instances.items() for instance in names
        }
        self.inputs = PlannerInputs(self.cluster, settings)
        self.handlers = {}
        """Until when handlers of an instance are slow, and by which share of the poll interval."""
        self.late_commits = {}
        self.happened = Counter()
        """Faults of each kind that happened."""
        self._incarnations = 0
        self._counts = Counter()
        self._links = {}
        self._twins = set()

    def random(self, name):
        """The random numbers of one part, the same whatever the others take."""
        return Random(f"{self.seed}/{name}")

    def _machines(self):
        random = self.random("machines")
        return {
            f"machine{number}": Machine(
                f"machine{number}",
                rate=1.0 + random.uniform(-LARGEST_RATE_ERROR, LARGEST_RATE_ERROR),
                offset=random.uniform(0.0, 1e5),
            )
            for number in range(self.settings.machines)
        }

    # Parts.

    def member(self, instance):
        process = self.members.get(instance)
        return process if process is not None and process.alive else None

    def member_link(self, instance):
        process = self.member(instance)
        return process.link if process is not None else Link(self.scheduler, self.random("none"))

    def planner_link(self):
        return self.planner.link if self.planner else Link(self.scheduler, self.random("none"))

    def links(self):
        processes = [*self.members.values(), *self._twins, *self.planners]
        return [process.link for process in processes]

    def new_incarnation(self, instance):
        self._incarnations += 1
        return f"{instance}.{self._incarnations}"

    def start_member(self, instance, *, twin=False):
        """Start a process of an instance, unless one runs."""
        if not twin and self.member(instance) is not None:
            return None
        group = self.group_of[instance]
        self._counts[instance] += 1
        name = f"{instance}#{self._counts[instance]}"
        machine = self.machines[f"machine{self._machine_of(instance)}"]
        profile = {
            "group": group,
            "topics": tuple(self.settings.groups[group]),
            "max_poll_interval": self.settings.max_poll_interval,
            "transactional_id": f"{group}/{instance}"
            if group in self.settings.broker_fenced
            else None,
        }
        process = MemberProcess(self, name, instance, machine, self.random(name), profile)
        self.trace(process, "process starts")
        if twin:
            self._twins.add(process)
        else:
            self.members[instance] = process
        return process

    def _machine_of(self, instance):
        # Every machine has members; the planner runs on the first.
        return sum(map(ord, instance)) % self.settings.machines

    def end_twin(self, twin):
        self._twins.discard(twin)
        if twin.alive:
            twin.end("killed")

    def member_ended(self, process, reason):
        self.trace(process, "process ends", reason)

    @property
    def planner(self):
        """The daemon that leads, or else any that runs; None without one."""
        alive = [planner for planner in self.planners if planner.alive]
        return next((planner for planner in alive if planner.leading), alive[0] if alive else None)

    def start_planner(self):
        name = f"planner#{len(self.planners) + 1}"
        planner = PlannerProcess(self, name, self.machines["machine0"], self.random(name))
        self.planners.append(planner)
        self.trace(planner, "process starts")

    def kill_planner(self, *, restart_after):
        """Kill the daemon; its supervisor starts it again after a while."""
        if self.planner is not None:
            self.planner.end("killed")
            self.scheduler.after(restart_after, None, self.start_planner)

    def restart_planners(self):
        """Kill every daemon and start one."""
        self.end_planners("killed")
        self.start_planner()

    def end_planners(self, reason):
        for planner in self.planners:
            if planner.alive:
                planner.end(reason)

    def put_to_sleep(self, machine_name, seconds):
        machine = self.machines[machine_name]
        now = self.scheduler.now
        if machine.sleeps and machine.sleeps[-1][1] > now:
            return
        machine.sleeps.append((now, now + seconds))
        for process in [*self.members.values(), *self._twins, *self.planners]:
            if process.machine is machine:
                process.stopped_until = max(process.stopped_until, now + seconds)

    def end_stale(self, link):
        partitions = list(link.stale_ends)
        link.stale_ends.clear()
        for partition in partitions:
            partition.wake_readers()

    def handler_seconds(self, process):
        random = process.random
        until, share = self.handlers.get(process.instance, (0.0, 0.0))
        if self.scheduler.now < until:
            return self.settings.max_poll_interval * share * random.uniform(0.5, 0.999)
        return 0.2 + 1.5 * random.random() ** 2

    # Transactional commits.

    def transactional(self, process):
        if process.profile.transactional_id is None:
            return None
        return process.profile.transactional_id, process.transactional_epoch

    def fence_commits_of(self, process, done):
        """Take a process's request to initialise its transactional id."""
        epoch = self.cluster.fence_commits(process.profile.transactional_id)

        def fenced():
            process.transactional_epoch = epoch
            done.append(epoch)

        process.link.answer(process, fenced)

    def clear_own_topics(self):
        self.cluster.clear(("members", "assignments"))
        for link in self.links():
            link.stale_ends.clear()  # a topic that is gone has no deposed leader
        self.checks.records_lost()

    # Records as the processes see them.

    @staticmethod
    def as_record(entry):
        return Tombstone(entry.key) if entry.record is None else entry.record

    @staticmethod
    def as_value(record):
        return None if isinstance(record, Tombstone) else record

    # The run.

    def trace(self, process, text, *details):
        if self.tracing:
            name = "" if process is None else process.name
            self.lines.append((self.scheduler.now, name, " ".join((text, *map(str, details)))))

    def logged(self, planner, event, fields):
        if self.tracing:
            shown = " ".join(f"{name}={value}" for name, value in fields.items())
            self.trace(planner, event, shown[:90])

    def run(self):
        """Run with all faults, then without any until everything is owned; raise ViolationError."""
        self.begin()
        self.inject_all()
        end = max((self._end_of(fault) for fault in self.faults), default=20.0)
        self.scheduler.run(end)
        # What a fault delayed is a part of it until it arrives.
        self.scheduler.run(max(end, self.scheduler.delayed_until))
        self.settle()

    def _end_of(self, fault):
        """Time at which a fault has ended, and the last handler that it made slow."""
        slow = fault.amount if fault.kind == "slow handlers" else 0.0
        return fault.ends + slow * self.settings.max_poll_interval

    def begin(self):
        random = self.random("begin")
        for name in self.settings.topics:
            self.inputs.create_topic(name)
        self.scheduler.at(0.0, None, self.start_planner)
        for names in self.settings.instances.values():
            for instance in names:
                if instance not in self.settings.outside:
                    at = random.uniform(0.0, 4.0)
                    self.scheduler.at(at, None, self.start_member, instance)

    def inject_all(self):
        for fault in self.faults:
            self.scheduler.at(fault.at, None, self._inject, fault)

    def _inject(self, fault):
        self.happened[fault.kind] += 1
        inject(self, fault)

    def settle(self):
        """Everything is owned within the promised time, and stays as it is over another start."""
        timers = self.settings.planner_timers
        self.checks.frozen = {
            name
            for planner in self.planners
            if planner.leading
            for name, group in planner.state.groups.items()
            if group.frozen
        }
        own = self.settings.member_timers
        grant = timers.grant_for(hold=own.hold, commit=own.commit)
        wait = timers.dead_after + grant + SETTLE_SLACK_SECONDS
        if any("planner" in fault.kind for fault in self.faults):
            # The daemon may be away, or stand by since it cannot read: at the latest when the last
            # of its faults ends. It leads again after `takeover`, and counts silence anew.
            wait += timers.takeover
        self.scheduler.run(self.scheduler.now + wait)
        if self.checks.frozen:
            self.scheduler.run(self.scheduler.now + self.patience)
        self._wait_for_bars()
        self.check_owned()
        before = self._published()
        self.scheduler.run(self.scheduler.now + QUIET_SECONDS)
        self._check_unchanged(before, "another epoch while the inputs stand still")
        self.trace(None, "the planner is started once more")
        self.restart_planners()
        self.scheduler.run(self.scheduler.now + QUIET_SECONDS)
        self._check_unchanged(before, "another epoch after a start of the planner alone")
        self.check_owned()

    def _wait_for_bars(self):
        """Wait until members are planned again with what they could not start once.

        A bar that is lifted is a change of the members, whenever it comes: the plan follows within
        `settle_max`, and its hand-over takes less than the slack.
        """
        while any(not bar.lifted for bar in self._bars()):
            self.scheduler.run(self.scheduler.now + QUIET_SECONDS)
        if any(self._bars()):
            wait = self.settings.control.settle_max + SETTLE_SLACK_SECONDS
            self.scheduler.run(self.scheduler.now + wait)

    def _bars(self):
        return [
            bar
            for planner in self.planners
            if planner.leading
            for group in planner.state.groups.values()
            for bar in group.bars.values()
        ]

    @property
    def patience(self):
        settings = self.settings
        return settings.planner_timers.revoke_patience(
            settings.max_poll_interval, settings.member_timers.commit
        )

    def _published(self):
        return dict(self.checks.epochs_published())

    def _check_unchanged(self, before, what):
        for group, epochs in self._published().items():
            if epochs[1] != before.get(group, epochs)[1]:
                self.checks.fail(f"{group}: {what}: {before.get(group)} then {epochs}", group)

    def check_owned(self):
        """Every partition with an eligible live member is used by one."""
        for group, topics in self.settings.groups.items():
            processes = [
                process
                for process in self.members.values()
                if process.group == group and process.alive
            ]
            if not processes:
                continue
            used = {pair for process in processes for pair in process.application.positions}
            for pair in sorted(self.inputs.partitions):
                if pair[0] in topics and pair not in used:
                    self.checks.fail(f"nobody owns {pair} of {group}", group)


__all__ = ["ViolationError", "World", "WorldSettings"]
