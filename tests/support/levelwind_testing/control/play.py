"""Transcripts of the control: a control, its clock, and its members."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import (
    LagRecord,
    LeverRecord,
    MemberAssignment,
    MemberRecord,
    ProposalRecord,
    Tombstone,
    TopicRecord,
    TriggerRecord,
)
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind.daemon.control.boundary.control_effects import (
    Audit,
    FenceCommits,
    Fenced,
    Publish,
    concerns,
)
from levelwind.daemon.control.boundary.control_events import (
    MembersRead,
    PublishRefused,
    RecordReceived,
    Recovered,
    Ticked,
)
from levelwind.daemon.control.context import Clock, LogEvent
from levelwind.daemon.control.controller import step
from levelwind.daemon.control.settings import ControlSettings, CooldownSettings, PlanSettings
from levelwind.daemon.control.state.control_state import ControlState
from levelwind.daemon.control.state.plan_backlog import PlanBudget
from levelwind.daemon.telemetry.log_events import EVENTS

TIMERS = Timers()
SETTINGS = ControlSettings(settle=1.0, settle_max=5.0, cooldown=CooldownSettings(duration=60.0))

KINDS = {
    MemberRecord: "members",
    TopicRecord: "metadata",
    LagRecord: "lag",
    TriggerRecord: "triggers",
    LeverRecord: "control",
    ProposalRecord: "control",
    Tombstone: "members",
}
"""Topic of a record that a test gives to `Play.start`; of all other records: assignments."""


@dataclass
class Play:
    """A control, its clock, and members that follow their assignments at once."""

    strategy: str = "lag"
    planning: PlanSettings | None = None
    """Planning settings of every group; None: the strategy without options."""
    modes: dict = field(default_factory=dict)
    """Modes of the groups that are not managed, by name."""
    settings: ControlSettings = SETTINGS
    timers: Timers = TIMERS
    now: float = 100.0
    """Boot seconds; the wall clock shows the same time."""
    log: list = field(default_factory=list)
    """The records published to the assignments topic."""
    events: list = field(default_factory=list)
    """The log events."""
    members: dict = field(default_factory=dict)
    """The last announcement of each member, by instance and incarnation."""
    unresponsive: set = field(default_factory=set)
    """Instance and incarnation of members that send no heartbeat and follow no assignment."""
    unread: list = field(default_factory=list)
    """Records that were published and that the control has not read back yet."""
    published: list = field(default_factory=list)
    """All records published, each with its topic."""
    written: list = field(default_factory=list)
    """All records of levelwind's topics, whoever wrote them, each with its topic."""
    steps: list = field(default_factory=list)
    """The records of each transaction."""
    reading: bool = False
    """Whether published records are being read back."""
    rejoining: bool = False
    """Whether a member that reads its eviction or its tombstone begins another life."""
    starting: set = field(default_factory=set)
    """Instance and incarnation of members that do not get to read what they are granted."""
    interrupted: bool = False
    """Whether no canary comes back: the daemon cannot read what members announce."""
    fencing: list = field(default_factory=list)
    """The orders to fence an evicted member's commits, which a test answers."""
    reassembly: Reassembly = field(default_factory=Reassembly)
    """Makes the records whole that members read."""
    refused: set = field(default_factory=set)
    """Groups whose records are refused."""
    drafts: list = field(default_factory=list)
    """What the audit trail keeps."""
    budget: PlanBudget | None = None
    """How many plans each step may make; None for as many as are due."""
    frozen: dict = field(default_factory=dict)
    """Why planning is frozen for all groups, by reason."""
    state: ControlState | None = None
    """State of the control; None while the daemon is down."""

    def start(self, *records):
        self.written += [(KINDS.get(type(record), "assignments"), record) for record in records]
        return self._lead([(kind, record) for kind, record in self.written])

    def stop(self):
        """End the daemon; what members write is read by the next one."""
        self.state = None
        self.unread.clear()

    def restart(self):
        """End the daemon if it runs, and start another one on what the topics hold."""
        self.stop()
        latest = {}
        for kind, record in self.written:
            latest.pop((kind, record.key), None)
            latest[kind, record.key] = record
        return self._lead([(kind, record) for (kind, _), record in latest.items()])

    def _lead(self, records):
        self.state = ControlState(
            instance="d1",
            settings=self.settings,
            timers=self.timers,
            planning_of=lambda _: self.planning or PlanSettings(strategy=self.strategy),
            members_partitions=1,
            modes=self.modes,
        )
        return self._do(Recovered(records=tuple(records)))

    def give(self, event):
        """Give the control an event that is no record."""
        return self._do(event)

    def receive(self, kind, record):
        self.written.append((kind, record))
        return self._read(kind, record)

    def _read(self, kind, record):
        return self._do(RecordReceived(kind=kind, record=record)) if self.state else []

    def join(self, *records):
        for record in records:
            self.members[record.instance, record.incarnation] = record
            self.receive("members", record)

    def leave(self, *key):
        """Let a member leave as it should: it owns nothing, then it takes back its record."""
        record = self.members.pop(key)
        self.receive("members", replace(record, state="left", owned={}))
        self.receive("members", Tombstone(record.key))

    def update(self, *key, **changes):
        """Let a member announce something else."""
        record = self.members[key]
        self.members[key] = replace(record, heartbeat=record.heartbeat + 1, **changes)
        self.receive("members", self.members[key])

    def kill(self, *key):
        """End a member's process."""
        del self.members[key]

    def wait(self, seconds, beat=True, step=0.5):
        for _ in range(round(seconds / step)):
            self.now = round(self.now + step, 3)
            if beat and self.now % 3 == 0:
                for key, record in list(self.members.items()):
                    if key not in self.unresponsive and key in self.members:
                        self.members[key] = replace(record, heartbeat=record.heartbeat + 1)
                        self.receive("members", self.members[key])
            if self.state and not self.interrupted:
                self._canaries(step)
            if self.state:
                self._do(Ticked(budget=self.budget, frozen=self.frozen))

    def _canaries(self, seconds):
        """Let the canaries of the last seconds come back."""
        count = max(1, round(seconds / self.timers.canary))
        for number in range(count):
            asked_at = self.now - seconds * (count - 1 - number) / count
            self._do(MembersRead(partition=0, asked_at=asked_at))

    def kept(self):
        """The newest record of each key of the assignments topic, once it is compacted."""
        newest = {record.key: record for record in self.log}
        return [record for record in newest.values() if not isinstance(record, Tombstone)]

    def _do(self, event):
        self.state, effects = step(
            self.state, event, Clock(now=self.now, at=round(self.now * 1000))
        )
        rollbacks = [
            effect.rollback
            for effect in effects
            if isinstance(effect, Publish)
            and effect.rollback is not None
            and effect.rollback.group.name in self.refused
        ]
        for rollback in rollbacks:
            effects = [effect for effect in effects if not concerns(effect, rollback.group.name)]
            self._do(PublishRefused(rollback=rollback, reason="too large"))
        for effect in effects:
            if isinstance(effect, Publish | Audit):
                self.drafts += effect.drafts
            if isinstance(effect, Publish):
                self.unread += effect.records
                self.published += effect.records
                self.steps.append([record for _, record in effect.records])
                self.written += effect.records
                self.log += [record for kind, record in effect.records if kind == "assignments"]
            elif isinstance(effect, LogEvent):
                assert set(effect.fields) <= set(EVENTS[effect.event].fields), effect
                self.events.append(effect)
            elif isinstance(effect, FenceCommits):
                self.fencing.append(effect)
            elif isinstance(effect, Fenced):
                self.events.append(LogEvent("fenced", {}))
        if not self.reading:
            # The log is read in its order, however much is written meanwhile.
            self.reading = True
            while self.unread:
                self._echo(*self.unread.pop(0))
            self.reading = False
        return effects

    def _echo(self, kind, record):
        self._read(kind, record)
        if self.rejoining and kind == "assignments" and record.key[0] == "m":
            ended = isinstance(record, Tombstone) or record.state == "evicted"
            if ended:
                self._rejoin(*record.key[2:])
        record = self.reassembly.take(record) if kind == "assignments" else None
        if isinstance(record, MemberAssignment) and record.state == "active":
            key = record.instance, record.incarnation
            last = self.members.get(key)
            newest = (last.planner_epoch, last.acked_epoch) if last else (0, 0)
            epochs = record.planner_epoch, record.member_epoch
            if last and key not in self.unresponsive and epochs > newest:
                self.members[key] = replace(
                    last,
                    state="active",
                    planner_epoch=record.planner_epoch,
                    acked_epoch=record.member_epoch,
                    owned=record.assigned,
                    starting=record.assigned if key in self.starting else {},
                )
                self.receive("members", self.members[key])

    def _rejoin(self, instance, incarnation):
        """Let an evicted member drop everything and begin another life, as a real one does."""
        key = instance, incarnation
        if key in self.members and key not in self.unresponsive:
            record = self.members[key]
            self.leave(*key)
            fresh = {"incarnation": incarnation + "'", "state": "joining", "owned": {}}
            self.join(replace(record, **fresh, starting={}, acked_epoch=0, planner_epoch=0))

    def owned(self):
        return {
            instance: ranges.texts(record.owned).get("t", "")
            for (instance, _), record in sorted(self.members.items())
        }

    def owned_pairs(self):
        """Topic and partition of all that members own, as often as it is owned."""
        return sorted(p for record in self.members.values() for p in ranges.pairs(record.owned))

    def logged(self, event):
        return [entry.fields for entry in self.events if entry.event == event]

    @property
    def plans(self):
        return self.logged("plan.published")


def control_state(settings):
    """The state of a control that has read nothing, with the settings of a file."""
    return ControlState(
        instance="me",
        settings=settings.control,
        timers=settings.timers,
        planning_of=settings.planning_of,
        members_partitions=4,
    )


def begun(layout, **options):
    """A transcript whose daemon leads, and has read the layout of a topic."""
    play = Play(**options)
    play.start()
    play.receive("metadata", layout)
    return play
