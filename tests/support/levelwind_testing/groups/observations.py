"""Observations of one group for the assessment: a layout, members, and offsets at several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol.records import BrokerRecord, TopicRecord
from levelwind.daemon.assessment.observed_groups import (
    CLASSIC,
    STABLE,
    ClusterObservation,
    ClusterSample,
    GroupDescription,
    GroupMember,
    GroupReading,
    MemberDetail,
)
from levelwind.daemon.observer.cluster_state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "orders-app"
TOPIC = "orders"
RACKS = ("a", "b", "c")


def layout(partitions: int, *, follower_fetching: bool | None = True) -> ClusterState:
    """One topic whose partition n has its only replica in rack n modulo three."""
    brokers = {
        number: BrokerRecord(
            broker=number, at=0, rack=rack, online=True, follower_fetching=follower_fetching
        )
        for number, rack in enumerate(RACKS)
    }
    leaders = tuple(number % len(RACKS) for number in range(partitions))
    topic = TopicRecord(
        topic=TOPIC,
        at=0,
        id="",
        leader=leaders,
        replicas=tuple((leader,) for leader in leaders),
        isr=tuple((leader,) for leader in leaders),
        racks=tuple((RACKS[leader],) for leader in leaders),
    )
    return ClusterState(brokers=brokers, topics={TOPIC: topic})


def member(name: str, *owned: int, rack: str | None = None, **other: Any) -> GroupMember:
    """A member that subscribes to the topic and owns some of its partitions."""
    fields: dict[str, Any] = {"instance": None, "client": "app", "host": "10.0.0.1"} | other
    fields.setdefault("detail", MemberDetail(rack, (TOPIC,)))
    return GroupMember(id=name, owned=frozenset((TOPIC, one) for one in owned), **fields)


def described(*members: GroupMember, **other: Any) -> GroupDescription:
    """A stable classic group of these members."""
    fields: dict[str, Any] = {"type": CLASSIC, "state": STABLE, "assignor": "range"} | other
    return GroupDescription(members=members, **fields)


def observed(
    group: GroupDescription,
    *samples: tuple[float, Sequence[int | None], Sequence[int | None]],
    **other: Any,
) -> ClusterObservation:
    """What was observed of one group.

    Args:
        group: the group, the same in each sample.
        samples: of each its time, the committed offsets and the log ends by partition; None: none.
        other: further fields of the observation.
    """
    fields: dict[str, Any] = {"at_ms": 1_700_000_000_000} | other
    fields.setdefault("layout", layout(len(samples[-1][2])))
    return ClusterObservation(
        samples=tuple(
            ClusterSample(
                at=at,
                groups={
                    NAME: GroupReading(
                        at=at,
                        group=group,
                        commits=_offsets(commits),
                        ends_read_at=at,
                        ends=_offsets(ends),
                    )
                },
            )
            for at, commits, ends in samples
        ),
        **fields,
    )


def _offsets(offsets: Sequence[int | None]) -> Mapping[tuple[str, int], int]:
    return {(TOPIC, n): offset for n, offset in enumerate(offsets) if offset is not None}
