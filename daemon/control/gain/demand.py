"""Demand of a group: what its partitions ask of its members, whoever owns them. Pure.

Two things no plan can mend: arrivals beyond what all members can read together, and a partition
that alone keeps its member longer than the group as a whole needs. Both are found here, from the
lag and the members' speeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelwind.assignors.problem.drain import (
    LEAST_ASSUMED_SPEED,
    SHORTEST_HORIZON_SECONDS,
    drain_seconds,
    horizon_seconds,
    members_wanted,
    resolve_capacities,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from levelwind.assignors.problem.columns import Floats
    from levelwind.assignors.protocol.records import LagRecord, SpeedRecord
    from levelwind.assignors.protocol.unread_lag import LagFigures

SURE_ENOUGH = 0.6
"""How sure a learned speed must be to count beside surer ones: it rests on two measurements."""

UNSPLITTABLE_RATIO = 1.5
"""Times the group's time to drain that a partition must need alone to be called unsplittable."""


MODERATE_SHARE = 0.99
"""Share of a bound up to which demand is surely moderate: sums are not exact."""


class HeaviestPartition(NamedTuple):
    """The partition that needs its owner for longest."""

    topic: str
    number: int
    lag: int
    """Records behind."""
    seconds: float
    """Seconds that the fastest member needs for it alone; infinite where its lag grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDemand:
    """What the partitions of a group ask of its members."""

    backlog: float
    """Records behind."""
    arrivals: float
    """Records that arrive per second."""
    capacity: float
    """Records per second that the members can read together."""
    assumed: bool
    """Whether no member's speed is known, so that the capacity is assumed."""
    horizon: float
    """The group's own time to drain in seconds, within its bounds."""
    members_wanted: int | None
    """Members of today's mean speed that the arrivals want; None while the group can drain, or as
    long as no speed is known."""
    heaviest: HeaviestPartition | None
    """None without partitions."""

    @property
    def unsplittable(self) -> bool:
        """Whether the heaviest partition keeps one member for clearly longer than the others."""
        return (
            self.heaviest is not None and self.heaviest.seconds > UNSPLITTABLE_RATIO * self.horizon
        )


def learned_speeds(record: SpeedRecord | None) -> dict[str, float]:
    """Return the speeds that count, in records per second by instance.

    A speed that rests on one measurement alone may be that of a member that stalled for a moment.
    It counts where no other is surer: it is better than an assumption.
    """
    if record is None:
        return {}
    learned = record.members.items()
    sure = {name: member.speed for name, member in learned if member.sure >= SURE_ENOUGH}
    return sure or {name: member.speed for name, member in learned}


def rates_of(record: LagRecord) -> Floats:
    """Return the records that arrive per second for a group, by partition.

    0 where no rate is known, and where nobody claims the partition, whose lag is 0, too.
    """
    if record.rate is None:
        return np.zeros(len(record.lag))
    rates = np.array([rate or 0.0 for rate in record.rate], np.float64)
    rates[record.unclaimed_partitions] = 0.0
    return rates


def group_demand(
    lags: Mapping[str, LagRecord], capacity: Mapping[str, float], speeds: Mapping[str, float]
) -> GroupDemand | None:
    """Compute the demand of a group; None without members or lag. Cost: its partitions.

    Args:
        lags: the lag that counts, by topic.
        capacity: announced capacity of each member, by instance.
        speeds: learned records per second, by instance.
    """
    records = [record for _, record in sorted(lags.items()) if record.lag]
    if not records or not capacity:
        return None
    lag = np.fromiter(chain.from_iterable(record.lag for record in records), np.int64)
    rate = np.concatenate([rates_of(record) for record in records])
    backlog, arrivals = float(lag.sum()), float(rate.sum())
    announced = np.array(list(capacity.values()), np.float64)
    learned = np.array([speeds.get(instance, np.nan) for instance in capacity], np.float64)
    capacities = resolve_capacities(announced, learned, backlog, arrivals)
    total = float(capacities.records_per_second.sum())
    # Against an assumed capacity arrivals say nothing about whether lag grows.
    arriving = np.zeros(len(lag)) if capacities.assumed else rate
    alone = drain_seconds(lag, arriving, np.full(len(lag), capacities.records_per_second.max()))
    row = int(alone.argmax())
    number = row
    for record in records:
        if number < len(record.lag):
            break
        number -= len(record.lag)
    cannot_drain = arrivals >= total and not capacities.assumed
    return GroupDemand(
        backlog=backlog,
        arrivals=arrivals,
        capacity=total,
        assumed=capacities.assumed,
        horizon=horizon_seconds(backlog, arrivals, total),
        members_wanted=members_wanted(arrivals, capacities.records_per_second)
        if cannot_drain
        else None,
        heaviest=HeaviestPartition(record.topic, number, int(lag[row]), float(alone[row])),
    )


def surely_moderate(
    lags: Collection[LagRecord | LagFigures],
    capacity: Mapping[str, float],
    speeds: Mapping[str, float],
) -> bool:
    """Whether arrivals and partitions surely are no more than the members can read.

    A bound that costs a twentieth of `group_demand`, and is enough for most groups: True says that
    the demand has neither `members_wanted` nor is `unsplittable`, False says nothing.

    Args:
        lags: the lag records or their figures, those that count among them.
        capacity: announced capacity of each member, by instance; there is a member.
        speeds: learned records per second, by instance, also of others.
    """
    behind = max([max(record.lag, default=0) for record in lags], default=0)
    spared = MODERATE_SHARE * UNSPLITTABLE_RATIO * SHORTEST_HORIZON_SECONDS
    known = [speeds[instance] for instance in capacity if instance in speeds]
    if not known:
        return behind <= spared * LEAST_ASSUMED_SPEED * max(capacity.values())
    rates = [rate for record in lags for rate in record.rate or () if rate]
    spare = max(known) - max(rates, default=0.0)
    return sum(rates) < MODERATE_SHARE * sum(known) and behind <= spared * spare
