"""State of one topic, as the state store keeps it; `update.advance` applies a batch to it.

Size, packed and before it is compressed, at most: a kilobyte; 188 bytes a partition, 132 of them
the history of its end; 64 bytes for each partition that a group has committed, with the two
baselines of its velocity; 40 bytes for each commit that waits for the sample that counts it, of
which there are at most `UNCOUNTED_MARGIN` more than commits that are counted; at most
`MAX_DEFERRED_RECORDS` samples that wait for commits to be read. Numbers that lie close together
take less (`messages.packing`): 20 bytes for a partition that a group has committed, with 2,000
groups that keep pace.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.streaming.messages.packing import (
    PackingError,
    names_column,
    names_of,
    pack_alike,
    unpack_alike,
)
from levelwind.streaming.rules.event_time import UNKNOWN, Int64
from levelwind.streaming.topic.commit_columns import (
    UncountedCommits,
    no_entries,
    packable,
    unpacked,
)
from levelwind.streaming.topic.commit_table import CommitTable, compacted
from levelwind.streaming.topic.end_history import (
    EndOffsetHistory,
    ends_of,
    packable_ends,
    wide_steps,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from levelwind.assignors.protocol.records import EndKind
    from levelwind.streaming.rules.event_time import Mask
    from levelwind.streaming.rules.partition_lag import ResetPolicy


LogPosition: TypeAlias = tuple[str, int]
"""The position of a record: "topic/partition" and its offset there."""
Racks: TypeAlias = tuple[tuple[str, ...], ...]
"""The racks of the replicas of each partition."""

VERSION = 7
READER_TTL_MS = 7 * 24 * 60 * 60 * 1000
"""Event time after its last plan, or the last record of its members, for which a group without a
commit counts as a reader: as long as brokers keep the offsets of an empty group
(offsets.retention.minutes)."""
UNCOUNTED_MARGIN = 4096
"""Uncounted commits beyond the number of counted ones that wait for a sample; with more, all are
counted early."""
END_COLUMNS = ("begin", "stable", "high", "data_end", "end_read_at")
"""The columns of a state that are indexed by partition."""
BASELINES = 2
"""Baselines of a topic that has been sampled for long enough."""
MAX_DEFERRED_RECORDS = 64
"""Records that wait for commits to be read; with more, the oldest samples among them are
dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRule:
    """Settings of lag: where a partition ends, and where a group without a commit starts."""

    end_kind: EndKind = "stable"
    """The end that lag is counted to: the last stable offset, or the high watermark."""
    reset: ResetPolicy = "earliest"
    """The end of the log at which a group without a commit starts to read."""
    group_resets: Mapping[str, ResetPolicy] = field(default_factory=dict)
    """The same of single groups, by name."""
    commits_topic: str = OFFSETS_TOPIC
    """The topic that commits are read from."""

    @property
    def polled(self) -> bool:
        """Whether it holds what was asked from coordinators, rather than what they wrote."""
        return self.commits_topic != OFFSETS_TOPIC

    def at_end(self, groups: Sequence[str]) -> Mask:
        """Whether each of some groups without a commit starts at the end; a row for each."""
        policies = [self.group_resets.get(group, self.reset) for group in groups]
        return np.array([[policy == "latest"] for policy in policies], np.bool_).reshape(-1, 1)


class Baseline(Struct, frozen=True, kw_only=True):
    """The topic's end offsets at one time, from which speeds are measured.

    `CommitTable` has the committed offsets at that time.
    """

    at: int
    """The time of the sample, in milliseconds since the epoch."""
    end: Int64
    """The end offsets, by partition; `UNKNOWN`: not known yet."""


class TopicState(Struct, frozen=True, kw_only=True):
    """State of one topic.

    Arrays and `racks` are indexed by partition; times are milliseconds since the epoch.
    """

    id: str = ""
    """The topic id of the newest layout or sample, also where the topic is `gone`; empty: the
    observer has not published it."""
    at: int = UNKNOWN
    """The time of the last sample; of a topic that is `gone`, the time since which it is."""
    begin: Int64
    """The log start offset at the last sample that could read it."""
    stable: Int64
    """The last stable offset at the last sample that could read it."""
    high: Int64
    """The high watermark at the last sample that could read it."""
    data_end: Int64
    """The offset after the last record that a read_committed consumer receives, where that is known
    to be below `stable`; otherwise `UNKNOWN`."""
    gaps: tuple[tuple[int, ...], ...] = ()
    """By partition, offsets without a record as the last sample's record has them; empty: none is
    known in any partition."""
    end_read_at: Int64
    """The time of the last sample that could read the partition's end."""
    racks: Racks = ()
    """The racks of the last layout."""
    racks_at: int = UNKNOWN
    """The time of the last layout."""
    sample_position: LogPosition | None = None
    """The position of the last sample's record."""
    layout_position: LogPosition | None = None
    """The position of the last layout's record."""
    exact_cut: bool = True
    """Whether the last sample carried the end offsets of the offsets topic, which say exactly which
    commits it counts."""
    commits: CommitTable
    """The newest commit of each group and partition as of the last sample."""
    uncounted_commits: UncountedCommits
    """All commits that came after the last sample. Invariant after `compact`: `groups` and
    `topic_ids` are those of `commits`."""
    deferred_records: tuple[bytes, ...] = ()
    """The topic's records, each a packed `Raw`, from the first sample on whose commits have not all
    been read yet."""
    planned_readers: Mapping[str, int] = {}
    """By group whose plan or members cover the topic, the time of the newest such record: the group
    reads the topic without a commit, too."""
    last_tombstones: Mapping[str, int] = {}
    """The offset of the newest commit tombstone in each partition of the offsets topic; a replay
    whose log was searched only up to an earlier offset is not applied."""
    history: EndOffsetHistory
    """The end offsets at past samples."""
    baselines: tuple[Baseline, ...] = ()
    """At most two, the older first."""

    @classmethod
    def empty(cls) -> TopicState:
        """The state of a topic of which nothing is known."""
        arrays: dict[str, Any] = {name: no_entries() for name in END_COLUMNS}
        return cls(
            **arrays,
            commits=CommitTable.empty(),
            uncounted_commits=UncountedCommits.empty(),
            history=EndOffsetHistory.empty(),
        )

    @property
    def gone(self) -> bool:
        """Whether the observer does not see the topic any more: it is deleted, or out of sight."""
        return bool(self.id) and self.layout_position is None and self.sample_position is None

    @property
    def blank(self) -> bool:
        """Whether the state holds nothing to keep."""
        return not (self._has_content or self.planned_readers)

    @property
    def unseen(self) -> bool:
        """Whether the state holds nothing to keep but readers by plan."""
        return bool(self.planned_readers) and not self._has_content

    @property
    def _has_content(self) -> bool:
        """Whether the observer sees the topic, or there are commits or records of it."""
        return bool(
            (self.id and not self.gone)
            or self.commits.code.size
            or self.uncounted_commits.code.size
            or self.deferred_records
        )

    def compact(self) -> TopicState:
        """This state without names of groups and topic ids that no commit uses."""
        uncounted = replace(
            self.uncounted_commits, groups=self.commits.groups, topic_ids=self.commits.topic_ids
        )
        commits, uncounted = compacted(self.commits, uncounted)
        return replace(self, commits=commits, uncounted_commits=uncounted)

    def pack(self) -> bytes:
        """The state store's value."""
        (value,) = self.pack_all([self])
        return value

    @classmethod
    def pack_all(cls, states: Sequence[TopicState]) -> list[bytes]:
        """The values of several states; those that are alike cost little more than one."""
        alike: dict[Any, list[int]] = {}
        names = [names_column(state.commits.groups) for state in states]
        wide = wide_steps([state.history for state in states])
        for index, state in enumerate(states):
            lengths = _lengths(state), names[index].size, wide[index]
            alike.setdefault(lengths, []).append(index)
        values = [b""] * len(states)
        for indices in alike.values():
            some = [states[index] for index in indices]
            matrices = _matrices(some, [names[index] for index in indices], wide=wide[indices[0]])
            packed = pack_alike([_Head.of(state) for state in some], matrices, dense=True)
            for index, value in zip(indices, packed, strict=True):
                values[index] = value
        return values

    @classmethod
    def unpack(cls, value: bytes) -> TopicState:
        """The state that `pack` wrote.

        Raises:
            PackingError: the value is damaged, or of another version.
        """
        (state,) = cls.unpack_all([value])
        return state

    @classmethod
    def unpack_all(cls, values: Sequence[bytes]) -> list[TopicState]:
        """The states of several values; those that are alike cost little more than one.

        Raises:
            PackingError: a value is damaged, or of another version.
        """
        states: list[Any] = [None] * len(values)
        for indices, heads, matrices in unpack_alike(values, _Head.decode):
            columns = {
                **unpacked(matrices, CommitTable.ALL),
                **unpacked(matrices, UncountedCommits.ALL, "uncounted_"),
                **{name: matrices[name] for name in _OTHERS if name in matrices},
                **ends_of(matrices),
            }
            rows = zip(*columns.values(), strict=True)
            for index, head, row in zip(indices, heads, rows, strict=True):
                states[index] = _state(head, dict(zip(columns, row, strict=True)))
        return states


def sampled_end(state: TopicState, rule: LagRule) -> Int64:
    """The end of each partition at the last sample, of the kind that the rule chooses."""
    return state.stable if rule.end_kind == "stable" else state.high


class _Head(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What explains a packed state's columns; the fields are as in `TopicState`, and in order."""

    id: str
    at: int
    racks: Racks
    racks_at: int
    sample_position: LogPosition | None
    layout_position: LogPosition | None
    exact_cut: bool
    gaps: tuple[tuple[int, ...], ...] = ()
    """Not written where no gap is known."""
    state: int
    """The version."""
    topic_ids: tuple[str, ...]
    planned_readers: dict[str, int]
    last_tombstones: dict[str, int]
    deferred_records: tuple[int, ...]
    """The size of each."""
    baselines: tuple[int, ...]
    """The time of each."""

    @classmethod
    def of(cls, state: TopicState) -> _Head:
        """The head of a state."""
        return cls(
            id=state.id,
            at=state.at,
            racks=state.racks,
            racks_at=state.racks_at,
            sample_position=state.sample_position,
            layout_position=state.layout_position,
            exact_cut=state.exact_cut,
            gaps=state.gaps if any(state.gaps) else (),
            state=VERSION,
            topic_ids=state.commits.topic_ids,
            planned_readers=dict(state.planned_readers),
            last_tombstones=dict(state.last_tombstones),
            deferred_records=tuple([len(payload) for payload in state.deferred_records]),
            baselines=tuple([baseline.at for baseline in state.baselines]),
        )

    @classmethod
    def decode(cls, content: bytes) -> _Head:
        """The head that was written.

        Raises:
            PackingError: it is of another version, whose fields may be others.
        """
        try:
            head = _decode_head(content)
            version: object = head.state
        except msgspec.ValidationError:
            version = _decode_version(content).state
            if version == VERSION:
                raise
        if version != VERSION:
            raise PackingError(f"topic state of version {version}, not {VERSION}")
        return head


class _Version(Struct):
    """The version in a head."""

    state: object = None


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_OTHERS = (*END_COLUMNS, "groups", "deferred_records", "baseline0", "baseline1")


def _lengths(state: TopicState) -> tuple[int, ...]:
    """The lengths of a state's columns, from which their names follow."""
    return (
        state.begin.size,
        state.commits.code.size,
        state.uncounted_commits.code.size,
        sum(map(len, state.deferred_records)),
        len(state.baselines),
        *[baseline.end.size for baseline in state.baselines],
        *state.history.end.shape,
    )


def _matrices(
    states: Sequence[TopicState],
    names: Sequence[npt.NDArray[Any]],
    *,
    wide: bool,
) -> dict[str, npt.NDArray[Any]]:
    """The columns to be packed, by name, with a row for each of some states of the same lengths.

    All or, where `wide` is false, none of their histories have wide steps.
    """

    def rows(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate(columns).reshape(len(columns), -1)

    arrays = {name: rows([getattr(state, name) for state in states]) for name in END_COLUMNS}
    arrays["groups"] = rows(names)
    if states[0].deferred_records:
        arrays["deferred_records"] = rows(
            [np.frombuffer(b"".join(state.deferred_records), np.uint8) for state in states]
        )
    for number in range(len(states[0].baselines)):
        arrays[f"baseline{number}"] = rows([state.baselines[number].end for state in states])
    arrays |= packable_ends([state.history for state in states], wide=wide)
    counted = [state.commits for state in states]
    waiting = [state.uncounted_commits for state in states]
    return (
        arrays
        | packable({name: rows([getattr(c, name) for c in counted]) for name in CommitTable.ALL})
        | packable(
            {name: rows([getattr(c, name) for c in waiting]) for name in UncountedCommits.ALL},
            "uncounted_",
        )
    )


def _state(head: _Head, columns: Mapping[str, Any]) -> TopicState:
    """The state of its head and its columns in their full width."""
    deferred: tuple[bytes, ...] = ()
    if head.deferred_records:
        content = columns["deferred_records"].tobytes()
        bounds = itertools.accumulate(head.deferred_records, initial=0)
        deferred = tuple([content[first:last] for first, last in itertools.pairwise(bounds)])
    groups, topic_ids = names_of(columns["groups"]), head.topic_ids
    return TopicState(
        id=head.id,
        at=head.at,
        **{name: columns[name] for name in END_COLUMNS},
        gaps=head.gaps,
        racks=head.racks,
        racks_at=head.racks_at,
        sample_position=head.sample_position,
        layout_position=head.layout_position,
        exact_cut=head.exact_cut,
        commits=CommitTable(
            groups=groups,
            topic_ids=topic_ids,
            **{name: columns[name] for name in CommitTable.ALL},
        ),
        uncounted_commits=UncountedCommits(
            groups=groups,
            topic_ids=topic_ids,
            **{name: columns[f"uncounted_{name}"] for name in UncountedCommits.ALL},
        ),
        deferred_records=deferred,
        planned_readers=head.planned_readers,
        last_tombstones=head.last_tombstones,
        history=EndOffsetHistory(at=columns["ends_at"], end=columns["ends"])
        if "ends_at" in columns
        else EndOffsetHistory.empty(),
        baselines=tuple(
            [
                Baseline(at=at, end=columns[f"baseline{number}"])
                for number, at in enumerate(head.baselines)
            ]
        ),
    )
