"""Figures of a round, from what arrived and what the members wrote into their journals. Pure.

Times are seconds since the epoch. A record counts as handled when a member first had it done; a
record that nobody had done at the end of the round waited until the end, at least.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from levelwind_testing.drain.drain_scenarios import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind_testing.drain.drain_scenarios import DrainScenario

DRAINED_SECONDS = 1.0
"""Seconds of arrivals that may be left when the burst counts as drained."""
STEP_SECONDS = 0.1
LAG_STEP_SECONDS = 0.25
WINDOW_SECONDS = 10.0
"""Length of the windows over which utilisation is averaged."""
UNHANDLED = np.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrivedRecords:
    """Records that were written, by partition in the order of their offsets."""

    at: Sequence[np.ndarray]
    """P columns: time of each record."""
    burst: Sequence[tuple[int, int]]
    """P: first offset of the burst, and the offset behind its last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HandledRecords:
    """Records that the members handled, and the changes of what they owned."""

    member: np.ndarray
    partition: np.ndarray
    offset: np.ndarray
    handled_at: np.ndarray
    changes: np.ndarray
    """Rows of time, member, partition, and 1 for gained or 0 for lost; by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFigures:
    """What one candidate achieved in one round; None where the scenario has no such figure."""

    drain: float | None
    """Seconds from the burst until its last record is handled and no other work is left; infinite
    if that did not happen in the round."""
    drain_over_ideal: float | None
    first_move: float | None
    """Seconds of the measured time at which a partition first came to another owner."""
    idle: float
    """Share of the members' speed that was not used, until the drain or the end of the round."""
    mean: float
    p50: float
    p99: float
    max: float
    """Seconds from a record's arrival to the end of its handling, of the records that arrive in the
    measured time, with a burst in its first ideal time."""
    utilisation: float | None
    """Largest share of its speed that a member's partitions asked for, over windows of ten seconds
    once the group should be level; None where the arrivals change."""
    most_lag: int
    """The most records behind in the measured time."""
    others_drained: float
    """Seconds of the measured time from which less than a second of arrivals is behind, the
    partition with most of the burst left out."""
    growth: float
    """Records a second by which the backlog grew in the last third of the measured time."""
    moves: int
    """Changes of a partition's owner in the measured time."""
    duplicates: int
    """Handlings of a record that had been handled before."""
    lost: int
    """Records that nobody handled before a later one of the same partition was handled."""

    def as_json(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)


def round_figures(
    scenario: DrainScenario,
    rates: np.ndarray,
    arrived: ArrivedRecords,
    handled: HandledRecords,
    *,
    began: float,
    ended: float,
) -> RoundFigures:
    """Compute the figures of a round.

    Args:
        scenario: the workload.
        rates: records a second of each partition in the measured time.
        arrived: what was written.
        handled: what the members did.
        began: begin of the measured time, and of the burst.
        ended: end of the measured time.
    """
    first = first_handled(arrived, handled)
    drain = drain_seconds(scenario, arrived, first, began, ended)
    until = ended if drain is None else min(began + drain, ended)
    done = np.sort(np.concatenate(first))
    used = np.searchsorted(done, until, side="right") - np.searchsorted(done, began)
    delays = delays_of(arrived, first, began, min(began + scenario.judged, ended), ended)
    moved = owner_changes(handled.changes, began, ended)
    lone = max(range(PARTITIONS), key=lambda n: arrived.burst[n][1] - arrived.burst[n][0])
    others = [number for number in range(PARTITIONS) if not scenario.backlog or number != lone]
    steps = np.arange(began, ended, LAG_STEP_SECONDS)
    busy = np.flatnonzero(
        lag_at(arrived, first, steps, others) > scenario.arrivals * DRAINED_SECONDS
    )
    third = (ended - began) / 3
    return RoundFigures(
        drain=drain,
        drain_over_ideal=None if drain is None or not scenario.ideal else drain / scenario.ideal,
        first_move=moved[0] - began if moved else None,
        idle=1 - float(used) / (scenario.capacity * (until - began)),
        mean=float(delays.mean()) if delays.size else 0.0,
        p50=percentile(delays, 0.5),
        p99=percentile(delays, 0.99),
        max=percentile(delays, 1.0),
        utilisation=None
        if scenario.hot_seconds
        else largest_utilisation(
            scenario.all_speeds,
            rates * scenario.costs,
            handled.changes,
            min(began + scenario.settled_after, ended - WINDOW_SECONDS),
            ended,
        ),
        most_lag=int(lag_at(arrived, first, steps, range(PARTITIONS)).max(initial=0)),
        others_drained=(int(busy.max(initial=-1)) + 1) * LAG_STEP_SECONDS,
        growth=(backlog(arrived, first, ended) - backlog(arrived, first, ended - third)) / third,
        moves=len(moved),
        duplicates=duplicates(handled),
        lost=lost(first),
    )


def first_handled(arrived: ArrivedRecords, handled: HandledRecords) -> list[np.ndarray]:
    """Time at which each record was first handled, by partition and offset; or `UNHANDLED`."""
    first = []
    for partition, at in enumerate(arrived.at):
        times = np.full(len(at), UNHANDLED)
        chosen = handled.partition == partition
        np.minimum.at(times, handled.offset[chosen], handled.handled_at[chosen])
        first.append(times)
    return first


def delays_of(
    arrived: ArrivedRecords,
    first: Sequence[np.ndarray],
    begin: float,
    end: float,
    ended: float,
) -> np.ndarray:
    """Seconds that each record waited that arrived in a time; until `ended` if it still waits."""
    waits = [
        (np.minimum(times, ended) - at)[(at >= begin) & (at < end)]
        for at, times in zip(arrived.at, first, strict=True)
    ]
    return np.maximum(np.concatenate(waits), 0.0)


def percentile(values: np.ndarray, share: float) -> float:
    """The smallest value that at least this share of all does not exceed; 0 without values."""
    if not len(values):
        return 0.0
    rank = max(ceil(share * len(values) - 1e-9), 1)
    return float(np.partition(values, rank - 1)[rank - 1])


def lag_at(
    arrived: ArrivedRecords,
    first: Sequence[np.ndarray],
    times: np.ndarray,
    partitions: Iterable[int],
) -> np.ndarray:
    """Records of some partitions that have arrived and were not handled yet, at some times."""
    chosen = list(partitions)
    at = np.sort(np.concatenate([arrived.at[number] for number in chosen]))
    done = np.sort(np.concatenate([first[number] for number in chosen]))
    behind: np.ndarray = np.searchsorted(at, times, side="right")
    behind -= np.searchsorted(done, times, side="right")
    return behind


def backlog(arrived: ArrivedRecords, first: Sequence[np.ndarray], at: float) -> int:
    """Records that have arrived and were not handled yet."""
    return sum(
        int(np.count_nonzero((times <= at) & (done > at)))
        for times, done in zip(arrived.at, first, strict=True)
    )


def drain_seconds(
    scenario: DrainScenario,
    arrived: ArrivedRecords,
    first: Sequence[np.ndarray],
    began: float,
    ended: float,
) -> float | None:
    """Seconds until the burst was drained; None without a burst."""
    if not scenario.backlog:
        return None
    last = max(
        float(times[begin:end].max(initial=began))
        for times, (begin, end) in zip(first, arrived.burst, strict=True)
    )
    at = np.sort(np.concatenate(list(arrived.at)))
    done = np.sort(np.concatenate(list(first)))
    while last <= ended:
        left = np.searchsorted(at, last, side="right") - np.searchsorted(done, last, side="right")
        if left <= scenario.arrivals * DRAINED_SECONDS:
            return last - began
        last += STEP_SECONDS
    return float("inf")


def owner_changes(changes: np.ndarray, began: float, ended: float) -> list[float]:
    """Times at which a partition came to a member that was not its last owner."""
    last: dict[int, int] = {}
    moved = []
    for at, member, partition, gained in changes.tolist():
        if gained:
            if last.get(partition, member) != member and began <= at < ended:
                moved.append(at)
            last[partition] = member
    return moved


def largest_utilisation(
    speeds: Sequence[float], rates: np.ndarray, changes: np.ndarray, begin: float, end: float
) -> float:
    """Largest share of a member's speed that its partitions asked for, over windows."""
    owned: list[tuple[float, float, int, int]] = []
    since: dict[tuple[int, int], float] = {}
    for at, member, partition, gained in changes.tolist():
        key = (int(member), int(partition))
        if gained:
            since.setdefault(key, at)
        elif key in since:
            owned.append((since.pop(key), at, *key))
    owned += [(at, end, *key) for key, at in since.items()]
    windows = max(int((end - begin) / WINDOW_SECONDS), 1)
    edges = np.linspace(begin, end, windows + 1)
    asked = np.zeros((windows, len(speeds)))
    for gained_at, lost_at, member, partition in owned:
        inside = np.minimum(lost_at, edges[1:]) - np.maximum(gained_at, edges[:-1])
        asked[:, member] += rates[partition] * np.maximum(inside, 0.0)
    return float((asked / np.diff(edges)[:, None] / np.array(speeds)).max())


def duplicates(handled: HandledRecords) -> int:
    """Handlings beyond the first of each record."""
    return len(handled.offset) - len(
        np.unique(handled.offset * PARTITIONS + handled.partition.astype(np.int64))
    )


def lost(first: Sequence[np.ndarray]) -> int:
    """Records that were never handled, though a later one of their partition was."""
    missing = 0
    for times in first:
        done = np.flatnonzero(np.isfinite(times))
        if len(done):
            missing += int(np.count_nonzero(np.isinf(times[: done[-1]])))
    return missing


def read_journals(paths: Iterable[str]) -> tuple[HandledRecords, Mapping[str, np.ndarray]]:
    """Records and changes that the members wrote, and all columns of the files."""
    files = []
    for path in paths:
        with np.load(path) as columns:
            files.append(dict(columns))
    all_columns = {name: np.concatenate([file[name] for file in files]) for name in files[0]}
    all_columns["changes"] = all_columns["changes"][all_columns["changes"][:, 0].argsort()]
    names = ("member", "partition", "offset", "handled_at", "changes")
    return HandledRecords(**{name: all_columns[name] for name in names}), all_columns
