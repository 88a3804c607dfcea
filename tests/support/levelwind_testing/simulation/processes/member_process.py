"""A consumer process: the real member machine between the modelled brokers and an application.

Two threads, as in the client. The follower reads assignments, announces the member, asks for fresh
reads and owns the machine; the application's thread (`application_thread`) carries out its orders
and asks the lease before everything it does.
"""

from collections import deque

from levelwind.assignors.clients.confluent.reading.read_proof import ReadProof
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_machine import step
from levelwind.assignors.handover.member_state import MemberMachine, MemberProfile, Phase
from levelwind.assignors.protocol.records import MemberAssignment
from levelwind_testing.simulation.modelled_brokers.link import Link
from levelwind_testing.simulation.modelled_brokers.partition_log import Reader
from levelwind_testing.simulation.processes.application_thread import ApplicationThread
from levelwind_testing.simulation.virtual_time import Process

OVER = (Phase.LOST, Phase.LEFT)


class MemberProcess(Process):
    """One process, with as many lives of the member as it takes."""

    def __init__(self, world, name, instance, machine, random, profile):
        super().__init__(world.scheduler, name, machine, random)
        self.world = world
        self.cluster = world.cluster
        self.checks = world.checks
        self.link = Link(world.scheduler, random)
        self.group = profile["group"]
        self.instance = instance
        self.timers = world.settings.member_timers
        self.profile = MemberProfile(instance=instance, **profile)
        self.machine_state = MemberMachine.create(
            profile=self.profile, timers=self.timers, incarnation=world.new_incarnation(instance)
        )
        self.orders = deque()
        self.lost = False
        """Whether the member's partitions may have another owner, until they are dropped."""
        self.left_poll_at = None
        """When the application left `poll`, by the member's clock; None while it polls."""
        self.transactional_epoch = 0
        self.unreadable_until = 0.0
        """True time until which evictions cannot be decoded."""
        self._undecided = None
        """When a commit of unknown outcome can no longer arrive, and the incarnation concerned."""
        self._sent = {}
        """Incarnation and time of sending of announcements that are not acknowledged, by number."""
        self._number = 0
        self.reader = None
        self._proof = None
        self.application = ApplicationThread(self)
        self.scheduler.spawn(self, self._start())

    def now(self):
        """The clock that the member goes by."""
        return self.world.shell.member_clock(self)

    def boot_seconds(self):
        return self.machine.boot_seconds(self.scheduler.now)

    @property
    def lease_valid(self):
        """Whether the member may be using its partitions, by the clock that it goes by."""
        state = self.machine_state
        return self.alive and state.phase not in OVER and state.lease.valid(self.now())

    def end(self, reason):
        self.alive = False
        if self.reader is not None:
            self.reader.close()
            self.reader = None
        self.world.member_ended(self, reason)

    def leave(self):
        """Close the consumer in order."""
        if self.reader is None:
            self.end("left")  # it had not announced itself
        else:
            self.handle(ev.LeaveRequested())

    # The follower's thread.

    def _start(self):
        yield 0.1 * self.random.random()
        if self.profile.transactional_id is not None:
            done = []
            while not done:
                self.link.request(self.world.fence_commits_of, self, done)
                yield 1.0
        [partition] = self.cluster.partitions_of("assignments", self.machine_state.key)
        while self.reader is None:
            self.link.request(self._find_end, partition)
            yield 1.0

    def _find_end(self, partition):
        self.link.answer(self, self._follow, partition, partition.stable_end)

    def _follow(self, partition, position):
        if self.reader is not None:
            return
        self.reader = Reader(
            self.scheduler,
            self,
            partition,
            self.link,
            self._on_entry,
            self._read_on,
            position=position,
        )
        self._proof = ReadProof(position)
        self.handle(ev.Started())
        self.scheduler.spawn(self, self._tick_thread())
        self.scheduler.spawn(self, self.application.run())

    def _tick_thread(self):
        asked_at = float("-inf")
        while True:
            if self.scheduler.now == self.stopped_until and self.random.random() < 0.5:
                # After a stop the threads go on in any order.
                yield 0.5 * self.random.random()
            self._check_poll_interval()
            self._take_undecided()
            self.handle(ev.Tick())
            now = self.now()
            if now - asked_at >= self.timers.heartbeat:
                asked_at = now
                self.link.request(self._ask_stable_end, now, self._proof.read_to)
            yield self.timers.heartbeat * (0.25 + 0.1 * self.random.random())

    def _ask_stable_end(self, asked_at, read_to):
        if self.reader is not None:
            end = self.reader.visible_end
            self.link.answer(self, self._stable_end_known, asked_at, read_to, end)

    def _stable_end_known(self, asked_at, read_to, end):
        moment = self.world.shell.moment(self, asked_at)
        self._confirm(self._proof.answered(moment, read_to, end))

    def _read_on(self):
        self._confirm(self._proof.read(self.reader.position))

    def _confirm(self, asked_at):
        if asked_at is not None:
            self.handle(ev.ReadConfirmed(asked_at))

    def _on_entry(self, _reader, _offset, entry):
        if entry.key != self.machine_state.key:
            return
        record = entry.record
        if record is None:
            self.handle(ev.AssignmentDeleted())
        elif isinstance(record, MemberAssignment):
            if record.state == "evicted" and self.scheduler.now < self.unreadable_until:
                self.world.trace(self, "cannot read its eviction")
                self.handle(ev.AssignmentRejected(record.member_epoch, "unknown-v"))
            else:
                self.handle(ev.AssignmentReceived(record))

    def _check_poll_interval(self):
        left_at = self.left_poll_at
        if (
            left_at is not None
            and not self.lost
            and self.now() - left_at > self.profile.max_poll_interval
        ):
            self.handle(ev.PollOverdue())

    def post_undecided(self):
        """Let a revocation end once its commit, of unknown outcome, can no longer arrive."""
        due = self.now() + self.timers.commit
        self._undecided = (due, self.machine_state.incarnation)

    def _take_undecided(self):
        if self._undecided is not None and self.now() >= self._undecided[0]:
            (_, incarnation), self._undecided = self._undecided, None
            if incarnation == self.machine_state.incarnation:
                self.handle(ev.RevokeFinished())

    def handle(self, event):
        """Let the machine take a step, and carry out what it orders."""
        before = self.machine_state
        self.machine_state, effects = step(before, event, self.now())
        self.checks.member_stepped(self, before, self.machine_state)
        if effects:
            self._perform(effects)

    def _perform(self, effects):
        for number, effect in enumerate(effects):
            if self.countdown is not None:
                self.countdown -= 1
                if self.countdown < 0:
                    self.at_countdown()
                    if not self.alive:
                        return
                    # The rest follows when the process goes on, before anything else.
                    self.scheduler.first(self.stopped_until, self, self._perform, effects[number:])
                    return
            match effect:
                case ev.Announce(record):
                    self._number += 1
                    self._sent[self._number] = (record.incarnation, self.now())
                    self._produce(record.key, record, self._number)
                case ev.Retire(key):
                    self._produce(key, None, None)
                case ev.Lose():
                    self.lost = True
                    self.orders.append(effect)
                case ev.Grant() | ev.Revoke():
                    self.orders.append(effect)

    def _produce(self, key, record, number):
        acknowledged = None if number is None else self._acknowledged
        self.link.produce(self.cluster.produced, self, "members", key, record, acknowledged, number)

    def _acknowledged(self, number):
        incarnation, sent_at = self._sent.pop(number, (None, 0.0))
        if incarnation == self.machine_state.incarnation:
            self.handle(ev.AnnouncementAcked(self.world.shell.moment(self, sent_at)))
