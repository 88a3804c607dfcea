"""Safety and progress of many members and a planner, interleaved at random over a modelled log.

The log keeps the last record of each key, as compaction does. Every process reads it with its own
delay; a live member's delay stays below `hold`, which its lease will ensure. Processes crash,
restart, join and leave, the planner crashes and recovers, acknowledgements come late, and commits
of unknown outcome arrive late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from msgspec.structs import replace

from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover import member_machine as machine
from levelwind.assignors.handover.holding import Holding, Revocation
from levelwind.assignors.handover.ledger import Incarnation, Ledger
from levelwind.assignors.handover.ledger_recovery import recover_ledger
from levelwind.assignors.handover.member_machine import step
from levelwind.assignors.handover.member_state import MemberMachine, MemberProfile, Phase
from levelwind.assignors.handover.patience import overdue
from levelwind.assignors.handover.planner_time import PlannerTime
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import Tombstone

TIMERS = Timers()
PARTITIONS = [("t", number) for number in range(7)] + [("u", number) for number in range(3)]


@dataclass
class ModelledLog:
    entries: list = field(default_factory=list)  # (time, key, record or None)

    def append(self, now, key, record):
        self.entries.append((now, key, record))

    def latest(self):
        return {key: record for _, key, record in self.entries}


@dataclass
class MemberProcess:
    """A consumer process: the state machine, and a shell that carries out its orders later."""

    member: MemberMachine
    position: int
    using: set = field(default_factory=set)
    orders: list = field(default_factory=list)  # (time, order)
    undecided: tuple | None = None
    """When a commit of unknown outcome can no longer arrive, and the incarnation concerned."""


@dataclass
class Planner:
    """A minimal control, which spreads the partitions over the live members."""

    ledger: Ledger
    epoch: int
    last_record_at: dict
    states: dict
    position: int
    read_back: int
    published: Ledger | None = None


class SimulatedGroup:
    def __init__(self, seed, *, hasty_commit=False):
        self.random = Random(seed)
        self.hasty_commit = hasty_commit
        self.now = 0.0
        self.incarnation_count = 0
        self.assignments = ModelledLog()
        self.members = ModelledLog()
        self.processes: dict[str, MemberProcess] = {}
        self.commits = []  # (arrives at, instance, incarnation, partitions)
        self.planner_epoch = 0
        self.planner = None
        self.epochs = []  # the last is that of the group's own record

    @property
    def time(self):
        return PlannerTime(self.now, self.now, self.now)

    # Members

    def new_incarnation(self):
        self.incarnation_count += 1
        return f"life{self.incarnation_count}"

    def start(self, instance):
        member = MemberMachine.create(
            profile=MemberProfile(group="g", instance=instance, topics=("t", "u")),
            timers=TIMERS,
            incarnation=self.new_incarnation(),
        )
        self.processes[instance] = MemberProcess(member, len(self.assignments.entries))
        self.send(self.processes[instance], ev.Started())

    def send(self, process, event):
        process.member, effects = step(process.member, event, self.now)
        for effect in effects:
            match effect:
                case ev.Announce(record):
                    self.members.append(self.now, record.key, record)
                case ev.Retire(key):
                    self.members.append(self.now, key, None)
                case _:
                    process.orders.append((self.now, effect))

    def read(self, process):
        if process.position == len(self.assignments.entries):
            return
        _, key, record = self.assignments.entries[process.position]
        process.position += 1
        if key == process.member.key:
            self.send(
                process, ev.AssignmentDeleted() if record is None else ev.AssignmentReceived(record)
            )

    def perform(self, process):
        if process.undecided is not None and self.now >= process.undecided[0]:
            (_, incarnation), process.undecided = process.undecided, None
            if incarnation == process.member.incarnation:
                self.send(process, ev.RevokeFinished())
        if not process.orders:
            return
        _, order = process.orders.pop(0)
        match order:
            case ev.Grant(partitions):
                process.using |= partitions
                self.check()
                self.send(process, ev.GrantFinished())
            case ev.Revoke(partitions):
                assert partitions <= process.using
                process.using -= partitions
                if self.random.random() < 0.25:
                    # The outcome of the commit is unknown.
                    arrives = self.now + self.random.uniform(0, TIMERS.commit)
                    self.commits.append((arrives, process.member.profile.instance, partitions))
                    if not self.hasty_commit:
                        incarnation = process.member.incarnation
                        process.undecided = (self.now + TIMERS.commit, incarnation)
                        return
                self.send(process, ev.RevokeFinished())
            case ev.Lose():
                process.using.clear()
                process.orders.clear()
                self.send(
                    process,
                    ev.LoseFinished(
                        self.new_incarnation(), no_commit_in_flight=self.random.random() < 0.7
                    ),
                )

    # Planner

    def start_planner(self):
        self.planner_epoch += 1
        assignments = [r for r in self.assignments.latest().values() if r is not None]
        members = [r for r in self.members.latest().values() if r is not None]
        ledger = self.rebuilt(assignments, members)
        for process in self.processes.values():
            for partition in process.using:
                assert ledger.owners().get(partition) == _incarnation_of(process.member), (
                    "a planner that starts knows every owner"
                )
        last_record_at = {Incarnation(r.instance, r.incarnation): self.now for r in members}
        last_record_at |= dict.fromkeys(ledger.holdings, self.now)
        states = {Incarnation(r.instance, r.incarnation): r for r in members}
        self.planner = Planner(
            ledger,
            self.planner_epoch,
            last_record_at,
            states,
            len(self.members.entries),
            len(self.assignments.entries),
        )

    def rebuilt(self, assignments, members):
        group_epoch = self.epochs[-1] if self.epochs else 0
        ledger = recover_ledger(
            group="g",
            timers=TIMERS,
            group_epoch=group_epoch,
            assignments=assignments,
            members=members,
            time=self.time,
        )
        for record in members:
            ledger = ledger.acknowledge(record, self.time)
        return ledger

    def plan(self):
        planner = self.planner
        if planner.position < len(self.members.entries):
            _, key, record = self.members.entries[planner.position]
            planner.position += 1
            self.receive(planner, Incarnation(*key[2:]), record)
        if planner.read_back < len(self.assignments.entries):
            _, key, record = self.assignments.entries[planner.read_back]
            planner.read_back += 1
            if record is not None and record.state == "evicted":
                planner.ledger = planner.ledger.eviction_read_back(Incarnation(*key[2:]), self.now)
        dead = {
            incarnation
            for incarnation, at in planner.last_record_at.items()
            if self.now - at >= TIMERS.dead_after
        }
        for incarnation in dead | overdue(planner.ledger, self.now).keys():
            self.evict(planner, incarnation)
        unread = self.members.entries[planner.position :]
        planner.ledger = planner.ledger.tick(self.now, unread[0][0] if unread else self.now)
        self.publish(planner)

    def receive(self, planner, incarnation, record):
        if record is None:
            planner.ledger = planner.ledger.leave(incarnation)
            planner.last_record_at.pop(incarnation, None)
            planner.states.pop(incarnation, None)
            return
        planner.ledger = planner.ledger.acknowledge(record, self.time)
        if record.state == "left":
            return
        holding = planner.ledger.holdings.get(incarnation)
        if holding is None or not (holding.evicted or holding.left):
            planner.last_record_at[incarnation] = self.now
        if record.state == "joining" and incarnation not in planner.states:
            for other in [
                o for o in planner.states if o.instance == incarnation.instance and o != incarnation
            ]:
                self.evict(planner, other)
        planner.states[incarnation] = record

    def evict(self, planner, incarnation):
        planner.ledger = planner.ledger.evict(incarnation, self.time)
        planner.last_record_at.pop(incarnation, None)
        planner.states.pop(incarnation, None)

    def publish(self, planner):
        live = sorted(set(planner.states) & set(planner.last_record_at))
        target = {
            incarnation: frozenset(PARTITIONS[at :: len(live)])
            for at, incarnation in enumerate(live)
        }
        planner.ledger = planner.ledger.set_target(target)
        options = {
            "epoch": planner.ledger.epoch + 1,
            "planner_epoch": planner.epoch,
            "readable": self.now,
        }
        ledger, changes = planner.ledger.next_records(**options, published=planner.published)
        assert (ledger, changes) == planner.ledger.next_records(**options)
        planner.ledger = planner.published = ledger
        if not changes:
            return
        if any(not isinstance(change, Tombstone) for change in changes):
            self.epochs.append(ledger.epoch)
        for change in changes:
            removed = isinstance(change, Tombstone)
            self.assignments.append(self.now, change.key, None if removed else change)
            if removed:  # the planner removes the announcement, too
                self.members.append(self.now, change.key, None)
        self.check_records(ledger)

    # What must hold

    def check(self):
        users = [partition for process in self.processes.values() for partition in process.using]
        assert len(users) == len(set(users)), "a partition has two owners"

    def check_records(self, ledger):
        records = [r for r in self.assignments.latest().values() if r is not None]
        owned = [
            p
            for r in records
            for part in (r.assigned, r.revoking)
            for t, ns in part.items()
            for p in ((t, n) for n in ns)
        ]
        assert len(owned) == len(set(owned)), "the records give a partition to two incarnations"
        rebuilt = self.rebuilt(records, [])
        assert rebuilt.owners() == ledger.owners()

    def arrive(self):
        for commit in [c for c in self.commits if c[0] <= self.now]:
            self.commits.remove(commit)
            for instance, process in self.processes.items():
                assert instance == commit[1] or not process.using & commit[2], (
                    "a commit arrived after the next grant"
                )

    # Time

    def advance(self, seconds):
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 1.0, end)
            self.arrive()
            for process in self.processes.values():
                self.keep_lease(process)
                self.send(process, ev.AnnouncementAcked(self.now))
                self.send(process, ev.ReadConfirmed(self.now))
                self.send(process, ev.Tick())
            self.check()

    def keep_lease(self, process):
        """Read and carry out everything that is on the log for longer than `hold`.

        A process that had not done so would have lost its lease.
        """
        limit = self.now - TIMERS.hold + 1.0
        while (
            process.position < len(self.assignments.entries)
            and self.assignments.entries[process.position][0] <= limit
        ):
            self.read(process)
        if any(at <= limit and isinstance(order, ev.Lose) for at, order in process.orders):
            while process.orders:
                self.perform(process)

    def random_step(self, *, faults):
        process = self.random.choice(list(self.processes.values()) or [None])
        chance = self.random.random()
        if chance < 0.30:
            if self.planner:
                self.plan()
            elif not faults or self.random.random() < 0.2:
                self.start_planner()
        elif chance < 0.55 and process:
            self.read(process)
        elif chance < 0.80 and process:
            self.perform(process)
        elif chance < 0.95:
            self.advance(self.random.choice([0.1, 0.5, 2.0]))
        elif faults:
            self.fault(process)
        self.check()

    def fault(self, process):
        kind = self.random.choice(
            ["start", "crash", "restart", "leave", "planner", "pause", "overrun"]
        )
        instance = f"i{self.random.randrange(5)}"
        match kind:
            case "start" if instance not in self.processes:
                self.start(instance)
            case "crash" | "restart" if process:
                crashed = process.member.profile.instance
                del self.processes[crashed]
                if kind == "restart":
                    self.start(crashed)
            case "leave" if process:
                self.send(process, ev.LeaveRequested())
            case "overrun" if process:
                self.send(process, ev.PollOverdue())
            case "planner":
                self.planner = None
            case "pause":
                self.advance(self.random.choice([10.0, 25.0, 50.0]))

    def run(self, steps):
        for _ in range(steps):
            self.random_step(faults=True)
            self.remove_left()

    def remove_left(self):
        for instance in [i for i, p in self.processes.items() if p.member.phase is Phase.LEFT]:
            del self.processes[instance]

    def settle(self):
        if not self.processes:
            self.start("i0")
        for _ in range(40):
            for _ in range(60):
                self.random_step(faults=False)
            for process in list(self.processes.values()):
                while process.orders or process.position < len(self.assignments.entries):
                    self.read(process)
                    self.perform(process)
            self.remove_left()
            while self.planner and self.planner.position < len(self.members.entries):
                self.plan()
            self.advance(2.0)


def _incarnation_of(member):
    return Incarnation(member.profile.instance, member.incarnation)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(120))
def test_no_partition_has_two_owners_and_in_the_end_each_has_one(seed):
    world = SimulatedGroup(seed)
    world.run(500)
    world.settle()
    if not world.processes:  # the last one was leaving
        return
    used = {
        p: process.member.profile.instance
        for process in world.processes.values()
        for p in process.using
    }
    assert used.keys() == set(PARTITIONS)
    assert world.planner.ledger.settled
    assert world.epochs == sorted(set(world.epochs))
    before = len(world.assignments.entries)
    world.settle()
    assert len(world.assignments.entries) == before, "no further epoch while the inputs stand still"


def _fails(seeds=60, **mutation):
    for seed in range(seeds):
        world = SimulatedGroup(seed, **mutation)
        try:
            world.run(500)
        except AssertionError:
            return True
    return False


def test_a_ledger_that_does_not_wait_for_the_acknowledgement_is_caught(monkeypatch):
    advance_to = Holding.advance_to
    monkeypatch.setattr(
        Holding, "advance_to", lambda self, *args: replace(advance_to(self, *args), revoking={})
    )
    assert _fails()


def test_a_ledger_that_takes_any_announcement_for_an_acknowledgement_is_caught(monkeypatch):
    monkeypatch.setattr(Revocation, "ended_by", lambda *_: True)
    assert _fails()


def test_a_planner_that_does_not_wait_after_an_eviction_is_caught(monkeypatch):
    monkeypatch.setattr(
        Holding,
        "waited_out",
        lambda self, *_: self.evicted and self.eviction.free_at is not None and not self.gone,
    )
    assert _fails()


def test_a_member_that_acknowledges_while_a_commit_may_still_arrive_is_caught():
    assert _fails(hasty_commit=True)


def test_a_member_that_acknowledges_before_it_has_stopped_is_caught(monkeypatch):
    def hasty(member, partitions, record, now):
        if record is None or not partitions:
            return machine._after_revocation(member, partitions, record, now)
        after, effects = machine._after_revocation(member, partitions, record, now)
        return after, (*effects, ev.Revoke(partitions))

    monkeypatch.setattr(machine, "_revoke", hasty)
    assert _fails()
