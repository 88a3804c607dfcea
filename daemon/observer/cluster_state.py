"""What is known of the cluster, and what of it is news.

The state is what has been published, so that a restart reads it back and publishes nothing twice. Two laws. An offline
broker vanishes from the cluster's answers, yet its replicas are where they were: it keeps its last known rack, for good
(to forget a broker that is away would move racks, and a move of racks moves partitions). And a topic is gone only when
the cluster says so of that very topic: not when it was left out of an answer, which a lost right does too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from assignors.protocol.records import BrokerRecord, OffsetsRecord, Tombstone, TopicRecord
from daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignors.protocol.records import Record

    Change: TypeAlias = BrokerRecord | TopicRecord | Tombstone

Name = TypeVar("Name", int, str)
Seen = TypeVar("Seen", BrokerRecord, TopicRecord)

UNKNOWN = -1
"""Stands for an offset that could not be read, and for the leader of a partition without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic as the cluster describes it; the lists are indexed by partition."""

    id: str
    leader: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]
    isr: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at the cluster."""

    at: int
    brokers: Mapping[int, str | None]
    """The racks of those that are online."""
    topics: Mapping[str, ObservedTopic]
    gone: frozenset[str] = frozenset()
    """Topics that do not exist, or no longer concern us. What is in neither was not seen, and stays as it was."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why a topic that was asked for was not seen."""
    commit_partitions: int = 0
    """How many partitions the offsets topic has; 0 before it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The newest record of each broker and topic."""

    brokers: Mapping[int, BrokerRecord] = field(default_factory=dict)
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which topics are observed: those that an inclusion matches in full, and no exclusion."""

    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> Selection:
        """Compile the expressions; raises `ConfigurationError` for one that is none."""
        return cls(_compiled("include", include), _compiled("exclude", exclude))

    def __contains__(self, topic: str) -> bool:
        return any(one.fullmatch(topic) for one in self.include) and not any(
            one.fullmatch(topic) for one in self.exclude
        )


def _compiled(name: str, expressions: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    compiled = []
    for expression in expressions:
        try:
            compiled.append(re.compile(expression))
        except re.error as error:
            raise ConfigurationError(
                f"observer.{name}: {expression!r} is no regular expression: {error}"
            ) from error
    return tuple(compiled)


def diff(previous: ClusterState, observed: Observation) -> tuple[ClusterState, tuple[Change, ...]]:
    """Fold a look at the cluster into what was known; also, what has to be published for it."""
    brokers = {
        **{number: replace(known, online=False) for number, known in previous.brokers.items()},
        **{
            number: BrokerRecord(broker=number, at=observed.at, rack=rack, online=True)
            for number, rack in observed.brokers.items()
        },
    }
    topics = {
        **{name: known for name, known in previous.topics.items() if name not in observed.gone},
        **{
            name: _record(name, topic, observed.at, brokers)
            for name, topic in observed.topics.items()
        },
    }
    brokers = _settled(previous.brokers, brokers, observed.at)
    topics = _settled(previous.topics, topics, observed.at)
    removed = sorted(previous.topics.keys() - topics.keys())
    news: tuple[Change, ...] = (
        *(one for number, one in brokers.items() if one is not previous.brokers.get(number)),
        *(one for name, one in topics.items() if one is not previous.topics.get(name)),
        *(Tombstone((kind, name)) for name in removed for kind in ("topic", "offsets")),
    )
    return ClusterState(brokers=brokers, topics=topics), news


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


def _settled(
    previous: Mapping[Name, Seen], records: Mapping[Name, Seen], at: int
) -> dict[Name, Seen]:
    """Put records in order; one that only says again what was published stays the published one, with its time.

    What differs is later than what it follows, though the clock was set back: plans and the pipeline tell by these times
    which layout is the newer one.
    """
    settled = {}
    for name, record in sorted(records.items()):
        known = previous.get(name)
        if known is not None and known == replace(record, at=known.at):
            settled[name] = known
        else:
            settled[name] = replace(record, at=at if known is None else max(at, known.at + 1))
    return settled


def recovered(items: Iterable[Record | Tombstone]) -> ClusterState:
    """The state that was last published, from the records of the metadata topic in their order."""
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


def moved_racks(before: TopicRecord | None, topic: TopicRecord) -> set[tuple[str, int]]:
    """The partitions whose set of racks is another one than before; none of a topic that was not there, or was another."""
    if before is None or before.id != topic.id:
        return set()
    pairs = zip(before.racks, topic.racks, strict=False)  # a topic may have grown
    return {(topic.topic, number) for number, (old, new) in enumerate(pairs) if old != new}


def never_seen(state: ClusterState) -> frozenset[int]:
    """Brokers that hold replicas but were away whenever we looked: nothing is known of their racks."""
    holders = {
        number
        for topic in state.topics.values()
        for replicas in topic.replicas
        for number in replicas
    }
    return frozenset(holders - state.brokers.keys())


def sample(
    topic: TopicRecord,
    at: int,
    begin: Sequence[int],
    stable: Sequence[int],
    high: Sequence[int],
    data: Sequence[int] = (),
    commits: Sequence[int] = (),
) -> OffsetsRecord:
    """A sample of a topic's offsets, indexed by partition.

    The three are asked for one after the other while records arrive, so that one may come out below another that it can
    never be below: a known high watermark is at least the stable offset.

    Where the records end is said for those partitions only where they end below the stable offset.
    """
    return OffsetsRecord(
        topic=topic.topic,
        at=at,
        id=topic.id,
        begin=tuple(begin),
        stable=tuple(stable),
        high=tuple(
            max(one, least) if one != UNKNOWN else UNKNOWN
            for one, least in zip(high, stable, strict=True)
        ),
        data_end=tuple(data) if any(end != UNKNOWN for end in data) else None,
        offsets_topic_ends=tuple(commits) or None,
    )


def moved_since(
    told: Mapping[str, OffsetsRecord], samples: Iterable[OffsetsRecord]
) -> list[OffsetsRecord]:
    """The samples that say more than that time has passed since the last ones, by topic."""
    return [
        one
        for one in samples
        if (before := told.get(one.topic)) is None or replace(before, at=one.at) != one
    ]


def settled(
    told: Mapping[str, OffsetsRecord], topics: Iterable[TopicRecord]
) -> dict[tuple[str, int], int]:
    """Where the last samples of these very topics saw the stable offset at the high watermark, by topic and partition."""
    return {
        (topic.topic, number): high
        for topic in topics
        if (last := told.get(topic.topic)) is not None and last.id == topic.id
        for number, (stable, high) in enumerate(zip(last.stable, last.high, strict=True))
        if stable == high != UNKNOWN
    }


def went_back(before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]) -> bool:
    """Whether the end of any partition did: its topic may be another one of the same name."""
    return any(after.get(place, end) < end for place, end in before.items())
