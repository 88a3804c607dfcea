"""A scripted installation: brokers in three racks, and groups of every mode with lag that moves.

Each step gives the records that the daemon would read next. The same seed gives the same records.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    BrokerRecord,
    GroupRecord,
    LagRecord,
    MemberAssignment,
    MemberRecord,
    SkewEvidence,
    TopicRecord,
    TriggerRecord,
)
from levelwind.assignors.protocol.records.planned_group import CertifiedObjective, PlanCertificate
from levelwind.daemon.kafka.topic_reader import ConsumedRecord
from levelwind_testing import records
from levelwind_testing.records import TOPIC_ID

RACKS = ("rack-a", "rack-b", "rack-c")
NAMES = (
    "orders-billing",
    "payments-ledger",
    "shipping-labels",
    "search-index",
    "fraud-scoring",
    "email-digest",
    "inventory-sync",
    "clickstream-etl",
)
START_MS = 1_780_000_000_000
STEP_MS = 10_000
KIND_OF = {
    BrokerRecord: "metadata",
    TopicRecord: "metadata",
    LagRecord: "lag",
    GroupRecord: "assignments",
    MemberAssignment: "assignments",
    MemberRecord: "members",
    TriggerRecord: "triggers",
}


@dataclass
class ScriptedGroup:
    """One group whose members own the partitions of its topics in turns."""

    name: str
    partitions: int
    members: int
    watched: bool = False
    topics: tuple[str, ...] = ()
    lags: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class ScriptedInstallation:
    """Groups whose lag changes step by step."""

    def __init__(self, groups: list[ScriptedGroup], *, seed: int = 1, at: int = START_MS) -> None:
        self.random = Random(seed)
        self.at = at
        self.groups = groups
        self.offset = 0
        for group in groups:
            group.topics = group.topics or (f"{group.name}.events",)
            size = group.partitions
            group.lags = [
                max(0, round(self.random.lognormvariate(3, 2.2)) - 12) for _ in range(size)
            ]
            group.ends = [self.random.randrange(10_000, 9_000_000) for _ in range(size)]

    def first(self) -> list[ConsumedRecord]:
        """Everything that describes the installation, with a first sample of lag."""
        described: list[object] = [
            BrokerRecord(
                broker=number + 1,
                at=self.at,
                rack=RACKS[number % 3],
                online=number != 4,
                follower_fetching=True,
            )
            for number in range(6)
        ]
        for group in self.groups:
            described += self._layouts(group)
            if not group.watched:
                described += self._planned(group)
        return [self._read(record) for record in described] + self.step()

    def step(self, share: float = 1.0) -> list[ConsumedRecord]:
        """The samples of lag ten seconds later, of a share of the groups."""
        self.at += STEP_MS
        moved = self.groups[: max(1, round(len(self.groups) * share))]
        for group in moved:
            for index in range(group.partitions):
                if self.random.random() < 0.5:
                    arrived = round(self.random.lognormvariate(2.5, 1.6))
                    read = round(arrived * self.random.uniform(0, 2.1))
                    group.ends[index] += arrived
                    group.lags[index] = max(0, group.lags[index] + arrived - read)
        return [self._read(record) for group in moved for record in self._lags(group)]

    def _read(self, record: object) -> ConsumedRecord:
        self.offset += 1
        return ConsumedRecord(
            kind=KIND_OF[type(record)],
            record=record,
            partition=0,
            offset=self.offset,
            timestamp=self.at,
        )

    def _split(self, group: ScriptedGroup) -> Iterator[tuple[str, range]]:
        size, more = divmod(group.partitions, len(group.topics))
        begin = 0
        for number, topic in enumerate(group.topics):
            end = begin + size + (number < more)
            yield topic, range(begin, end)
            begin = end

    def _racks(self, index: int) -> tuple[str, ...]:
        return tuple(sorted((RACKS[index % 3], RACKS[(index + 1 + index // 3 % 2) % 3])))

    def _layouts(self, group: ScriptedGroup) -> list[TopicRecord]:
        return [
            TopicRecord(
                topic=topic,
                at=self.at,
                id=TOPIC_ID,
                leader=tuple(index % 6 + 1 for index in indices),
                replicas=tuple((index % 6 + 1, (index + 1) % 6 + 1) for index in indices),
                isr=tuple(
                    (index % 6 + 1,) if index % 97 == 0 else (index % 6 + 1, (index + 1) % 6 + 1)
                    for index in indices
                ),
                racks=tuple(self._racks(index) for index in indices),
            )
            for topic, indices in self._split(group)
        ]

    def _member_of(self, group: ScriptedGroup, index: int) -> int:
        return (index * 2_654_435_761 >> 9) % group.members

    def _planned(self, group: ScriptedGroup) -> list[object]:
        seconds = 2.0 + group.partitions % 7
        certificate = PlanCertificate(
            complete=True,
            cut_by=(),
            objectives={
                "load": CertifiedObjective(
                    value=seconds, bound=seconds, bound_kind="mean load", partitions=()
                ),
                "cross_rack": CertifiedObjective(
                    value=4.0, bound=3.0, bound_kind="exact flow", partitions=()
                ),
                "moves": CertifiedObjective(
                    value=9.0, bound=9.0, bound_kind="matching", partitions=()
                ),
                "counts": CertifiedObjective(
                    value=12.0, bound=12.0, bound_kind="even count", partitions=()
                ),
            },
            summary=(
                f"load: {seconds} s for the most loaded member; no plan can do better",
                "cross-rack: 4 partitions are read across racks; a plan has at least 3",
                "moves: 9; no plan needs fewer",
            ),
        )
        plan = GroupRecord(
            group=group.name,
            mode="managed",
            planner_epoch=3,
            group_epoch=7,
            plan_id="7-a1b2c3d4",
            strategy="optimal",
            cause="skew",
            lag_at=self.at,
            metadata_at=self.at,
            topics={},
            members=(),
            before={"drain_seconds": seconds * 3.1, "skew": 2.41, "cross_rack": 0.31, "moved": 0},
            after={"drain_seconds": seconds, "skew": 1.02, "cross_rack": 0.04, "moved": 9},
            computed_at=self.at - 45_000,
            digest="",
            certificate=certificate,
        )
        shares: list[dict[str, list[int]]] = [{} for _ in range(group.members)]
        for topic, indices in self._split(group):
            for index in indices:
                number = index - indices.start
                shares[self._member_of(group, index)].setdefault(topic, []).append(number)
        members = []
        for number, share in enumerate(shares):
            moving = {t: (n[-1:]) for t, n in share.items()} if number % 11 == 3 else {}
            members.append(
                records.member(
                    f"{group.name.split('-')[0]}-{number:03}",
                    group=group.name,
                    topics=group.topics,
                    rack=RACKS[number % 3],
                    state="active",
                    acked=7,
                    planner_epoch=3,
                    owned={topic: tuple(numbers) for topic, numbers in share.items()},
                )
            )
            members.append(
                MemberAssignment(
                    group=group.name,
                    instance=f"{group.name.split('-')[0]}-{number:03}",
                    incarnation="i1",
                    planner_epoch=3,
                    group_epoch=7,
                    member_epoch=7,
                    state="active",
                    assigned={topic: tuple(numbers) for topic, numbers in share.items()},
                    pending={},
                    revoking={topic: tuple(numbers) for topic, numbers in moving.items()},
                    rack=RACKS[number % 3],
                    capacity=1.0,
                    reason="",
                )
            )
        described: list[object] = [plan, *members]
        if group.partitions % 5 == 0:
            evidence = SkewEvidence(
                heaviest=seconds * 3,
                best=seconds,
                threshold=1.25,
                floor_seconds=3.0,
                utilisation=0.7,
                best_utilisation=0.6,
                utilisation_limit=0.85,
                backlog=sum(group.lags),
                arrivals=1000.0,
                capacity=2000.0,
                assumed=False,
                horizon=30.0,
                skew=2.4,
                members={},
            )
            described.append(
                TriggerRecord(
                    group=group.name, at=self.at, since=self.at, evidence=evidence, source={}
                )
            )
        return described

    def _lags(self, group: ScriptedGroup) -> list[LagRecord]:
        samples = []
        for topic, indices in self._split(group):
            lags = [group.lags[index] for index in indices]
            ends = [group.ends[index] for index in indices]
            racks = tuple(self._racks(index) for index in indices)
            record = LagRecord(
                group=group.name,
                topic=topic,
                at=self.at,
                id=TOPIC_ID,
                end_kind="stable",
                committed=tuple(end - lag for end, lag in zip(ends, lags, strict=True)),
                committed_at=(self.at,) * len(lags),
                begin=(0,) * len(lags),
                end=tuple(ends),
                lag=tuple(lags),
                lost=(0,) * len(lags),
                stale=(),
                racks=racks,
                source={"__consumer_offsets/7": self.offset, "levelwind.metadata/0": self.offset},
                rate=tuple(float(index % 40 + 1) for index in indices),
                seconds=tuple(
                    round(lag / (index % 40 + 1), 1)
                    for index, lag in zip(indices, lags, strict=True)
                ),
            )
            if group.watched:
                members = tuple(f"{group.name}-{number}" for number in range(group.members))
                record = replace(
                    record,
                    members=members,
                    member_racks=tuple(RACKS[number % 3] for number in range(group.members)),
                    owner=tuple(self._member_of(group, index) for index in indices),
                )
            samples.append(record)
        return samples


def small_installation(seed: int = 1) -> ScriptedInstallation:
    """Eight groups, of which two are watched and one has a name with a slash."""
    groups = [
        ScriptedGroup(
            name,
            partitions=(12, 48, 60, 24, 90, 7, 30, 240)[index],
            members=(4, 8, 6, 5, 9, 3, 6, 24)[index],
            watched=index in {3, 5},
            topics=(f"{name.split('-')[0]}.placed", f"{name.split('-')[0]}.changed")[
                : 1 + index % 2
            ],
        )
        for index, name in enumerate(NAMES)
    ]
    groups[5].name = "email/digest"
    return ScriptedInstallation(groups, seed=seed)


def large_installation(groups: int = 500, partitions: int = 10_000) -> ScriptedInstallation:
    """One group with as many partitions as all the others together have."""
    rest = max(partitions // (groups - 1), 1)
    large = ScriptedGroup("checkout-events", partitions, 100, topics=("checkout.a", "checkout.b"))
    return ScriptedInstallation(
        [large]
        + [
            ScriptedGroup(f"{NAMES[n % 8]}-{n:03}", rest + n % 3, 4, watched=n % 4 == 0)
            for n in range(groups - 1)
        ]
    )
