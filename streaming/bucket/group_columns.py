"""Conversion between a group's state and its place in the columns of a bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from levelwind.streaming.bucket import speed_columns
from levelwind.streaming.bucket.state import AXES, BucketState, OwnerText
from levelwind.streaming.group import codec, member_speeds, read_topics
from levelwind.streaming.group.ownership import owners_of, partition_owners
from levelwind.streaming.group.state import GroupState, TopicLag
from levelwind.streaming.messages.lag_json import Claim, owner_fields, owner_racks, text
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.skew import SkewRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.streaming.group.state import LearnedSpeed, Owner, PartitionOwners


def to_columns(
    states: Mapping[str, GroupState], before: BucketState
) -> tuple[BucketState, dict[str, bytes]]:
    """The columns of some groups, and the rest of each group's state, packed.

    Args:
        states: the groups' states, by name.
        before: the columns of the groups that these will follow, with whose topics, inputs and
            texts theirs begin.
    """
    builder = _Builder(before)
    packed = {group: builder.add(group, state) for group, state in states.items()}
    return builder.state(), packed


def from_columns(bucket: BucketState, number: int, packed: bytes) -> GroupState:
    """The state of one group.

    Args:
        bucket: the columns.
        number: the group's index.
        packed: the rest of its state.
    """
    state = codec.unpack(packed)
    owners = owners_of(state)
    lags: dict[str, TopicLag] = {}
    first, last = bucket.first_entry[number : number + 2].tolist()
    for entry in range(first, last):
        topic = bucket.topics[bucket["topic"][entry]]
        lag = bucket["lag"][bucket.first_cell[entry] : bucket.first_cell[entry + 1]].copy()
        source = {
            bucket.logs[bucket[f"{kind}_log"][entry]]: int(bucket[f"{kind}_position"][entry])
            for kind in _SOURCES
            if bucket[f"{kind}_log"][entry] >= 0
        }
        rate = bucket["rate"][bucket.first_cell[entry] : bucket.first_cell[entry + 1]]
        lags[topic] = TopicLag(
            at=int(bucket["at"][entry]),
            lag=lag,
            rate=rate.astype(np.int64),
            seconds=float(bucket["seconds"][entry]),
            committed_at=int(bucket["committed_at"][entry]),
            source=source,
            owners=partition_owners(owners, topic, lag.size)
            if bucket["owners_valid"][entry]
            else state.lags[topic].owners,
        )
    run = SkewRun(
        since=int(bucket["since"][number]),
        evaluated_at=int(bucket["evaluated_at"][number]),
        active=bool(bucket["active"][number]),
    )
    return replace(
        state,
        lags=lags,
        sampled_at=int(bucket["sampled_at"][number]),
        skew_run=run,
        speeds_at=int(bucket["speeds_at"][number]),
        speeds=_speeds(bucket, number, owners, state.speeds),
    )


def _speeds(
    bucket: BucketState,
    number: int,
    owners: Sequence[Owner],
    others: Mapping[str, LearnedSpeed],
) -> dict[str, LearnedSpeed]:
    """The speeds of a group: those of its owners are in the columns."""
    columns = speed_columns.columns_of(
        bucket, np.arange(*bucket.first_owner[number : number + 2].tolist())
    )
    speeds = dict(others)
    for index, owner in enumerate(owners):
        learns = bucket["learns"][bucket.first_owner[number] + index]
        if learns and (known := member_speeds.learned(columns, index)) != member_speeds.NOTHING:
            speeds[owner.name] = known
    return speeds


_SOURCES = ("commit", "sample")


class _Builder:
    """Columns of groups that are added one by one."""

    def __init__(self, before: BucketState) -> None:
        self._groups: list[str] = []
        self._topics = {topic: index for index, topic in enumerate(before.topics)}
        self._logs = {log: index for index, log in enumerate(before.logs)}
        self._owner_texts = {text: index for index, text in enumerate(before.owner_texts)}
        self._index_of_owners: dict[tuple[object, bytes], int] = {}
        """By owners that were seen: often several topics of a group have the same."""
        self._columns: dict[str, list[Any]] = {name: [] for axis in AXES for name in axis}
        self._lags: list[Any] = []
        self._rates: list[Any] = []
        self._owner_names: list[str] = []

    def add(self, group: str, state: GroupState) -> bytes:
        """Add a group; return what the columns do not hold of its state, packed."""
        owners = owners_of(state)
        learning = self._add_speeds(state, owners)
        self._groups.append(group)
        self._owner_names += [text(owner.name) for owner in owners]
        self._append(
            entries=len(state.lags),
            owners=len(owners),
            assigned=any(owner.assigned for owner in owners),
            awaits=not read_topics.read_by(state) <= state.lags.keys(),
            last_record_at=state.last_record_at,
            sampled_at=state.sampled_at,
            since=state.skew_run.since,
            evaluated_at=state.skew_run.evaluated_at,
            active=state.skew_run.active,
            speeds_at=state.speeds_at,
            speeds_whole=len(learning) == len(owners) and state.speeds.keys() <= learning,
        )
        self._columns["capacity"] += [owner.capacity for owner in owners]
        outdated = {
            topic: replace(lag, lag=lag.lag[:0], rate=lag.rate[:0], source={})
            for topic, lag in state.lags.items()
            if not self._add_entry(state, owners, topic, lag)
        }
        rest = replace(
            state,
            lags=outdated,
            sampled_at=UNKNOWN,
            skew_run=SkewRun(),
            speeds_at=UNKNOWN,
            speeds={name: known for name, known in state.speeds.items() if name not in learning},
        )
        return codec.pack(rest)

    def _add_speeds(self, state: GroupState, owners: tuple[Owner, ...]) -> set[str]:
        """Add what is known of the owners' speeds; return the names that the columns hold."""
        learns = member_speeds.learning_members(owners)
        names = [owner.name for owner in owners]
        columns = member_speeds.columns_of(state.speeds, names)
        for name, column in speed_columns.PARTS.items():
            self._columns[column] += getattr(columns, name).tolist()
        for number, column in enumerate(speed_columns.WINDOW_COLUMNS):
            self._columns[column] += columns.windows[:, number].tolist()
        self._columns["learns"] += learns
        return {name for name, learning in zip(names, learns, strict=True) if learning}

    def _add_entry(
        self, state: GroupState, owners: tuple[Owner, ...], topic: str, lag: TopicLag
    ) -> bool:
        """Add a topic that the group has lag in; return whether its owners are those of today."""
        size = lag.lag.size
        today = partition_owners(owners, topic, size)
        valid = today.named == lag.owners.named and np.array_equal(today.owner, lag.owners.owner)
        claims = [
            (index, partition)
            for index, owner in enumerate(owners)
            for partition in owner.assigned.get(topic, ())
            if partition < size
        ]
        sources = list(lag.source.items())
        if len(sources) > len(_SOURCES):
            raise ValueError(f"a sample from {len(sources)} inputs, not {len(_SOURCES)} at most")
        for kind in _SOURCES:
            log, position = sources.pop(0) if sources else (None, UNKNOWN)
            index = UNKNOWN if log is None else self._logs.setdefault(log, len(self._logs))
            self._append(**{f"{kind}_log": index, f"{kind}_position": position})
        self._append(
            topic=self._topics.setdefault(topic, len(self._topics)),
            cells=size,
            claims=len(claims),
            committed=topic in state.committed_topics,
            planned=topic in state.planned_topics,
            joined=topic in state.member_topics,
            at=lag.at,
            seconds=lag.seconds,
            committed_at=lag.committed_at,
            owners_valid=valid,
            owner_text=self._owner_text(today),
            former_owner_text=UNKNOWN if valid else self._owner_text(lag.owners),
        )
        self._columns["owner"] += [index for index, _ in claims]
        self._columns["cell"] += [partition for _, partition in claims]
        self._lags.append(lag.lag)
        self._rates.append(lag.rate)
        return valid

    def _owner_text(self, owners: PartitionOwners) -> int:
        """The index of what is written of the owners of a topic's partitions."""
        if not owners.members and owners.claim is Claim.COMMITTED:
            return UNKNOWN
        key = (owners.named, owners.owner.tobytes())
        if (index := self._index_of_owners.get(key)) is None:
            named = owner_fields(owners.members, owners.owner, owners.others, owners.non_readers)
            written = OwnerText(named, owner_racks(owners.members), owners.claim)
            index = self._owner_texts.setdefault(written, len(self._owner_texts))
            self._index_of_owners[key] = index
        return index

    def _append(self, **values: object) -> None:
        for name, value in values.items():
            self._columns[name].append(value)

    def state(self) -> BucketState:
        """The columns of the groups that were added."""
        columns = {
            name: np.array(self._columns[name], dtype)
            for axis in AXES
            for name, dtype in axis.items()
        }
        none = np.zeros(0, np.int64)
        cells = {
            "lag": np.concatenate([none, *self._lags]),
            "rate": np.concatenate([none, *self._rates]).astype(np.int32),
        }
        return BucketState(
            groups=tuple(self._groups),
            topics=tuple(self._topics),
            logs=tuple(self._logs),
            columns=columns | cells,
            owner_texts=tuple(self._owner_texts),
            owner_names=tuple(self._owner_names),
        )
