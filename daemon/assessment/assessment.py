"""The assessment of a cluster: each group by itself, and what was not known. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from levelwind.daemon.assessment.following import libraries_of, ways_of
from levelwind.daemon.assessment.gain import gain_of, lag_of
from levelwind.daemon.assessment.pace import pace_of
from levelwind.daemon.assessment.risks import risks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.assessment.following import Way
    from levelwind.daemon.assessment.gain import Figures, Gain, LagByPartition
    from levelwind.daemon.assessment.observed_groups import (
        ClusterObservation,
        GroupDescription,
        Lack,
    )
    from levelwind.daemon.assessment.pace import Pace
    from levelwind.daemon.assessment.risks import Risk
    from levelwind.daemon.control.settings import PlanSettings

JSON_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssessment:
    """One group."""

    name: str
    group: GroupDescription
    pace: Pace
    lag: LagByPartition
    gain: Gain
    risks: tuple[Risk, ...]
    ways: tuple[Way, ...]
    libraries: tuple[str, ...]

    @property
    def arrivals(self) -> float | None:
        """Records a second that arrive in what the group reads; None where that is not known."""
        return self._sum(self.pace.arrivals)

    @property
    def consumed(self) -> float | None:
        """Records a second that the group commits; None where that is not known."""
        return self._sum(self.pace.consumed)

    @property
    def racks_known(self) -> int:
        """Number of the members whose rack is known."""
        return sum(member.rack is not None for member in self.group.members)

    @property
    def partitions(self) -> int:
        """Number of the partitions that the members own, or that were committed."""
        return len(self.lag.known) + len(self.lag.unknown)

    @property
    def rank(self) -> tuple[float, float, bool, int, int, str]:
        """The key by which the groups that gain the most come first, and those of nobody last."""
        now, best = self.gain.now, self.gain.best
        saved = uneven = 0.0
        if best is not None:
            if now.drain is not None and best.drain is not None and now.drain != best.drain:
                saved = now.drain - best.drain
            if now.busiest is not None and best.busiest is not None:
                uneven = max(now.busiest - best.busiest, 0.0)
        lag = self.lag.total or 0
        abandoned = not self.group.members
        return -saved, -round(uneven, 2), abandoned, -len(self.risks), -lag, self.name

    def as_json(self) -> dict[str, object]:
        """The group as a JSON object; what is not known is null."""
        best = self.gain.best
        return {
            "group": self.name,
            "type": self.group.type or None,
            "state": self.group.state,
            "assignor": self.group.assignor or None,
            "members": len(self.group.members),
            "members_with_rack": self.racks_known,
            "clients": sorted({member.client for member in self.group.members}),
            "hosts": sorted({member.host for member in self.group.members}),
            "libraries": list(self.libraries),
            "partitions": self.partitions,
            "lag": self.lag.total,
            "lag_unknown": len(self.lag.unknown),
            "records_without_commit": self.lag.held,
            "arrivals": _rounded(self.arrivals),
            "consumed": _rounded(self.consumed),
            "speeds": {name: _rounded(speed) for name, speed in sorted(self.pace.speeds.items())},
            "speeds_assumed": self.gain.assumed,
            "now": _standing(self.gain.now),
            "best": None if best is None else _standing(best),
            "unplanned": self.gain.unplanned or None,
            "moves": None if best is None else self.gain.moves,
            "proof": list(self.gain.proof),
            "risks": [risk._asdict() for risk in self.risks],
            "following": [way.as_json(self.name) for way in self.ways],
        }

    def _sum(self, rates: Mapping[TopicPartition, float]) -> float | None:
        read = {*self.lag.known, *self.lag.unknown}
        found = [rate for partition, rate in rates.items() if partition in read]
        return sum(found) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """All groups, and what was not known of them."""

    cluster: str
    """The address that was asked."""
    at_ms: int
    """Time of the newest sample, in milliseconds since the epoch."""
    seconds: float
    """Length of the observation."""
    samples: int
    brokers: int
    racks: tuple[str, ...]
    """Racks of the brokers, sorted."""
    follower_fetching: bool | None
    """Whether all brokers let consumers fetch from replicas in their rack (KIP-392)."""
    retention_minutes: int | None
    """`offsets.retention.minutes`; None where it may not be read."""
    groups: tuple[GroupAssessment, ...]
    """Those that gain the most come first."""
    unseen: tuple[str, ...]
    """Groups of which nothing is known, sorted."""
    lacks: tuple[Lack, ...]
    failures: Mapping[str, str]
    racks_unknown: str | None
    """Why the racks of some members could not be asked for; None where they could."""

    @property
    def at(self) -> str:
        """Time of the newest sample, by UTC."""
        return f"{datetime.fromtimestamp(self.at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def as_json(self) -> dict[str, object]:
        """The assessment as a JSON object; what is not known is null."""
        return {
            "v": JSON_VERSION,
            "cluster": self.cluster,
            "at": self.at_ms,
            "seconds": round(self.seconds, 3),
            "samples": self.samples,
            "brokers": self.brokers,
            "racks": list(self.racks),
            "follower_fetching": self.follower_fetching,
            "offsets_retention_minutes": self.retention_minutes,
            "groups": [group.as_json() for group in self.groups],
            "unseen": list(self.unseen),
            "missing_rights": [
                {"right": lack.right.label, "not_known": lack.loss} for lack in self.lacks
            ],
            "failures": dict(sorted(self.failures.items())),
            "racks_unknown": self.racks_unknown,
        }


def assess(
    observation: ClusterObservation,
    names: Iterable[str],
    *,
    cluster: str,
    planning_of: Callable[[str], PlanSettings],
    proxy_refuses: str | None,
) -> Assessment:
    """Assess all groups by what was observed.

    Args:
        observation: what was read.
        names: the names of the groups.
        cluster: the address of the cluster.
        planning_of: the settings of a group's plans.
        proxy_refuses: why the leader proxy cannot speak with this cluster; None: it can.
    """
    found: list[GroupAssessment] = []
    unseen: list[str] = []
    for name in sorted(names):
        readings = observation.readings(name)
        group = readings[-1].group if readings else None
        if group is None:
            unseen.append(name)
            continue
        pace, lag = pace_of(observation, name), lag_of(observation, name)
        found.append(
            GroupAssessment(
                name=name,
                group=group,
                pace=pace,
                lag=lag,
                gain=gain_of(observation, name, pace, planning_of(name)),
                risks=risks_of(observation, name, pace, lag),
                ways=ways_of(group, name, proxy_refuses),
                libraries=libraries_of(group, name),
            )
        )
    brokers = observation.layout.brokers.values()
    fetching = {broker.follower_fetching for broker in brokers}
    return Assessment(
        cluster=cluster,
        at_ms=observation.at_ms,
        seconds=observation.seconds,
        samples=len(observation.samples),
        brokers=len(brokers),
        racks=tuple(sorted({broker.rack for broker in brokers if broker.rack})),
        follower_fetching=None if None in fetching or not fetching else fetching == {True},
        retention_minutes=observation.retention_minutes,
        groups=tuple(sorted(found, key=lambda each: each.rank)),
        unseen=tuple(unseen),
        lacks=observation.lacks,
        failures=observation.failures,
        racks_unknown=observation.details_unknown,
    )


def _standing(standing: Figures) -> dict[str, Any]:
    cross = standing.cross_rack
    never = standing.drain == math.inf
    return {
        "drain_seconds": None if never else _rounded(standing.drain),
        "drains": None if standing.drain is None else not never,
        "busiest": _rounded(standing.busiest),
        "busiest_member": standing.busiest_member,
        "cross_rack": _rounded(cross.nominal),
        "cross_rack_effective": _rounded(cross.effective),
        "cross_rack_records": _rounded(cross.records),
        "cross_rack_bytes": _rounded(cross.bytes),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
