"""CPU of the control for many groups: a second of news, a tick, and a storm of triggers.

    python tests/benchmarks/bench_control.py [--groups 5000] [--beside 500] [--seconds 6]

The real way in: Kafka messages with encoded records go through `take_message`, `RecordIntake` and
the mailbox to `step`, without brokers. Every group has a topic of its own and owns all of it. A
second of news is what a second brings: each member announces itself every 3 s, each group's lag is
published every `--lag-every` seconds, its speeds every 10 s, and each partition of the members'
topic gives a canary back. A tick follows every half second. The
collector of garbage is set as the daemon sets it; what the benchmark makes itself is freed before
the clock runs, but for its messages.

`storm`: a racks trigger of every group arrives at once, and plans are made until each group has
one, in steps with the daemon's own budget, while news go on. The delay of a plan is modelled: half
a second for each tick, or the CPU time of that half second where it is longer. Publishing takes no
time, and members acknowledge at once.

Figures stand beside those of fewer groups: cost must grow with the news, not with the groups.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from msgspec.structs import replace

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import (
    LagRecord,
    MemberAssignment,
    MemberRecord,
    MemberSpeed,
    RackChange,
    RacksEvidence,
    SpeedRecord,
    TopicRecord,
    TriggerRecord,
    encode,
)
from levelwind.assignors.protocol.topics import TopicKind, Topics, partition_for
from levelwind.daemon import memory
from levelwind.daemon.control.boundary.control_effects import Publish
from levelwind.daemon.control.boundary.control_events import Event, MembersRead, Ticked, together
from levelwind.daemon.control.context import Clock
from levelwind.daemon.control.controller import step
from levelwind.daemon.control.settings import ControlSettings, PlanSettings
from levelwind.daemon.control.state.control_state import ControlState
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage, take_message
from levelwind.daemon.service.mailbox import Mailbox
from levelwind.daemon.service.planning_pace import PlanningPace
from levelwind.daemon.service.record_intake import RecordIntake

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.records import lag, member, topic, trigger

TOPICS = Topics()
PARTITIONS = {TOPICS.name(kind): 8 for kind in ("members", "assignments", "lag", "triggers")} | {
    TOPICS.metadata: 1,
    TOPICS.control: 1,
}
MEMBERS_PARTITIONS = PARTITIONS[TOPICS.members]
TICK_SECONDS = 0.5
TIMERS = Timers()
WARM_SECONDS = 6
"""Seconds of news before the measured ones: the first looks at the demand, and evaluations."""
AT_ONCE = 1000
"""Messages of one poll."""
LONGEST_STORM_SECONDS = 3600


class Fleet:
    """Groups of members, and the control that manages them."""

    def __init__(
        self, groups: int, members: int, partitions: int, lag_every: float, strategy: str
    ) -> None:
        self.now = 1000.0
        self.cpu: Counter[str] = Counter()
        """CPU seconds by what they were spent on."""
        self.events: Counter[str] = Counter()
        self.plans: dict[str, float] = {}
        """Time of the newest plan of each group."""
        self.elapsed = 0.0
        """Seconds that the daemon would have taken, alone on the machine."""
        self._pace = PlanningPace(TICK_SECONDS)
        self._repeated = RepeatedRecords(lazy=True)
        self.longest_step = 0.0
        self.members: dict[tuple[str, str], MemberRecord] = {}
        self.names = [f"group-{number:05}" for number in range(groups)]
        self._size, self._partitions, self._lag_every = members, partitions, lag_every
        self._offset = 0
        self._mailbox: Mailbox[Any] = Mailbox(10_000_000)
        self._intake = RecordIntake(TOPICS, PARTITIONS, self._mailbox, None, instance="bench")
        self._state = ControlState(
            instance="bench",
            settings=ControlSettings(),
            timers=TIMERS,
            planning_of=lambda _: PlanSettings(strategy=strategy),
            members_partitions=MEMBERS_PARTITIONS,
        )
        self._set_up()

    @property
    def control_cpu(self) -> float:
        """CPU seconds of the daemon's way in, of the control, and of decoding."""
        return sum(self.cpu.values())

    def _set_up(self) -> None:
        racks = tuple((f"r{n % 3}", f"r{(n + 1) % 3}") for n in range(self._partitions))
        self.receive("metadata", [topic(f"topic-{name}", racks) for name in self.names])
        self._intake.recover()
        self._work()
        memory.keep_heap()
        for name in self.names:
            for number in range(self._size):
                instance = f"member-{number}"
                self.members[name, instance] = member(
                    instance,
                    group=name,
                    topics=(f"topic-{name}",),
                    rack=f"r{number % 3}",
                )
        self.receive("members", self.members.values())
        while len(self.plans) < len(self.names) or self._unsettled:
            self.second(news=False, heartbeats=True)
        self.cpu.clear()
        self.plans.clear()
        self.longest_step = 0.0

    @property
    def _unsettled(self) -> bool:
        return not all(group.ledger.settled for group in self._state.groups.values())

    # News.

    def second(self, *, news: bool = True, heartbeats: bool = True) -> None:
        """Let a second pass, with its news and two ticks."""
        whole = int(self.now)
        for half in range(2):
            self.now = whole + (half + 1) * TICK_SECONDS
            used = self.control_cpu
            number = 2 * whole + half
            if heartbeats:
                self.receive("members", list(self._heartbeats(number)))
            if news:
                self.receive("lag", list(self._lags(number)))
                self.receive("lag", list(self._speeds(number)))
            for partition in range(MEMBERS_PARTITIONS):
                self._mailbox.put(
                    ("read", partition), MembersRead(partition=partition, asked_at=self.now)
                )
            self._work()
            self.tick()
            self.elapsed += max(TICK_SECONDS, self.control_cpu - used)

    def _heartbeats(self, number: int) -> Iterator[MemberRecord]:
        every = round(TIMERS.heartbeat / TICK_SECONDS)
        for index, (key, record) in enumerate(self.members.items()):
            if index % every == number % every:
                self.members[key] = replace(record, heartbeat=record.heartbeat + 1)
                yield self.members[key]

    def _lags(self, number: int) -> Iterator[LagRecord]:
        every = max(round(self._lag_every / TICK_SECONDS), 1)
        at = round(self.now * 1000)
        count = self._partitions
        owner = tuple(n % self._size for n in range(count))
        for index, name in enumerate(self.names):
            if index % every == number % every:
                waiting = [(index + number + n) % 50 for n in range(count)]
                yield lag(
                    *waiting,
                    group=name,
                    topic=f"topic-{name}",
                    at=at,
                    ends=[at + left for left in waiting],
                    racks=(("r0", "r1"),) * count,
                    rate=tuple(10.0 + (index + number + n) % 7 / 3 for n in range(count)),
                    velocity=tuple(10.0 + (index + n) % 5 / 7 for n in range(count)),
                    seconds=tuple((index + n) % 9 / 10 for n in range(count)),
                    members=tuple(f"member-{n}" for n in range(self._size)),
                    owner=owner,
                )

    def _speeds(self, number: int) -> Iterator[SpeedRecord]:
        every = round(10 / TICK_SECONDS)
        for index, name in enumerate(self.names):
            if index % every == number % every:
                yield SpeedRecord(
                    group=name,
                    at=round(self.now * 1000),
                    members={
                        f"member-{n}": MemberSpeed(speed=300.0 + n + number % 10, sure=0.9)
                        for n in range(self._size)
                    },
                )

    def storm(self) -> None:
        """Move the replicas of every topic, and raise the racks trigger of every group."""
        at = round(self.now * 1000)
        racks = tuple((f"r{(n + 1) % 3}", f"r{(n + 2) % 3}") for n in range(self._partitions))
        self.receive("metadata", (topic(f"topic-{name}", racks, at=at) for name in self.names))
        self.receive("triggers", (self._trigger(name, at) for name in self.names))

    def _trigger(self, name: str, at: int) -> TriggerRecord:
        moved = {
            n: RackChange(
                before=(f"r{n % 3}", f"r{(n + 1) % 3}"),
                after=(f"r{(n + 1) % 3}", f"r{(n + 2) % 3}"),
            )
            for n in range(self._partitions)
        }
        return trigger(RacksEvidence(topics={f"topic-{name}": moved}), group=name, at=at)

    # The way in, and the control.

    def receive(self, kind: TopicKind, records: Iterable[Any]) -> None:
        """Let the follower's thread read records; making the messages does not count."""
        messages = [self._message(kind, record) for record in records]
        kinds = [type(record).__name__ for record in records] if isinstance(records, list) else []
        name = kinds[0] if kinds else kind
        del records  # no collection of this garbage falls into what is measured
        begun = time.process_time()
        for message in messages:
            read = take_message(TOPICS, message, self._repeated.decode)
            if isinstance(read, UnreadMessage):
                self._intake.on_unread(read)
            else:
                assert isinstance(read, ConsumedRecord), read
                self._intake.on_record(read)
        self.cpu[f"{name}: decoding and intake"] += time.process_time() - begun
        if name != "metadata":
            self._work(name)

    def _message(self, kind: TopicKind, record: Any) -> Message:
        key, value = encode(record)
        self._offset += 1
        name = TOPICS.name(kind)
        partition = (
            0 if isinstance(record, TopicRecord) else partition_for(record.group, PARTITIONS[name])
        )
        return Message(
            topic=name,
            partition=partition,
            offset=self._offset,
            key=key,
            value=value,
            timestamp=(1, round(self.now * 1000)),
        )

    def _work(self, name: str = "canaries") -> None:
        begun = time.process_time()
        events: list[Event] = self._mailbox.take(0)
        self.cpu[f"{name}: control"] += time.process_time() - begun
        for first in range(0, len(events), AT_ONCE):
            for event in together(events[first : first + AT_ONCE]):
                self._step(event, f"{name}: control")

    def tick(self) -> None:
        self._pace.ticked(self.elapsed)
        self._step(Ticked(budget=self._pace.budget), "tick")

    def _step(self, event: Event, name: str) -> None:
        clock = Clock(now=self.now, at=round(self.now * 1000))
        planned = self._state.backlog.computed
        begun = time.process_time()
        self._state, effects = step(self._state, event, clock)
        used = time.process_time() - begun
        self._pace.planned(self._state.backlog.computed - planned, used)
        self.cpu[name] += used
        self.longest_step = max(self.longest_step, used)
        acknowledged: dict[tuple[str, str], MemberRecord] = {}
        for effect in effects:
            if isinstance(effect, Publish):
                for kind, record in effect.records:
                    if kind == "assignments":
                        self._published(record, acknowledged)
            else:
                self.events[getattr(effect, "event", type(effect).__name__)] += 1
                if getattr(effect, "event", "") == "plan.published":
                    self.plans[str(effect.fields["group"])] = self.elapsed  # type: ignore[union-attr]
        if acknowledged:
            self.members |= acknowledged
            self.receive("members", list(acknowledged.values()))

    def _published(self, record: Any, acknowledged: dict[tuple[str, str], MemberRecord]) -> None:
        if isinstance(record, MemberAssignment):
            key = record.group, record.instance
            acknowledged[key] = replace(
                self.members[key],
                state="active",
                planner_epoch=record.planner_epoch,
                acked_epoch=record.member_epoch,
                owned=record.assigned,
                heartbeat=self.members[key].heartbeat + 1,
            )


def measure(groups: int, options: argparse.Namespace) -> dict[str, float]:
    memory.collect_rarely()
    fleet = Fleet(groups, options.members, options.partitions, options.lag_every, options.strategy)
    for _ in range(WARM_SECONDS):
        fleet.second()
    fleet.cpu.clear()
    fleet.longest_step = 0.0
    for _ in range(options.seconds):
        fleet.second()
    figures: dict[str, float] = defaultdict(float)
    for name, used in sorted(fleet.cpu.items()):
        if name == "tick":
            figures["a tick among news"] = used / options.seconds / 2
        else:
            figures[name.replace(":", ",")] = used / options.seconds
    figures["a second of news, all"] = fleet.control_cpu / options.seconds
    figures["longest step among news"] = fleet.longest_step
    fleet.cpu.clear()
    for _ in range(3):
        fleet.tick()
    figures["a tick, nothing due"] = fleet.cpu["tick"] / 3
    if not options.no_storm:
        figures |= storm(fleet)
    return figures


def storm(fleet: Fleet) -> dict[str, float]:
    """CPU and delays of a storm of triggers."""
    fleet.cpu.clear()
    fleet.longest_step = 0.0
    fleet.plans.clear()
    begun = fleet.elapsed
    fleet.storm()
    for _ in range(LONGEST_STORM_SECONDS):
        fleet.second()
        if len(fleet.plans) == len(fleet.names):
            break
    delays = sorted(at - begun for at in fleet.plans.values()) or [float("nan")]
    return {
        "storm, groups planned": len(fleet.plans),
        "storm, delay of the median plan": delays[len(delays) // 2],
        "storm, delay of the last plan": delays[-1],
        "storm, longest step": fleet.longest_step,
        "storm, CPU in all": fleet.control_cpu,
        "storm, log events about the delay": fleet.events["planning.delayed"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--beside", type=int, default=500, help="groups of the figures beside")
    parser.add_argument("--members", type=int, default=3, help="of each group")
    parser.add_argument("--partitions", type=int, default=6, help="of each group's topic")
    parser.add_argument("--lag-every", type=float, default=1.0, help="seconds")
    parser.add_argument(
        "--seconds", type=int, default=10, help="seconds of news; demand is looked at every 5 s"
    )
    parser.add_argument("--strategy", default="optimal")
    parser.add_argument("--no-storm", action="store_true")
    options = parser.parse_args()
    sizes = [size for size in (options.beside, options.groups) if size]
    found = [measure(size, options) for size in sizes]
    print(f"{'CPU, milliseconds':44}" + "".join(f"{f'{size:,} groups':>16}" for size in sizes))
    for name in found[-1]:
        shown = [figures.get(name, float("nan")) for figures in found]
        counted = "planned" in name or "events" in name
        print(
            f"{name:44}"
            + "".join(f"{value:16,.0f}" if counted else f"{1000 * value:16,.1f}" for value in shown)
        )


if __name__ == "__main__":
    main()
