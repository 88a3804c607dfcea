"""Transcripts of the control: a control, its clock, its members, and builders of the records that it reads."""

from dataclasses import dataclass, field, replace

from assignors.handover.timers import Timers
from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import (
    LagRecord,
    MemberAssignment,
    MemberRecord,
    RackChange,
    RacksEvidence,
    SkewEvidence,
    Tombstone,
    TopicRecord,
    TriggerRecord,
)
from daemon.control.context import LogEvent
from daemon.control.controller import (
    Clock,
    ControlState,
    Fenced,
    Publish,
    RecordReceived,
    Recovered,
    Ticked,
    step,
)
from daemon.control.settings import (
    ControlSettings,
    CooldownSettings,
    PlanSettings,
)

TIMERS = Timers()
SETTINGS = ControlSettings(settle=1.0, settle_max=5.0, cooldown=CooldownSettings(duration=60.0))


def member(
    instance,
    *,
    incarnation="i1",
    topics=("t",),
    rack=None,
    state="joining",
    acked=0,
    owned=None,
    beat=0,
):
    return MemberRecord(
        group="g",
        instance=instance,
        incarnation=incarnation,
        client="test",
        client_version="1",
        topics=tuple(topics),
        rack=rack,
        priority=0,
        capacity=1.0,
        state=state,
        acked_epoch=acked,
        owned=owned or {},
        nack=None,
        features=(),
        heartbeat=beat,
    )


def topic(name="t", racks=((), (), (), ()), at=1000, ident="A" * 22):
    count = len(racks)
    return TopicRecord(
        topic=name,
        at=at,
        id=ident,
        leader=(1,) * count,
        replicas=((1,),) * count,
        isr=((1,),) * count,
        racks=tuple(racks),
    )


def lag(*lags, name="t", at=2000, ident="A" * 22):
    zeros = (0,) * len(lags)
    return LagRecord(
        group="g",
        topic=name,
        at=at,
        id=ident,
        end_kind="stable",
        committed=zeros,
        committed_at=zeros,
        begin=zeros,
        end=tuple(lags),
        lag=tuple(lags),
        lost=zeros,
        stale=(),
        racks=((),) * len(lags),
        source={},
    )


def skew_trigger(at=3000, since=2000):
    evidence = SkewEvidence(skew=2.0, threshold=1.5, lag=100_000, floor=10_000, members={})
    return TriggerRecord(group="g", at=at, since=since, evidence=evidence, source={})


def racks_trigger(at=3000):
    evidence = RacksEvidence(topics={"t": {0: RackChange(before=("a",), after=("b",))}})
    return TriggerRecord(group="g", at=at, since=at, evidence=evidence, source={})


@dataclass
class Play:
    """A control, its clock, and members that do at once what they are told (unless they are deaf)."""

    strategy: str = "lag"
    planning: PlanSettings | None = None  # else by the strategy alone
    settings: ControlSettings = SETTINGS
    now: float = 100.0
    log: list = field(default_factory=list)
    words: list = field(default_factory=list)
    members: dict = field(default_factory=dict)
    deaf: set = field(default_factory=set)
    unread: list = field(default_factory=list)
    published: list = field(default_factory=list)
    reading: bool = False
    state: ControlState | None = None

    def start(self, *records):
        self.state = ControlState(
            instance="d1",
            settings=self.settings,
            timers=TIMERS,
            planning_of=lambda _: self.planning or PlanSettings(strategy=self.strategy),
        )
        kinds = {MemberRecord: "members", TopicRecord: "metadata", Tombstone: "members"}
        heard = tuple((kinds.get(type(record), "assignments"), record) for record in records)
        return self._do(Recovered(records=heard))

    def tell(self, kind, record):
        return self._do(RecordReceived(kind=kind, record=record))

    def join(self, *records):
        for record in records:
            self.members[record.instance, record.incarnation] = record
            self.tell("members", record)

    def wait(self, seconds, beat=True):
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            if beat and self.now % 3 == 0:
                for key, record in list(self.members.items()):
                    if key not in self.deaf:
                        self.members[key] = replace(record, heartbeat=record.heartbeat + 1)
                        self.tell("members", self.members[key])
            self._do(Ticked())

    def _do(self, event):
        self.state, effects = step(
            self.state, event, Clock(now=self.now, at=round(self.now * 1000))
        )
        for effect in effects:
            if isinstance(effect, Publish):
                self.unread += effect.records
                self.published += effect.records
                self.log += [record for kind, record in effect.records if kind == "assignments"]
            elif isinstance(effect, LogEvent):
                self.words.append(effect)
            elif isinstance(effect, Fenced):
                self.words.append(LogEvent("fenced", {}))
        if not self.reading:  # the log is read in its order, however much is written meanwhile
            self.reading = True
            while self.unread:
                self._echo(*self.unread.pop(0))
            self.reading = False
        return effects

    def _echo(self, kind, record):
        self.tell(kind, record)
        if isinstance(record, MemberAssignment) and record.state == "active":
            key = record.instance, record.incarnation
            if key in self.members and key not in self.deaf:
                self.members[key] = replace(
                    self.members[key],
                    state="active",
                    acked_epoch=record.member_epoch,
                    owned=record.assigned,
                )
                self.tell("members", self.members[key])

    def owned(self):
        return {
            instance: ranges.texts(record.owned).get("t", "")
            for (instance, _), record in sorted(self.members.items())
        }

    def said(self, event):
        return [word.fields for word in self.words if word.event == event]

    @property
    def plans(self):
        return self.said("plan.published")
