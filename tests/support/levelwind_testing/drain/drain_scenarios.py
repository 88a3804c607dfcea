"""Scenarios of `make bench-drain`: the workload, which the real brokers and the replay share.

Six members of 300 records a second read 36 partitions of two topics, each with replicas in two of
the racks a, b and c; six more may join them. A round has a warm-up, then the burst if the scenario
has one, then the measured time. Partitions are numbered through both topics, as in a simulated
fleet.

Arrivals are drawn once for each scenario and seed: every candidate, and the replay, gets the same
number of records in each second and partition, but for the burst that follows the owners (S1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOPIC_SIZES: Mapping[str, int] = {"orders": 24, "payments": 12}
"""Partitions by topic, in the order of the names."""
PARTITIONS = sum(TOPIC_SIZES.values())
RACKS = ("a", "b", "c")
MEMBERS = 6
MEMBER_RACKS = ("a", "a", "b", "b", "c", "c")
"""Racks of the members: a strategy that deals partitions in turn meets a third of the racks wrong,
as one that knows no racks does on average."""
MEMBER_RATE = 300.0
"""Records a second of a member at full speed."""
BURST_PARTITIONS = 6
HOT_PARTITIONS = 4
"""Partitions that are hot at a time, where the hot ones change."""
DEAR_TOPIC = "payments"
"""The topic whose records may take longer than those of the other one."""
WARM_UP_SECONDS = 20
"""Seconds of arrivals before the measured time; not scaled: the pipeline learns rates by then."""
SETTLED_SECONDS = 60.0
"""Seconds of the measured time after which a group is to be level; half of it in short rounds."""


Change: TypeAlias = Literal["stop", "start", "freeze", "thaw"]
"""What becomes of a member: it stops in good order, starts, stands still, or goes on."""


class MemberChange(NamedTuple):
    """A change of a member, in seconds of the measured time."""

    at: float
    change: Change
    member: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainScenario:
    """A workload of one round."""

    name: str
    title: str
    arrivals: float
    """Records a second, over all partitions."""
    zipf: float = 0.0
    """Exponent of the partitions' rates, which the seed deals to the partitions; 0: even."""
    hottest: float = 0.0
    """Records a second of one partition alone; the others share the rest evenly."""
    hot_seconds: float = 0.0
    """Seconds after which four other partitions are hot, which share `hot` records a second; 0:
    none are. They begin with the measured time."""
    hot: float = 0.0
    """Records a second of the hot partitions, all together."""
    dear: float = 1.0
    """Work of a record of the dear topic, in records of the other one."""
    speeds: tuple[float, ...] = (MEMBER_RATE,) * MEMBERS
    """Records a second that each member handles."""
    backlog: int = 0
    """Records of the burst that begins the measured time; its partitions get no others then, unless
    it is on all of them."""
    burst_on: Literal["member", "seed", "dear", "all", "lone"] = "member"
    """Partitions of the burst: those of the member that owns most; any that the seed takes, or
    those of the dear topic; all; or one of the member that owns most, with five eighths of the
    backlog, and three of the next one."""
    restarts: bool = False
    """Whether every member restarts, one after the other."""
    frozen: tuple[float, ...] = ()
    """Times of the measured time at which one member stands still for a while."""
    doubled: tuple[float, float] | None = None
    """Times of the measured time at which as many members join as there are, and leave again."""
    seconds: float = 0.0
    """Measured time; 0: until the backlog is drained, at most `longest` times the ideal."""
    longest: float = 4.0

    @property
    def capacity(self) -> float:
        """Records a second of all members."""
        return sum(self.speeds)

    @property
    def costs(self) -> np.ndarray:
        """P: work of a record, in records of the cheap topic."""
        sizes = list(TOPIC_SIZES.values())
        return np.repeat([self.dear if name == DEAR_TOPIC else 1.0 for name in TOPIC_SIZES], sizes)

    @property
    def ideal(self) -> float | None:
        """Seconds in which the burst is drained at best; None without a burst.

        Arrivals are even, and members that join do so at once.
        """
        if not self.backlog:
            return None
        burst_work = self.backlog * (self.dear if self.burst_on == "dear" else 1.0)
        if self.burst_on == "lone":  # nobody can split its heaviest partition
            return LONE_SHARE * self.backlog / max(self.speeds)
        if self.doubled is None:
            return ideal_seconds(burst_work, self.arrivals * self.costs.mean(), self.capacity)
        joins = self.doubled[0]
        left = burst_work - joins * (self.capacity - self.arrivals)
        return joins + ideal_seconds(left, self.arrivals, 2 * self.capacity)

    @property
    def members(self) -> int:
        """Members that run at any time."""
        return len(self.speeds) * (1 if self.doubled is None else 2)

    @property
    def all_speeds(self) -> tuple[float, ...]:
        """Records a second of each member that runs at any time."""
        return (*self.speeds, *(MEMBER_RATE,) * (self.members - len(self.speeds)))

    @property
    def processes(self) -> list[list[int]]:
        """Members by the process that runs them: one that stands still has its own."""
        together = [n for n in range(self.members) if not self.frozen or n != FROZEN_MEMBER]
        return [together, [FROZEN_MEMBER]] if self.frozen else [together]

    @property
    def measured(self) -> float:
        """The most seconds of the measured time."""
        return self.seconds or self.longest * (self.ideal or 0.0)

    @property
    def judged(self) -> float:
        """Seconds of the measured time whose arrivals' delays count: the same for all candidates,
        however long they take to drain the burst."""
        return self.seconds or (self.ideal or 0.0)

    @property
    def settled_after(self) -> float:
        """Seconds of the measured time after which the group is to be level."""
        return min(SETTLED_SECONDS, self.measured / 2)

    @property
    def restart_times(self) -> tuple[float, ...]:
        """Seconds of the measured time at which a member stops, by member."""
        if not self.restarts:
            return ()
        step = self.measured / (MEMBERS + 1)
        return tuple(step * (number + 0.5) for number in range(MEMBERS))

    @property
    def changes(self) -> tuple[MemberChange, ...]:
        """What becomes of members in the measured time, by time."""
        changes: list[MemberChange] = []
        for member, at in enumerate(self.restart_times):
            changes.append(MemberChange(at, "stop", member))
            changes.append(MemberChange(at + RESTART_SECONDS, "start", member))
        for at in self.frozen:
            changes.append(MemberChange(at, "freeze", FROZEN_MEMBER))
            changes.append(MemberChange(at + FROZEN_SECONDS, "thaw", FROZEN_MEMBER))
        if self.doubled is not None:
            joins, leaves = self.doubled
            added = range(len(self.speeds), self.members)
            changes += [MemberChange(joins, "start", member) for member in added]
            changes += [MemberChange(leaves, "stop", member) for member in added]
        return tuple(sorted(changes))

    def scaled(self, scale: float) -> DrainScenario:
        """The scenario with a smaller burst and a shorter measured time."""
        return replace(
            self,
            backlog=round(self.backlog * scale),
            seconds=round(self.seconds * scale),
            frozen=tuple(at * scale for at in self.frozen),
            doubled=self.doubled and (self.doubled[0] * scale, self.doubled[1] * scale),
        )


RESTART_SECONDS = 3.0
"""Seconds for which a restarted member is away."""
FROZEN_MEMBER, FROZEN_SECONDS = 2, 20.0
"""The member that stands still, and for how long: longer than `timers.dead_after`."""
LONE_SHARE = 5 / 8
"""Share of the backlog on one partition, where the others of it are on another member."""

SCENARIOS: Mapping[str, DrainScenario] = {
    scenario.name: scenario
    for scenario in (
        DrainScenario(
            name="S1",
            title="backlog on one member's partitions, arrivals elsewhere",
            arrivals=900.0,
            backlog=54_000,
        ),
        DrainScenario(
            name="S1n",
            title="the same backlog on any six partitions",
            arrivals=900.0,
            backlog=54_000,
            burst_on="seed",
        ),
        DrainScenario(
            name="S2",
            title="Zipf arrivals at 70 % of capacity",
            arrivals=1260.0,
            zipf=0.8,
            seconds=300.0,
        ),
        DrainScenario(name="S3", title="even arrivals at 60 %", arrivals=1080.0, seconds=120.0),
        DrainScenario(
            name="S4",
            title="two of six members at a third of the speed, unannounced; 70 %",
            arrivals=980.0,
            speeds=(100.0, 100.0, 300.0, 300.0, 300.0, 300.0),
            seconds=180.0,
        ),
        DrainScenario(
            name="S5",
            title="one partition beyond any member's speed",
            arrivals=960.0,
            hottest=360.0,
            seconds=150.0,
        ),
        DrainScenario(
            name="S6",
            title="rolling restart under even arrivals at 60 %",
            arrivals=1080.0,
            restarts=True,
            seconds=120.0,
        ),
    )
}

CHANGING: Mapping[str, DrainScenario] = {
    scenario.name: scenario
    for scenario in (
        *(
            DrainScenario(
                name=name,
                title=f"four other partitions are hot every {every:.0f} s; 60 %",
                arrivals=1080.0,
                hot_seconds=every,
                hot=720.0,
                seconds=seconds,
            )
            for name, every, seconds in (
                ("S7", 40.0, 280.0),
                ("S7-120", 120.0, 480.0),
                ("S7-300", 300.0, 900.0),
            )
        ),
        DrainScenario(
            name="S8",
            title="one member stands still for 20 s, twice, under even arrivals at 60 %",
            arrivals=1080.0,
            frozen=(20.0, 110.0),
            seconds=180.0,
        ),
        DrainScenario(
            name="S9",
            title="records of one topic take ten times as long, and a backlog of them; 30 %",
            arrivals=135.0,
            dear=10.0,
            backlog=5_400,
            burst_on="dear",
        ),
        DrainScenario(
            name="S10",
            title="a deploy doubles the members in a backlog, and halves them",
            arrivals=900.0,
            backlog=90_000,
            burst_on="all",
            doubled=(10.0, 80.0),
            seconds=120.0,
        ),
        DrainScenario(
            name="S11",
            title="45,000 records on one partition, 9,000 on each of three of another member",
            arrivals=600.0,
            backlog=72_000,
            burst_on="lone",
            seconds=120.0,
        ),
    )
}
"""Scenarios whose arrivals, costs or members change in the measured time."""
ALL_SCENARIOS: Mapping[str, DrainScenario] = {**SCENARIOS, **CHANGING}

LARGE_BURST = replace(SCENARIOS["S1"], name="S1x10", backlog=10 * SCENARIOS["S1"].backlog)
"""Ten times the backlog of S1: ten minutes at best, so that it is only replayed."""


def ideal_seconds(backlog: float, arrivals: float, capacity: float) -> float:
    """Seconds until a backlog is drained if no member idles; infinite without spare speed."""
    spare = capacity - arrivals
    return backlog / spare if spare > 0 else float("inf")


def member_rack(number: int) -> str:
    """Rack of a member; those that join are in the racks of the first ones."""
    return MEMBER_RACKS[number % MEMBERS]


def partition_names(prefix: str) -> list[tuple[str, int]]:
    """Topic and number of each partition, with a round's prefix before the topics' names."""
    return [
        (f"{prefix}{topic}", number)
        for topic, size in TOPIC_SIZES.items()
        for number in range(size)
    ]


def replica_brokers(number: int) -> list[int]:
    """Brokers 1 to 3 that have the replicas of a partition of a topic, the leader first."""
    return [number % 3 + 1, (number + 1) % 3 + 1]


def replica_racks(number: int) -> tuple[str, ...]:
    """Racks of a partition's replicas, where broker 1 is in the first rack."""
    return tuple(RACKS[broker - 1] for broker in replica_brokers(number))


def partition_rates(scenario: DrainScenario, seed: int) -> np.ndarray:
    """Records a second of each partition before a burst, float64; the sum is `arrivals`."""
    draw = np.random.default_rng([seed, 1])
    if scenario.zipf:
        weight = np.arange(1, PARTITIONS + 1) ** -scenario.zipf
        return scenario.arrivals * draw.permutation(weight / weight.sum())
    if scenario.hottest:
        rest = (scenario.arrivals - scenario.hottest) / (PARTITIONS - 1)
        rates = np.full(PARTITIONS, rest)
        rates[draw.integers(PARTITIONS)] = scenario.hottest
        return rates
    return np.full(PARTITIONS, scenario.arrivals / PARTITIONS)


def rates_after_burst(
    scenario: DrainScenario, rates: np.ndarray, burst: Sequence[int]
) -> np.ndarray:
    """Rates from the burst on: its partitions get nothing more, the others share all arrivals."""
    if not scenario.backlog or scenario.burst_on == "all":
        return rates
    rest = rates.copy()
    rest[list(burst)] = 0.0
    return rest * (rates.sum() / rest.sum())


def hot_rates(scenario: DrainScenario, rates: np.ndarray, seed: int, seconds: float) -> np.ndarray:
    """Records a second of each partition at a time of the measured time.

    Args:
        scenario: the workload.
        rates: the rates from the burst on.
        seed: the seed, which draws the hot partitions: none is hot twice in a row.
        seconds: seconds of the measured time.
    """
    if not scenario.hot_seconds or seconds < 0:
        return rates
    turn = int(seconds // scenario.hot_seconds)
    order = np.random.default_rng([seed, 4]).permutation(PARTITIONS)
    hot = np.take(order, range(turn * HOT_PARTITIONS, (turn + 1) * HOT_PARTITIONS), mode="wrap")
    rest = (scenario.arrivals - scenario.hot) / (PARTITIONS - HOT_PARTITIONS)
    now = np.full(PARTITIONS, rest)
    now[hot] = scenario.hot / HOT_PARTITIONS
    return now


def burst_partitions(
    scenario: DrainScenario, seed: int, owners: Sequence[int | None]
) -> tuple[int, ...]:
    """Partitions that the burst goes to; `owners` are the members that own the partitions."""
    if not scenario.backlog:
        return ()
    if scenario.burst_on == "all":
        return tuple(range(PARTITIONS))
    if scenario.burst_on in ("seed", "dear"):
        among = np.arange(PARTITIONS)
        if scenario.burst_on == "dear":
            among = np.flatnonzero(scenario.costs > 1)
        draw = np.random.default_rng([seed, 2])
        return tuple(sorted(draw.permutation(among)[:BURST_PARTITIONS].tolist()))
    by_member: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        if owner is not None:
            by_member.setdefault(owner, []).append(partition)
    # The member with the most; of equals the first.
    owned = sorted((by_member[member] for member in sorted(by_member)), key=len, reverse=True)
    if scenario.burst_on == "lone":
        return (owned[0][0], *owned[1][:3])
    return tuple(owned[0][:BURST_PARTITIONS])


def burst_sizes(scenario: DrainScenario, burst: Sequence[int]) -> np.ndarray:
    """Records of the burst by partition, int64; even but for a lone one."""
    sizes = np.zeros(PARTITIONS, dtype=np.int64)
    left, even = scenario.backlog, list(burst)
    if even and scenario.burst_on == "lone":
        lone = even.pop(0)
        sizes[lone] = round(LONE_SHARE * left)
        left -= int(sizes[lone])
    if even:
        sizes[even] = left // len(even)
        sizes[even[: left % len(even)]] += 1
    return sizes


def arrivals_in(rates: np.ndarray, seed: int, second: int) -> np.ndarray:
    """Records that arrive in one second, by partition, int64; seconds count from the warm-up on."""
    return np.random.default_rng([seed, 3, second]).poisson(rates).astype(np.int64)
