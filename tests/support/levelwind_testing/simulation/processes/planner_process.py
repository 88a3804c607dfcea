"""A process of the daemon: the real control, leadership, mailbox and intake over modelled brokers.

One thread takes events, leads or stands by, and performs effects; the reader, the writer of
canaries, the membership in the group of daemons and the fencer of commits only post to its mailbox.
Models `levelwind.daemon.service.daemon`.
"""

from functools import partial
from types import SimpleNamespace

from msgspec.structs import replace

from levelwind.assignors.protocol.records import CanaryRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.control.boundary.control_effects import FenceCommits, Fenced, Publish
from levelwind.daemon.control.boundary.control_events import (
    CommitsFenced,
    MembersRead,
    Recovered,
    Ticked,
    together,
)
from levelwind.daemon.control.context import Clock, LogEvent
from levelwind.daemon.control.controller import step
from levelwind.daemon.control.state.control_state import ControlState
from levelwind.daemon.control.state.plan_backlog import PlanBudget
from levelwind.daemon.service.leadership import (
    CanaryReadBack,
    CanaryWritten,
    LeadChanged,
    Leadership,
    LeaderSighted,
    LeadPhase,
    ReadUntil,
    TopicsRead,
)
from levelwind.daemon.service.mailbox import Mailbox
from levelwind.daemon.service.record_intake import RecordIntake
from levelwind_testing.simulation.modelled_brokers.link import Link
from levelwind_testing.simulation.modelled_brokers.modelled_cluster import KINDS
from levelwind_testing.simulation.modelled_brokers.partition_log import Reader
from levelwind_testing.simulation.virtual_time import Process

TICK_SECONDS = 0.5
ONE_PLAN = PlanBudget(plans=1, every=TICK_SECONDS)
"""The least budget there is: where two groups are due at once, one waits for its plan."""
PUBLISH_TIMEOUT_SECONDS = 5.0
ASK_SECONDS = 2.0
"""Limit of one question for ends of topics, as in `levelwind.daemon.service.read_marks`."""
CANARY_TIMEOUT_SECONDS = 10.0
LEAD_HEARTBEAT_SECONDS = 0.3
SIGNED = ("members", "assignments")
"""Topics in which planners leave signs of life."""
TOPICS = Topics()


class FencedPlannerError(Exception):
    """Another planner has taken over."""


class PlannerProcess(Process):
    """One start of the daemon, with as many terms as it takes."""

    def __init__(self, world, name, machine, random):
        super().__init__(world.scheduler, name, machine, random)
        self.world = world
        self.cluster = world.cluster
        self.link = Link(world.scheduler, random)
        timers = world.settings.planner_timers
        self.first_state = ControlState(
            instance=name,
            settings=world.settings.control,
            timers=timers,
            planning_of=world.settings.planning_of,
            members_partitions=len(self.cluster.partitions["members"]),
        )
        self.state = None
        """The control's state in this term; None while the daemon stands by."""
        self.leading = False
        """Whether the term has recovered the records."""
        self.interval = max(timers.canary, TICK_SECONDS)
        self.leadership = Leadership(
            instance=name,
            takeover=timers.takeover,
            interval=self.interval,
            patience=timers.dead_after,
        )
        self.mailbox = Mailbox()
        partitions = {
            TOPICS.name(kind): len(logs) for kind, logs in self.cluster.partitions.items()
        }
        log = SimpleNamespace(warning=self._warned)
        self.intake = RecordIntake(TOPICS, partitions, self.mailbox, log, instance=name)
        self._term = 0
        """Number of terms begun."""
        self._took_over_at = float("-inf")
        self._producer_epoch = None
        self._requests = 0
        """Number of the last transaction begun."""
        self._recovery_asked = False
        self._ends_asked_at = float("-inf")
        """When the ends were last asked for while the daemon stood by."""
        self._membership = 0
        """Number of memberships in the group of daemons begun or ended; odd in one."""
        self._owns_lead = False
        """What the last answer of the group said."""
        self._read_at = float("-inf")
        """When the process last showed that it can read its topics."""
        self._ends_awaited = []
        """Ends still to be read to, by partition, and what to call then."""
        self._canary_number = 0
        self._canaries = {}
        """When each canary of this term was sent, by number."""
        self._written = {}
        """When the newest acknowledged canary of each partition was sent."""
        self.readers = [
            Reader(self.scheduler, self, partition, self.link, self._on_entry, self._on_progress)
            for kind in KINDS
            for partition in self.cluster.partitions[kind]
        ]
        self.scheduler.spawn(self, self._start())

    def now(self):
        return self.machine.boot_seconds(self.scheduler.now)

    def end(self, reason):
        """End the process; nothing of it runs any more."""
        self.alive = self.leading = False
        self.state = None
        for reader in self.readers:
            reader.close()
        self.readers = []
        self.world.trace(self, "process ends", reason)

    def _warned(self, event, **fields):
        raise AssertionError(f"{event}: {fields}")

    # The reader's thread.

    def _start(self):
        """Read the topics to the ends that they have now; a start without an answer asks again."""
        while not (yield from self._when_read(KINDS, self.intake.on_caught_up)):
            pass
        self.scheduler.spawn(self, self._loop())

    def _when_read(self, kinds, call):
        """Ask for the ends of topics, and call once they have been read to.

        Returns whether there was an answer in time; without one nothing is called.
        """
        answer = yield from self._ask(self._send_ends, kinds, timeout=ASK_SECONDS)
        for ends in answer:
            self._ends_awaited.append((ends, call))
            self._on_progress()
        return bool(answer)

    def _send_ends(self, kinds, answered):
        ends = {
            partition: self.link.stale_ends.get(partition, partition.stable_end)
            for kind in kinds
            for partition in self.cluster.partitions[kind]
        }
        self.link.answer(self, answered, ends)

    def _on_progress(self):
        if not self._ends_awaited:
            return
        positions = {reader.partition: reader.position for reader in self.readers}
        still = []
        for ends, call in self._ends_awaited:
            if all(positions[partition] >= end for partition, end in ends.items()):
                call()
            else:
                still.append((ends, call))
        self._ends_awaited = still

    def _on_entry(self, reader, offset, entry):
        partition = reader.partition
        self.intake.on_record(
            SimpleNamespace(
                kind=partition.kind,
                record=self.world.as_record(entry),
                partition=partition.number,
                offset=offset,
                timestamp=0,
            )
        )

    # The loop.

    def _loop(self):
        ticked_at = float("-inf")
        while True:
            for event in together(self.mailbox.take(0.0)):
                yield from self._handle(event)
            now = self.now()
            if now - ticked_at >= TICK_SECONDS and not self.mailbox.waiting:
                ticked_at = now
                yield from self._tick()
            if self.leadership.due and self.state is None:
                yield from self._take_over()
            # The mailbox wakes the loop at once; here it looks again soon.
            rest = max(ticked_at + TICK_SECONDS - self.now(), 0.01)
            yield min(0.2 + 0.2 * self.random.random(), rest)

    def _handle(self, event):
        match event:
            case TopicsRead() | ReadUntil():
                self._decide_leadership(event, "another daemon leads")
                self._read_at = self.now()
                if self.state is None and not self._membership % 2:
                    self._membership += 1
                    self.scheduler.spawn(self, self._lead_thread(self._membership))
            case LeaderSighted() | LeadChanged():
                self._decide_leadership(event, "another daemon leads")
            case Recovered() if event.asked_at < self._took_over_at:
                pass
            case _ if self.state is not None:
                if isinstance(event, MembersRead):
                    self._decide_leadership(CanaryReadBack(partition=event.partition), "")
                yield from self._plan(event)
            case _:
                pass

    def _decide_leadership(self, event, reason):
        before = self.leadership
        self.leadership = before.after(event)
        if before.phase is LeadPhase.LEADING and self.leadership.phase is not LeadPhase.LEADING:
            self._stand_by(reason)
            if isinstance(event, CanaryWritten):
                self._give_up_lead()

    # The group of daemons.

    def _lead_thread(self, membership):
        answered_at = self.now()

        def answered(owns):
            nonlocal answered_at
            if membership == self._membership:
                answered_at = self.now()
                self._lead_is(owns)

        while membership == self._membership:
            session = self.first_state.timers.takeover
            self.link.request(self.cluster.lead_heartbeat, self, session, answered)
            if self.now() - answered_at > session:
                self._lead_is(False)
            yield LEAD_HEARTBEAT_SECONDS * (0.9 + 0.2 * self.random.random())

    def _lead_is(self, owns):
        if owns != self._owns_lead:
            self._owns_lead = owns
            self.mailbox.put("lead", LeadChanged(owns=owns), last=True)

    def _give_up_lead(self):
        if self._membership % 2:
            self._membership += 1
            self._owns_lead = False
            self.link.request(self.cluster.leave_lead, self)
        self.leadership = self.leadership.after(LeadChanged(owns=False))

    def _unread_for_long(self):
        return self.now() - self._read_at >= self.leadership.patience

    def _tick(self):
        if self.state is None:
            now = self.now()
            standing_by = self.leadership.phase is LeadPhase.STANDING_BY
            if standing_by and now - self._ends_asked_at >= self.interval:
                self._ends_asked_at = now
                reached = ReadUntil(asked_at=now)
                yield from self._when_read(
                    SIGNED, lambda: self.mailbox.put("read until", reached, last=True)
                )
            if standing_by and self._membership % 2 and self._unread_for_long():
                self._give_up_lead()
            return
        for partition, sent_at in list(self._written.items()):
            written = CanaryWritten(partition=partition, sent_at=sent_at)
            self._decide_leadership(written, "it cannot read")
        if self.state is None:
            return
        if not self._recovery_asked:
            recover = partial(self.intake.recover, self.now())
            self._recovery_asked = yield from self._when_read(KINDS, recover)
        if not self.leading and self._unread_for_long():
            self.leadership = self.leadership.deposed()
            self._stand_by("it cannot read")
            self._give_up_lead()
            return
        yield from self._plan(Ticked(budget=ONE_PLAN))

    def _take_over(self):
        leader = self.leadership.leader
        epoch = max(self.first_state.planner_epoch, leader.planner_epoch if leader else 0)
        self.state = replace(self.first_state, planner_epoch=epoch)
        self._term += 1
        self._recovery_asked = False
        self._producer_epoch = None
        self._read_at = self._took_over_at = self.now()
        self.world.trace(self, "takes over")
        while self._producer_epoch is None:
            self._requests += 1
            answer = yield from self._ask(self.cluster.initialise, self, self._requests)
            if answer:
                [self._producer_epoch] = answer

    def _plan(self, event):
        self.leading = self.leading or isinstance(event, Recovered)
        if not self.leading:
            return
        term = self._term
        now = self.now()
        self.state, effects = step(self.state, event, Clock(now=now, at=round(now * 1000)))
        # Who was fenced meanwhile may know old owners: it publishes nothing any more.
        fenced = self._producer_epoch != self.cluster.producer_epoch
        if isinstance(event, Recovered) and not fenced:
            self.world.checks.recovered(self, self.state)
        try:
            for effect in effects:
                yield from self._perform(effect)
        except FencedPlannerError:
            self.leadership = self.leadership.deposed()
            self._stand_by("fenced")
            return
        if isinstance(event, Recovered) and self._term == term:
            self.leadership = self.leadership.led(self.state.planner_epoch)
            self.intake.expect(self._asked_at)
            self.scheduler.spawn(self, self._canary_thread(term))

    def _stand_by(self, reason):
        self.world.trace(self, "stands by", reason)
        self.intake.stand_by()
        self._term += 1
        self.leading = False
        self.state = None
        self._read_at = self.now()

    def _perform(self, effect):
        match effect:
            case LogEvent(name, fields):
                self.world.checks.logged(self, name, fields)
            case Publish(records=records):
                if self.countdown is not None:
                    # A planned end or stop may happen at this effect.
                    self.countdown -= 1
                    if self.countdown < 0:
                        self.at_countdown()
                        yield 0.0
                yield from self._publish(records)
            case FenceCommits():
                self.scheduler.spawn(self, self._fence_thread(effect))
            case Fenced():
                raise FencedPlannerError

    # Canaries, and the fencing of commits.

    def _asked_at(self, canary):
        if canary.instance != self.name or self.state is None:
            return None
        return self._canaries.get(canary.number)

    def _canary_thread(self, term):
        self._canaries.clear()
        written = self._written = {}
        sent_at = {}
        """When the canary under way to each partition was sent."""

        def acknowledged(partition):
            if partition in sent_at:
                written[partition.number] = sent_at.pop(partition)

        while self._term == term:
            self._canary_number += 1
            now = self._canaries[self._canary_number] = self.now()
            self._canaries.pop(self._canary_number - 120, None)
            record = CanaryRecord(
                planner_epoch=self.state.planner_epoch,
                instance=self.name,
                number=self._canary_number,
                state="leading",
            )
            for partition in self.cluster.partitions["members"]:
                if now - sent_at.get(partition, float("-inf")) > CANARY_TIMEOUT_SECONDS:
                    sent_at[partition] = now
                    self.link.produce(
                        self.cluster.produced_to, self, partition, record, acknowledged
                    )
            yield self.interval * (0.9 + 0.2 * self.random.random())

    def _fence_thread(self, effect):
        answer = []
        while not answer:
            answer = yield from self._ask(self.cluster.fence_for, self, effect.transactional_id)
        fenced = CommitsFenced(group=effect.group, incarnation=effect.incarnation)
        self.mailbox.put(("fenced", effect.group, effect.incarnation), fenced)

    # Transactions.

    def _ask(self, action, *args, timeout=PUBLISH_TIMEOUT_SECONDS):
        """Send a request and wait; the answer is a list, and empty after the timeout."""
        answer = []
        self.link.request(action, *args, answer.append)
        deadline = self.scheduler.now + timeout
        while not answer and self.scheduler.now < deadline:
            yield 0.01 + 0.02 * self.random.random()
        return answer

    def _publish(self, records):
        """Publish until the brokers have taken it, as the daemon does.

        A commit of unknown outcome is repeated until it is known, and then the records again. What
        may stand in the log without a commit is aborted before the next transaction begins.
        """
        rows = [(kind, record.key, self.world.as_value(record)) for kind, record in records]
        while True:
            self._requests += 1
            answer = yield from self._ask(
                self.cluster.begin, self, self._producer_epoch, self._requests, rows
            )
            if not answer:
                yield from self._abort()
                continue
            [transaction] = answer
            if transaction is None:
                raise FencedPlannerError
            outcome = yield from self._ask(self.cluster.commit, self, transaction)
            again = not outcome
            while not outcome:
                outcome = yield from self._ask(self.cluster.commit, self, transaction)
            if outcome == ["fenced"]:
                raise FencedPlannerError
            if outcome == ["committed"] and not again:
                return
            yield 0.05

    def _abort(self):
        """Abort what was begun, as `Publisher` does: nothing else is sent before the answer."""
        answer = []
        while not answer:
            yield 0.05
            answer = yield from self._ask(
                self.cluster.abort, self, self._producer_epoch, self._requests
            )
        if answer == ["fenced"]:
            raise FencedPlannerError
