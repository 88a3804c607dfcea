"""Cluster state: the published layout of the cluster, and the changes that a snapshot makes to it.

The state is what has been published, so that a restart reads it back and publishes nothing twice.
Guarantees: an offline broker vanishes from the cluster's answers, yet its replicas stay where they
were, so the broker keeps its last known rack for good (forgetting an offline broker would change
racks, and changed racks move partitions). A topic counts as deleted only when brokers report that
very topic as unknown in two probes in a row; a topic missing from a response is not deleted, since
revoked permissions hide it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from levelwind.assignors.protocol.records import BrokerRecord, OffsetsRecord, Tombstone, TopicRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from levelwind.assignors.protocol.records import Key, Record

    Change: TypeAlias = BrokerRecord | TopicRecord | Tombstone

Name = TypeVar("Name", int, str)
Published = TypeVar("Published", BrokerRecord, TopicRecord)

UNKNOWN = -1
"""An offset that could not be read, and the leader of a partition without one."""


class ObservedTopic(Struct, frozen=True, kw_only=True):
    """A topic as the cluster describes it; the lists are indexed by partition."""

    id: str
    leader: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]
    isr: tuple[tuple[int, ...], ...]


class ClusterSnapshot(Struct, frozen=True, kw_only=True):
    """The cluster as one probe saw it."""

    at: int
    """Time of the probe, milliseconds since the epoch."""
    brokers: Mapping[int, str | None]
    """Racks of the online brokers, by broker id; None for a broker without a rack."""
    topics: Mapping[str, ObservedTopic]
    follower_fetching: Mapping[int, bool | None] = field(default_factory=dict)
    """Whether each broker serves consumers of its rack from replicas that it does not lead, by
    broker id; None where that may not be read. A broker that is left out keeps its state."""
    removed: frozenset[str] = frozenset()
    """Topics that are no longer selected, or are taken for deleted. A topic that is neither here
    nor in `topics` was not seen and keeps its state."""
    missing: frozenset[str] = frozenset()
    """Topics that a broker does not know. One that has just started may not know those that
    exist."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Error by topic that was asked for and could not be described."""
    commit_partitions: int = 0
    """Number of partitions of `__consumer_offsets`; 0 before the topic exists."""


class ClusterState(Struct, frozen=True, kw_only=True):
    """The newest record of each broker and topic."""

    brokers: Mapping[int, BrokerRecord] = field(default_factory=dict)
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)


def with_deleted(observed: ClusterSnapshot, missing: frozenset[str]) -> ClusterSnapshot:
    """The snapshot in which topics are deleted that the probe before missed already."""
    return replace(observed, removed=observed.removed | (observed.missing & missing))


def diff(
    previous: ClusterState, observed: ClusterSnapshot
) -> tuple[ClusterState, tuple[Change, ...]]:
    """Apply a snapshot to the previous state; return the new state and the records to publish."""
    brokers = {
        **{number: replace(broker, online=False) for number, broker in previous.brokers.items()},
        **{
            number: BrokerRecord(
                broker=number,
                at=observed.at,
                rack=rack,
                online=True,
                follower_fetching=_follower_fetching(number, previous, observed),
            )
            for number, rack in observed.brokers.items()
        },
    }
    topics = {
        **{name: topic for name, topic in previous.topics.items() if name not in observed.removed},
        **{
            name: _record(name, topic, observed.at, brokers)
            for name, topic in observed.topics.items()
        },
    }
    brokers = _with_published_times(previous.brokers, brokers, observed.at)
    topics = _with_published_times(previous.topics, topics, observed.at)
    removed = sorted(previous.topics.keys() - topics.keys())
    news: tuple[Change, ...] = (
        *(
            broker
            for number, broker in brokers.items()
            if broker is not previous.brokers.get(number)
        ),
        *(topic for name, topic in topics.items() if topic is not previous.topics.get(name)),
        *(Tombstone((kind, name)) for name in removed for kind in ("topic", "offsets")),
    )
    return ClusterState(brokers=brokers, topics=topics), news


def without(state: ClusterState, previous: ClusterState, keys: Collection[Key]) -> ClusterState:
    """The state where the newest layout of some topics could not be published.

    They keep their layout of the previous state, so that the next probe finds them changed.

    Args:
        state: the state with those layouts.
        previous: the state before.
        keys: keys of the topics' records.
    """
    published = {name: topic for name, topic in state.topics.items() if topic.key not in keys}
    before = {name: topic for name, topic in previous.topics.items() if topic.key in keys}
    return replace(state, topics=published | before)


def _follower_fetching(
    number: int, previous: ClusterState, observed: ClusterSnapshot
) -> bool | None:
    if number in observed.follower_fetching:
        return observed.follower_fetching[number]
    broker = previous.brokers.get(number)
    return None if broker is None else broker.follower_fetching


def _record(
    name: str, topic: ObservedTopic, at: int, brokers: Mapping[int, BrokerRecord]
) -> TopicRecord:
    return TopicRecord(
        topic=name,
        at=at,
        id=topic.id,
        leader=topic.leader,
        replicas=topic.replicas,
        isr=topic.isr,
        racks=tuple(_racks(replicas, brokers) for replicas in topic.replicas),
    )


def _racks(replicas: Iterable[int], brokers: Mapping[int, BrokerRecord]) -> tuple[str, ...]:
    racks = {brokers[number].rack for number in replicas if number in brokers}
    return tuple(sorted(rack for rack in racks if rack is not None))


def _with_published_times(
    previous: Mapping[Name, Published], records: Mapping[Name, Published], at: int
) -> dict[Name, Published]:
    """Sort records by name, and keep the published record of whatever has not changed.

    A changed record is always later than the one that it follows, even if the clock was set back:
    plans and the pipeline decide by these times which layout is the newer one.
    """
    result = {}
    for name, record in sorted(records.items()):
        published = previous.get(name)
        if published is not None and published == replace(record, at=published.at):
            result[name] = published
        else:
            result[name] = replace(
                record, at=at if published is None else max(at, published.at + 1)
            )
    return result


def recovered(items: Iterable[Record | Tombstone]) -> ClusterState:
    """The last published state, from the records of the metadata topic in their order."""
    brokers: dict[int, BrokerRecord] = {}
    topics: dict[str, TopicRecord] = {}
    for item in items:
        match item:
            case BrokerRecord():
                brokers[item.broker] = item
            case TopicRecord():
                topics[item.topic] = item
            case Tombstone(key=("broker", int(number))):
                brokers.pop(number, None)
            case Tombstone(key=("topic", str(name))):
                topics.pop(name, None)
            case _:
                pass
    return ClusterState(brokers=brokers, topics=topics)


def partitions_with_moved_racks(
    before: TopicRecord | None, topic: TopicRecord
) -> set[tuple[str, int]]:
    """Partitions whose set of racks changed; none of a topic that is new or was re-created."""
    if before is None or before.id != topic.id:
        return set()
    pairs = zip(before.racks, topic.racks, strict=False)  # the topic may have more partitions now
    return {(topic.topic, number) for number, (old, new) in enumerate(pairs) if old != new}


def unseen_brokers(state: ClusterState) -> frozenset[int]:
    """Brokers with replicas that were offline in every probe, so that their racks are unknown."""
    return frozenset(_holders(state) - state.brokers.keys())


def broker_counts(state: ClusterState, unanswered: Collection[tuple[str, int]]) -> tuple[int, int]:
    """Count the brokers that hold partitions, and those of them that do not answer.

    A broker that holds none may have left the cluster for good. One that is listed as online and
    answered for none of the partitions that it leads is unreachable all the same.

    Args:
        state: the layout.
        unanswered: the partitions of the last sample without an answer.
    """
    known = _holders(state) or {number for number, broker in state.brokers.items() if broker.online}
    silent = {
        number
        for number in known
        if (broker := state.brokers.get(number)) is not None and not broker.online
    }
    if unanswered:
        led = [
            (leader, (topic.topic, number) in unanswered)
            for topic in state.topics.values()
            for number, leader in enumerate(topic.leader)
        ]
        answering = {leader for leader, lost in led if not lost}
        silent |= {leader for leader, lost in led if lost} - answering - {UNKNOWN}
    return len(known), len(silent)


def _holders(state: ClusterState) -> set[int]:
    """Brokers with replicas."""
    holders: set[int] = set()
    for topic in state.topics.values():
        holders.update(*topic.replicas)
    return holders


def leader_only_brokers(brokers: Mapping[int, BrokerRecord]) -> frozenset[int]:
    """Online brokers with a rack that serve reads from leaders alone.

    Consumers in their rack fetch from other racks all the same, wherever a plan puts them.
    """
    return frozenset(
        number
        for number, broker in brokers.items()
        if broker.online and broker.rack is not None and broker.follower_fetching is False
    )


def sample(
    topic: TopicRecord,
    at: int,
    begin: Sequence[int],
    stable: Sequence[int],
    high: Sequence[int],
    data_ends: Sequence[int] = (),
    gaps: Sequence[tuple[int, ...]] = (),
    offsets_topic_ends: Sequence[int] = (),
) -> OffsetsRecord:
    """A sample of a topic's offsets, indexed by partition.

    The three offsets are read one after the other while records arrive, so a high watermark may be
    read below the stable offset, which it never is: a known high watermark is raised to the stable
    offset.

    `data_ends` holds an offset only for partitions whose records end below the stable offset, and
    `gaps` something only for those with offsets that hold no record.
    """
    return OffsetsRecord(
        topic=topic.topic,
        at=at,
        id=topic.id,
        begin=tuple(begin),
        stable=tuple(stable),
        high=tuple(
            max(watermark, lowest) if watermark != UNKNOWN else UNKNOWN
            for watermark, lowest in zip(high, stable, strict=True)
        ),
        data_end=tuple(data_ends) if any(end != UNKNOWN for end in data_ends) else None,
        gaps=tuple(gaps) if any(gaps) else None,
        offsets_topic_ends=tuple(offsets_topic_ends) or None,
    )


def changed_samples(
    published: Mapping[str, OffsetsRecord], samples: Iterable[OffsetsRecord]
) -> list[OffsetsRecord]:
    """Samples that differ from the last published ones in more than their time."""
    return [
        sample
        for sample in samples
        if (before := published.get(sample.topic)) is None
        or replace(before, at=sample.at) != sample
    ]


def stable_at_high_watermark(
    published: Mapping[str, OffsetsRecord], topics: Iterable[TopicRecord]
) -> dict[tuple[str, int], int]:
    """Offsets by partition where the last sample had the stable offset at the high watermark.

    Only samples of the same topic id count.
    """
    return {
        (topic.topic, number): high
        for topic in topics
        if (last := published.get(topic.topic)) is not None and last.id == topic.id
        for number, (stable, high) in enumerate(zip(last.stable, last.high, strict=True))
        if stable == high != UNKNOWN
    }


def end_offset_regressed(
    before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]
) -> bool:
    """Whether the end of any partition went back: its topic may have been re-created."""
    return any(after.get(partition, end) < end for partition, end in before.items())
