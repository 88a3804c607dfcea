"""Load in seconds: the time to drain of members and of their group.

The one definition of load: plans, their scores and certificates, the pipeline's trigger, the
control's decisions, the metrics, `describe` and the simulation all compute it here. A group's
*horizon* T is its own time to drain, the fixed point T = (backlog + arrivals * T) / capacity. A
member's load is (lag + arrivals * T) / capacity: it drains within the horizon exactly if its load
is at most T, and without a backlog its load over T is its utilisation.

A learned speed counts as it is. An announced capacity is relative, so it counts in proportion to
the members whose speed is known; where no speed is known, the unit is assumed, and only ratios of
loads mean anything.

The functions take columns with one row for each partition or member, and know neither groups nor
records. Lag is in records, rates and capacities are in records a second, loads in seconds.
Guarantees: figures do not change when lag, rates and capacities are scaled together, and nothing is
divided by zero. Only `drain_seconds` may be infinite.
"""

import math
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

SHORTEST_HORIZON_SECONDS = 10.0
"""Shortest horizon: what arrives within it counts, however little is behind."""
LONGEST_HORIZON_SECONDS = 3600.0
"""Longest horizon, also of a group that cannot drain."""
TARGET_UTILISATION = 0.8
"""Share of its capacity that a group should need for its arrivals."""
ASSUMED_UTILISATION = 0.5
"""Share of its capacity that a group is assumed to need for its arrivals."""
ASSUMED_DRAIN_SECONDS = 60.0
"""Time to drain that a group without arrivals is assumed to need for its backlog."""
LONGEST_LAG_AT_PACE_SECONDS = 10.0
"""Seconds of its arrivals that a member which keeps pace may be behind."""
LONGEST_UNCOMMITTED_MS = 10_000
"""Longest time between two commits of a reader that keeps pace."""
MOST_UNCOMMITTED = 2.0**62
"""Most records that count as read since: an integer holds them, whatever the rate."""
SHORT_LEVEL_SECONDS = 12.0
"""Level below which what a load is above it counts in seconds, and from which as a share of it: the
floor of the default rule of skew, 3 s, at its threshold, 1.25."""
LEAST_ASSUMED_SPEED = 100.0
"""Records per second that a member of capacity 1 is assumed to read at least, so that the few
records of an idle group do not look like much."""


def waiting_records(lag: Longs, rate: Floats, age_ms: Floats | Longs) -> Longs:
    """Compute the records that wait: the lag, but for what a reader that keeps pace leaves.

    Such a reader has read what usually arrives since its last commit, but not committed it yet: by
    lag alone, who commits each 5 s is up to 5 s of its arrivals behind.

    Args:
        lag: records behind of each partition.
        rate: records that usually arrive a second; NaN where it is not known.
        age_ms: milliseconds since the partition's commit; 0 without one.
    """
    age = np.clip(age_ms, 0, LONGEST_UNCOMMITTED_MS)
    read = np.minimum(np.rint(np.nan_to_num(rate) * age / 1000.0), MOST_UNCOMMITTED)
    records: Longs = np.maximum(lag - read.astype(np.int64), 0)
    return records


def is_beyond_pace(lag: Longs, waiting: Longs, age_ms: Floats | Longs) -> Bools:
    """Whether no reader that keeps pace leaves such a lag, of each partition.

    Most of it waits, or the last commit is older than any of such a reader. The age of the oldest
    record alone shows nothing: before each commit it is the time between two commits.

    Args:
        lag: records behind of each partition.
        waiting: those that wait, by `waiting_records`.
        age_ms: milliseconds since the partition's commit; 0 without one.
    """
    beyond: Bools = (waiting >= lag - waiting) | (age_ms > LONGEST_UNCOMMITTED_MS)
    return beyond


class Capacities(NamedTuple):
    """Capacities of the members of a group."""

    records_per_second: Floats
    """M: records per second that the member can read."""
    assumed: bool
    """Whether no member's speed is known."""


def resolve_capacities(
    announced: Floats,
    speed: Floats,
    backlog: float,
    arrivals: float,
    *,
    reading: Bools | None = None,
    pace: Floats | None = None,
    lag: Floats | None = None,
) -> Capacities:
    """Resolve the capacities of members.

    A member of unknown speed beside one that lags is taken to have a fifth of its capacity in
    reserve, as long as it keeps pace with what arrives (`capacity_at_pace`).

    Args:
        announced: relative capacity of each member, above 0.
        speed: learned records per second of each member, above 0; NaN where none is known.
        backlog: records behind, of all partitions together.
        arrivals: records that arrive per second, of all partitions together.
        reading: the members that share the work; None for all.
        pace: records that arrive per second for each member now; None where nobody owns anything.
        lag: records behind of each member; None where nobody owns anything.
    """
    known = np.isfinite(speed)
    if known.any():
        unit = float(np.median(speed[known] / announced[known]))
        expected = announced * unit
        if pace is not None and lag is not None:
            expected = np.maximum(expected, capacity_at_pace(pace, lag))
        return Capacities(np.where(known, speed, expected), assumed=False)
    wanted = arrivals / ASSUMED_UTILISATION if arrivals > 0 else backlog / ASSUMED_DRAIN_SECONDS
    total = float((announced if reading is None else announced[reading]).sum())
    unit = max(wanted / total if total else 0.0, LEAST_ASSUMED_SPEED)
    return Capacities(announced * unit, assumed=True)


def capacity_at_pace(pace: Floats, lag: Floats) -> Floats:
    """Compute the capacity that members show by keeping pace: a fifth of it is in reserve.

    Members that are behind by more than `LONGEST_LAG_AT_PACE_SECONDS` show none. They may have
    reached their capacity although no speed was learned: it is only where enough of what they read
    comes from partitions that are behind.

    Args:
        pace: records that arrive per second for each member.
        lag: records behind of each member.
    """
    keeps_pace = lag <= LONGEST_LAG_AT_PACE_SECONDS * pace
    return np.where(keeps_pace, pace / TARGET_UTILISATION, 0.0)


def horizon_seconds(
    backlog: float,
    arrivals: float,
    capacity: float,
    *,
    shortest: float = SHORTEST_HORIZON_SECONDS,
    longest: float = LONGEST_HORIZON_SECONDS,
) -> float:
    """Compute a group's horizon, its time to drain if every member shared the work.

    Args:
        backlog: records behind, of all partitions together.
        arrivals: records that arrive per second, of all partitions together.
        capacity: records per second that all members together can read.
        shortest: shortest horizon in seconds.
        longest: longest horizon in seconds; also where the arrivals take the whole capacity.
    """
    columns = (np.array([value], np.float64) for value in (backlog, arrivals, capacity))
    return float(horizons(*columns, shortest=shortest, longest=longest)[0])


def horizons(
    backlog: Floats,
    arrivals: Floats,
    capacity: Floats,
    *,
    shortest: float = SHORTEST_HORIZON_SECONDS,
    longest: float = LONGEST_HORIZON_SECONDS,
) -> Floats:
    """Compute the horizon of each of several groups; the arguments are those of one, by group."""
    return np.clip(drain_seconds(backlog, arrivals, capacity), shortest, longest)


def load_seconds(
    lag: Floats | Longs, rate: Floats, capacity: Floats, horizon: float | Floats
) -> Floats:
    """Compute the load of each member: its lag and the horizon's arrivals over its capacity."""
    return np.asarray((lag + rate * horizon) / capacity, np.float64)


def drain_seconds(lag: Floats | Longs, rate: Floats, capacity: Floats) -> Floats:
    """Compute the time that each member really needs to drain; infinite where its lag grows."""
    spare = capacity - rate
    needed = np.where((lag > 0) | (spare < 0), np.inf, 0.0)
    with np.errstate(over="ignore"):  # next to no spare capacity is as good as none
        np.divide(lag, spare, out=needed, where=spare > 0)
    return needed


def sum_by_member(values: Floats | Longs, owner: Ints | Longs, members: int) -> Floats:
    """Sum a figure of the partitions of each member.

    Args:
        values: the figure, by partition.
        owner: index of the member that owns the partition; -1 where nobody does.
        members: their number.
    """
    owned = owner >= 0
    if not bool(owned.all()):
        values, owner = values[owned], owner[owned]
    return np.asarray(np.bincount(owner, weights=values, minlength=members), np.float64)


def skew_of(load: Floats) -> float | None:
    """Divide the largest load by the mean load of all members; None without any load."""
    mean = float(load.mean()) if load.size else 0.0
    return float(load.max()) / mean if mean > 0 else None


def best_load(work: Floats, capacity: Floats) -> float:
    """Compute a largest load in seconds that no assignment is below.

    Args:
        work: records of each partition within the horizon: its lag and its arrivals.
        capacity: records per second of each member.
    """
    if not capacity.size or not work.size:
        return 0.0
    return max(float(work.sum() / capacity.sum()), float(work.max() / capacity.max()))


def wait_seconds(load: Floats, capacity: Floats) -> float:
    """Compute the mean wait of the records of the horizon: each member reads its own evenly.

    It is half of the load that the owner of a record has, on average. The largest load is what the
    last record waits; this is what all of them wait.

    Args:
        load: load of each member in seconds.
        capacity: records per second of each member.
    """
    work = load * capacity
    total = float(work.sum())
    return float((work * load).sum()) / (2 * total) if total > 0 else 0.0


def best_wait(work: Floats, capacity: Floats) -> float:
    """Compute a mean wait in seconds that no assignment is below.

    Args:
        work: records of each partition within the horizon: its lag and its arrivals.
        capacity: records per second of each member.
    """
    total = float(work.sum())
    if not capacity.size or total <= 0:
        return 0.0
    share, read = level_profile(work, capacity)
    capacities, works = np.diff(share, prepend=0.0), np.diff(read, prepend=0.0)
    return float((works**2 / capacities).sum()) / (2 * total)


def level_profile(work: Floats, capacity: Floats) -> tuple[Floats, Floats]:
    """Compute how level loads can be at best, beside partitions that no plan can split.

    Members in order of load, the largest first, read together so much of the work: as they are
    added up, capacity by capacity, that is a concave curve under every assignment. The owners of
    the k heaviest partitions have at least these, and at most the k largest capacities. So no
    assignment's curve is below the least concave one above these points, and none is more level.

    Args:
        work: records of each partition within the horizon; some are above 0.
        capacity: records per second of each member.

    Returns:
        Capacity and work up to each corner of that curve. The last corner is the whole group; the
        slope before it is the load of the members that can be level, and the slope before any
        other corner that of members whose partitions cannot be split.
    """
    heaviest = min(len(capacity) - 1, len(work))
    lighter = len(work) - heaviest
    top = np.sort(np.partition(work, min(lighter, len(work) - 1))[lighter:])[::-1]
    share = np.append(np.cumsum(np.sort(capacity)[::-1])[:heaviest], capacity.sum())
    read = np.append(np.cumsum(top), work.sum())
    corners = [(0.0, 0.0)]
    # What lies below the straight line to the end is no corner.
    above = np.flatnonzero(read[:-1] * share[-1] > read[-1] * share[:-1]).tolist()
    for index in [*above, len(share) - 1]:
        point = (float(share[index]), float(read[index]))
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], point):
            corners.pop()
        corners.append(point)
    columns = np.array(corners[1:])
    return columns[:, 0], columns[:, 1]


class Unevenness(NamedTuple):
    """The load that is furthest above what it would be if all loads were level."""

    load: float
    """Load of a member in seconds."""
    level: float
    """Load in seconds that a member of its rank would have. Invariant: never negative."""

    @property
    def excess(self) -> float:
        """Seconds by which the load is above the level."""
        return max(self.load - self.level, 0.0)


def unevenness(load: Floats, capacity: Floats, work: Floats) -> Unevenness:
    """Find the member whose load is furthest above the level of its rank.

    Where no partition needs the fastest member for longer than the group needs, that is the most
    loaded member, and the level is the mean load. Beside such a partition it may be any other one:
    those that could share the rest.

    Args:
        load: load of each member in seconds.
        capacity: records per second of each member.
        work: records of each partition within the horizon: its lag and its arrivals.
    """
    if not load.size:
        return Unevenness(0.0, 0.0)
    heaviest, level = float(load.max()), best_load(work, capacity)
    if level <= float(work.sum()) / float(capacity.sum()):
        return Unevenness(heaviest, level)
    share, read = level_profile(work, capacity)
    slope = np.diff(read, prepend=0.0) / np.diff(share, prepend=0.0)
    order = np.argsort(-load, kind="stable")
    above = np.cumsum(capacity[order]) - capacity[order]
    corner = np.searchsorted(share, above * (1 + 1e-9), side="right")
    levels = slope[np.minimum(corner, len(slope) - 1)]
    excess = (load[order] - levels) / np.maximum(levels, SHORT_LEVEL_SECONDS)
    rank = int(np.argmax(excess))
    return Unevenness(float(load[order[rank]]), float(levels[rank]))


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])


def members_wanted(arrivals: float, capacity: Floats) -> int:
    """Count the members of today's mean speed that arrivals want, at `TARGET_UTILISATION`."""
    if arrivals <= 0 or not capacity.size:
        return 0
    return math.ceil(arrivals / (TARGET_UTILISATION * float(capacity.mean())) - 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFigures:
    """Load of a group under an assignment, with its parts."""

    backlog: float
    """Records behind, of all partitions together."""
    arrivals: float
    """Records that arrive per second, of all partitions together."""
    capacity: float
    """Records per second that the members can read together."""
    assumed: bool
    """Whether no member's speed is known, so that capacities and seconds are assumed."""
    horizon: float
    """Seconds of arrivals that count: the group's own time to drain, within its bounds."""
    heaviest: float
    """Largest load of a member, in seconds."""
    mean: float
    """Load of every member in seconds if all shared the work by their capacity."""
    wait: float
    """Mean wait of the records of the horizon, in seconds."""
    excess: float
    """Seconds by which a member is furthest above what it would have if all loads were level."""
    best: float
    """Largest load in seconds that no assignment is below."""
    skew: float | None
    """Largest load over the mean of the members' loads; None without any load."""
    utilisation: float
    """Largest share of its capacity that the arrivals of a member need."""
    members_wanted: int | None
    """Members of today's mean speed that the arrivals want; None where the group can drain."""

    @property
    def drains(self) -> bool:
        """Whether the members together can read more than arrives."""
        return self.members_wanted is None

    def as_json(self) -> dict[str, object]:
        """The figures as a JSON object; every number in it is finite."""
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def drain_figures(
    lag: Floats | Longs,
    rate: Floats,
    owner: Ints | Longs,
    capacity: Floats,
    *,
    assumed: bool = False,
    counted: Bools | None = None,
) -> DrainFigures:
    """Compute the load of a group under an assignment.

    Args:
        lag: records behind, by partition.
        rate: records that arrive per second, by partition.
        owner: index of the member that owns the partition; -1 where nobody does: the group has to
            drain it all the same.
        capacity: records per second of each member.
        assumed: whether the capacities are assumed.
        counted: the members to count; None for all. The others own nothing.
    """
    counted = np.ones(len(capacity), np.bool_) if counted is None else counted
    member_lag = sum_by_member(lag, owner, len(capacity))[counted]
    member_rate = sum_by_member(rate, owner, len(capacity))[counted]
    capacity = capacity[counted]
    backlog, arrivals, total = float(lag.sum()), float(rate.sum()), float(capacity.sum())
    horizon = horizon_seconds(backlog, arrivals, total)
    load = load_seconds(member_lag, member_rate, capacity, horizon)
    return DrainFigures(
        backlog=backlog,
        arrivals=arrivals,
        capacity=total,
        assumed=assumed,
        horizon=horizon,
        heaviest=float(load.max(initial=0.0)),
        mean=(backlog + arrivals * horizon) / total if total else 0.0,
        wait=wait_seconds(load, capacity),
        excess=unevenness(load, capacity, lag + rate * horizon).excess,
        best=best_load(lag + rate * horizon, capacity),
        skew=skew_of(load),
        utilisation=float((member_rate / capacity).max(initial=0.0)),
        members_wanted=members_wanted(arrivals, capacity) if arrivals >= total > 0 else None,
    )
