"""Random story of groups, for controls that must have the same effects at the same times."""

from random import Random

from msgspec.structs import replace

from levelwind.assignors.protocol.records import MemberSpeed, Nack, SpeedRecord, Tombstone, encode
from levelwind.assignors.protocol.unread_lag import left_unread
from levelwind.daemon.control.boundary.control_effects import Publish
from levelwind.daemon.control.boundary.control_events import CommitsFenced
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.settings import ControlSettings, CooldownSettings
from levelwind.daemon.control.state.plan_backlog import PlanBudget
from levelwind_testing.control.play import Play
from levelwind_testing.records import (
    lag,
    member,
    racks_trigger,
    request,
    skew_trigger,
    topic,
)

GROUPS = ("a", "b", "c")
TOPICS = ("t", "u")
SETTINGS = ControlSettings(
    settle=1.0,
    settle_max=3.0,
    lag_max_age=40.0,
    cooldown=CooldownSettings(duration=7.0, max_duration=20.0),
)


class RecordedPlay(Play):
    """A control whose effects are kept with their times."""

    def __init__(self, **options):
        super().__init__(**options)
        self.transcript = []

    def _do(self, event):
        effects = super()._do(event)
        for effect in effects:
            shown = effect
            if isinstance(effect, Publish):
                shown = effect.records
            elif isinstance(effect, LogEvent):
                shown = (effect.event, {k: v for k, v in effect.fields.items() if k != "error"})
            self.transcript.append((self.now, type(event).__name__, shown))
        return effects


class Story:
    """Things that happen to groups, by a seed."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.play = RecordedPlay(strategy=self.random.choice(("lag", "sticky")), settings=SETTINGS)
        self.play.budget = self.random.choice((None, PlanBudget(plans=1, every=0.5)))
        self.lives = 0
        self.layouts = {}

    def tell(self, happenings):
        self.play.start()
        for name in TOPICS:
            self._lay_out(name, 4)
        for _ in range(happenings):
            getattr(self, self.random.choice(HAPPENINGS))()
            self.play.wait(self.random.choice((0.0, 0.5, 0.5, 1.5, 4.0)))
        for seconds in (30, 60):
            self.play.interrupted = False
            self.play.refused = set()
            self._fence()
            self.play.wait(seconds)
        return self.play.transcript

    def _member(self, **more):
        self.lives += 1
        return member(
            self.random.choice(("m0", "m1", "m2")),
            group=self.random.choice(GROUPS),
            incarnation=f"i{self.lives}",
            topics=self.random.choice((("t",), ("t", "u"), ("u", "v"))),
            max_poll_interval_ms=10_000,
            **more,
        )

    def _any(self):
        return self.random.choice(sorted(self.play.members)) if self.play.members else None

    def join(self):
        self.play.join(self._member())

    def join_with_claims(self):
        self.play.join(self._member(owned={"t": (self.random.randrange(4),)}, state="active"))

    def join_after_lost_records(self):
        self.play.join(self._member(planner_epoch=3, acked=3, state="active"))

    def join_with_transactions(self):
        record = self._member()
        name = f"x/{record.group}/{record.instance}"
        self.play.join(replace(record, transactional_id=name))

    def replace_life(self):
        if key := self._any():
            self.lives += 1
            record = self.play.members.pop(key)
            fresh = {"incarnation": f"i{self.lives}", "state": "joining", "owned": {}}
            fresh |= {"starting": {}, "acked_epoch": 0, "planner_epoch": 0}
            self.play.join(replace(record, **fresh))
            if self.random.random() < 0.5:
                self.play.members[key] = record

    def leave(self):
        if key := self._any():
            self.play.leave(*key)

    def fall_silent(self):
        if key := self._any():
            self.play.unresponsive.add(key)

    def come_back(self):
        self.play.unresponsive.clear()

    def stay_silent_for_long(self):
        self.fall_silent()
        self.play.wait(self.random.choice((16.0, 40.0)))

    def all_fall_silent(self):
        self.play.unresponsive.update(self.play.members)
        self.play.wait(self.random.choice((8.0, 16.0, 40.0, 90.0)))

    def cannot_start(self):
        if key := self._any():
            self.play.starting.add(key)
            self.play.update(*key, starting=self.play.members[key].owned)
            self.play.wait(self.random.choice((1.0, 70.0)))

    def nack(self):
        if key := self._any():
            record = self.play.members[key]
            failed = Nack(epoch=record.acked_epoch, code="start-failed")
            self.play.update(*key, nack=failed, owned={})

    def start(self):
        self.play.starting.clear()
        for key, record in sorted(self.play.members.items()):
            if record.starting and key not in self.play.unresponsive:
                self.play.update(*key, starting={})

    def change_capacity(self):
        if key := self._any():
            self.play.update(*key, capacity=self.random.choice((1.0, 2.0)))

    def interrupt(self):
        self.play.interrupted = not self.play.interrupted

    def refuse(self):
        self.play.refused = set() if self.play.refused else {self.random.choice(GROUPS)}

    def _fence(self):
        while self.play.fencing:
            order = self.play.fencing.pop(0)
            self.play._do(CommitsFenced(group=order.group, incarnation=order.incarnation))

    def fence(self):
        self._fence()

    def _lay_out(self, name, partitions, topic_id="A"):
        at = round(self.play.now * 1000)
        layout = topic(name, ((),) * partitions, at=at, topic_id=topic_id * 22)
        self.layouts[name] = layout
        self.play.receive("metadata", layout)

    def lay_out(self):
        name = self.random.choice((*TOPICS, "v"))
        self._lay_out(name, self.random.choice((4, 4, 6)), self.random.choice("AAB"))

    def forget_layout(self):
        """Restart the daemon on topics of which one has no layout yet."""
        if self.play.refused:
            return
        name = self.random.choice(TOPICS)
        self.layouts.pop(name, None)
        self.play.written = [each for each in self.play.written if each[1].key != ("topic", name)]
        self.play.restart()

    def delete_topic(self):
        name = self.random.choice((*TOPICS, "v"))
        if self.layouts.pop(name, None):
            self.play.receive("metadata", Tombstone(("topic", name)))

    def _sample(self, record):
        """Publish a sample, which the daemon has left unread or not."""
        self.play.written.append(("lag", record))
        unread = left_unread(record.group, record.topic, encode(record)[1])
        self.play._read("lag", self.random.choice((record, unread, unread)))

    def report_lag(self):
        at = round((self.play.now - self.random.choice((0, 0, 0, 50))) * 1000)
        for group in GROUPS:
            for name, layout in self.layouts.items():
                behind = [self.random.choice((0, 10, 9000)) for _ in range(layout.partitions)]
                rate = (self.random.choice((1.0, 400.0)),) * len(behind)
                record = lag(*behind, group=group, topic=name, at=at, topic_id=layout.id, rate=rate)
                self._sample(record)

    def report_lag_for_long(self):
        for _ in range(12):
            self.report_lag()
            self.play.wait(1.0)

    def learn_speeds(self):
        group = self.random.choice(GROUPS)
        speeds = {name: MemberSpeed(speed=100.0, sure=0.9) for name in ("m0", "m1")}
        self.play.receive("lag", SpeedRecord(group=group, at=1, members=speeds))

    def forget_lag(self):
        group, name = self.random.choice(GROUPS), self.random.choice(TOPICS)
        self.play.receive("lag", Tombstone(("lag", group, name)))

    def trigger_skew(self):
        record = skew_trigger(at=round(self.play.now * 1000), since=self.random.choice((1, 2)))
        self.play.receive("triggers", replace(record, group=self.random.choice(GROUPS)))

    def trigger_skew_of_lag(self):
        """Let one partition of each topic have all the lag, then ask for plans, and for more."""
        for _ in range(2):
            at = round(self.play.now * 1000)
            for group in GROUPS:
                for name, layout in self.layouts.items():
                    behind = [50_000, 40_000, *[0] * (layout.partitions - 2)]
                    rate = (10.0,) * len(behind)
                    record = lag(
                        *behind, group=group, topic=name, at=at, topic_id=layout.id, rate=rate
                    )
                    self._sample(record)
                self.play.receive("triggers", replace(skew_trigger(at=at, since=at), group=group))
            self.play.wait(self.random.choice((4.0, 9.0)))

    def trigger_racks(self):
        self.play.receive("triggers", replace(racks_trigger(), group=self.random.choice(GROUPS)))

    def clear_trigger(self):
        kind, group = self.random.choice(("racks", "skew")), self.random.choice(GROUPS)
        self.play.receive("triggers", Tombstone((kind, group)))

    def ask(self):
        self.play.receive("control", request(self.random.choice(GROUPS)))

    def restart(self):
        if not self.play.refused:
            self.play.restart()


HAPPENINGS = sorted(
    name
    for name, value in vars(Story).items()
    if callable(value) and not name.startswith("_") and name != "tell"
)
