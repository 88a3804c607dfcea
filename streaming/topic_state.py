"""What is known of one topic, and how a batch changes it: a pure function of the state and the batch's rows.

Samples, layouts and commits of a batch are merged in event time: a sample counts the commits up to its time, a later
commit shows in the batch's last lag only. Records of one name are in order in their topic, so their offsets there order
them; their times only place them among the commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from assignors.protocol.records import OffsetsRecord, TopicRecord, decode
from streaming.commit_table import CommitTable, in_order
from streaming.lag import NONE, Lag, ResetPolicy, lag_of
from streaming.offsets_topic import TOPIC as OFFSETS_TOPIC
from streaming.packing import PackingError, pack, unpack
from streaming.rows import GROUP_ROUTE, Commits, Gone, Kind, LagRow, Moment, RacksRow, Raw, Reads, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from assignors.protocol.records import EndKind

    Ints: TypeAlias = npt.NDArray[np.int64]

Racks: TypeAlias = tuple[tuple[str, ...], ...]

VERSION = 2
UNKNOWN = -1
READER_TTL = 7 * 24 * 60 * 60 * 1000
"""Milliseconds of event time after its last plan that a group counts as a reader without a commit: as long as brokers keep
the offsets of a group that is empty (offsets.retention.minutes)."""


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRule:
    """What counts as the end, and what a group without a commit has to read."""

    end_kind: EndKind = "stable"
    reset: ResetPolicy = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic; `begin`, `stable`, `high` and `racks` are indexed by partition."""

    id: str = ""
    at: int = UNKNOWN
    """Of the last sample."""
    begin: Ints
    stable: Ints
    high: Ints
    racks: Racks = ()
    racks_at: int = UNKNOWN
    sampled: tuple[str, int] | None = None
    """Where the last sample stands: "topic/partition" and offset; likewise"""
    laid_out: tuple[str, int] | None = None
    """the last layout."""
    commits: CommitTable
    readers: Mapping[str, int] = field(default_factory=dict)
    """By group, since when a plan says that it reads the topic: it counts without a commit, too."""

    @classmethod
    def empty(cls) -> TopicState:
        """Nothing is known."""
        return cls(begin=_none(), stable=_none(), high=_none(), commits=CommitTable.empty())

    @property
    def blank(self) -> bool:
        """Whether there is nothing to keep."""
        return not self.id and not self.commits.code.size and not self.readers

    def pack(self) -> bytes:
        """The state store's value."""
        meta = {
            "state": VERSION,
            "id": self.id,
            "at": self.at,
            "racks": self.racks,
            "racks_at": self.racks_at,
            "sampled": self.sampled,
            "laid_out": self.laid_out,
            "groups": self.commits.groups,
            "topic_ids": self.commits.topic_ids,
            "readers": dict(self.readers),
        }
        ends = {"begin": self.begin, "stable": self.stable, "high": self.high}
        return pack(meta, {**ends, **self.commits.columns()})

    @classmethod
    def unpack(cls, value: bytes) -> TopicState:
        """From the state store's value."""
        meta, arrays = unpack(value)
        if meta.get("state") != VERSION:
            raise PackingError(f"topic state of version {meta.get('state')}, not {VERSION}")
        return cls(
            id=meta["id"],
            at=meta["at"],
            begin=arrays["begin"],
            stable=arrays["stable"],
            high=arrays["high"],
            racks=tuple(map(tuple, meta["racks"])),
            racks_at=meta["racks_at"],
            sampled=_place(meta["sampled"]),
            laid_out=_place(meta["laid_out"]),
            commits=CommitTable.of(meta["groups"], meta["topic_ids"], arrays),
            readers=meta["readers"],
        )


def _place(value: list[object] | None) -> tuple[str, int] | None:
    return None if value is None else (str(value[0]), int(str(value[1])))


def advance(
    topic: str, state: TopicState | None, rows: Iterable[tuple[int, bytes]], rule: LagRule
) -> tuple[TopicState | None, list[Row]]:
    """The state after a batch's rows (kind and payload, in any order), and the rows for the groups."""
    turn = _Turn(topic, state or TopicState.empty(), rule)
    turn.take(rows)
    return turn.end()


class _Turn:
    """One batch of one topic."""

    def __init__(self, topic: str, state: TopicState, rule: LagRule) -> None:
        self._topic = topic
        self._state = state
        self._rule = rule
        self._out: list[Row] = []
        self._news = CommitTable.empty()
        self._effective = _none()
        self._reads: list[Reads] = []
        """Newest first."""
        self._name(tuple(self._state.readers))
        self._committed: frozenset[int] = frozenset()
        """The numbers of the groups with a commit."""
        self._visible = self._visible_now()
        self._observed = False
        self._touched: set[str] = set()

    def take(self, rows: Iterable[tuple[int, bytes]]) -> None:
        batches: list[Commits] = []
        raws: list[Raw] = []
        for kind, payload in rows:
            if kind == Kind.COMMITS:
                batches.append(Commits.unpack(payload))
            elif kind == Kind.READS:
                self._reads.append(Reads.unpack(payload))
            else:
                raws.append(Raw.unpack(payload))
        self._reads.sort(key=lambda reads: (reads.at, reads.group), reverse=True)
        self._name(tuple(reads.group for reads in self._reads))
        if batches:
            named, self._news = self._state.commits.with_names(batches)
            self._state = replace(self._state, commits=named)
            self._effective = in_order(self._news)
        for raw in sorted(raws, key=lambda raw: (raw.partition, raw.offset)):
            self._observe(raw)

    def end(self) -> tuple[TopicState | None, list[Row]]:
        self._commit_until(None)
        for number, group in sorted(self._visible.items()):
            if self._state.at != UNKNOWN and (self._observed or group in self._touched):
                self._tell(group, Kind.LAG, self._lag_row(number).pack())
        state = replace(self._state, commits=self._state.commits.compact())
        return (None if state.blank else state), self._out

    def _name(self, groups: tuple[str, ...]) -> None:
        """Number groups that may have no commit."""
        if groups:
            self._state = replace(self._state, commits=self._state.commits.naming(groups))

    def _tell(self, group: str, kind: Kind, payload: bytes) -> None:
        self._out.append(Row(GROUP_ROUTE + group, kind, payload))

    # -- commits

    def _visible_now(self) -> dict[int, str]:
        """By number, the groups with a commit that may be of this topic, and those that read it by plan."""
        commits = self._state.commits
        readers = self._state.readers
        by_plan = [n for n, name in enumerate(commits.groups) if name in readers] if readers else []
        mine = commits.group[commits.of_topic(self._state.id)] if self._state.id else commits.group
        self._committed = frozenset(np.unique(mine).tolist())
        return {number: commits.groups[number] for number in sorted(self._committed.union(by_plan))}

    def _read_until(self, time: int | None) -> None:
        """Let the plans up to a time take effect; each is told the racks, since its group may have forgotten them."""
        while self._reads and (time is None or self._reads[-1].at <= time):
            reads = self._reads.pop()
            self._touched.add(reads.group)
            readers = {**self._state.readers, reads.group: reads.at}
            self._state = replace(self._state, readers=readers)
            self._visible = self._visible_now()
            if self._state.racks_at != UNKNOWN:
                self._tell_racks(self._state.commits.groups.index(reads.group), reads.at)

    def _commit_until(self, time: int | None) -> None:
        """Let the commits, and plans, up to a time take effect; `None`: all that are left."""
        self._read_until(time)
        due = self._effective <= time if time is not None else np.ones(self._effective.size, np.bool_)
        if not due.any():
            return
        now = self._news.take(due)
        at = self._effective[due]
        self._news, self._effective = self._news.take(~due), self._effective[~due]
        self._state = replace(self._state, commits=self._state.commits.merged(now))
        self._touched.update(now.groups[number] for number in np.unique(now.group).tolist())
        last = np.full(len(now.groups), UNKNOWN, np.int64)
        np.maximum.at(last, now.group, at)
        self._show(last)

    def _show(self, last: Ints) -> None:
        """Say which groups came or went; `last` is indexed by group: the time of what made it come or go."""
        before, self._visible = self._visible, self._visible_now()
        for number in sorted(before.keys() - self._visible.keys()):
            self._tell(before[number], Kind.GONE, Gone(topic=self._topic, at=int(last[number])).pack())
        if self._state.racks_at != UNKNOWN:
            for number in sorted(self._visible.keys() - before.keys()):
                self._tell_racks(number, int(last[number]))

    # -- what the observer saw

    def _observe(self, raw: Raw) -> None:
        record = decode("metadata", raw.key, raw.value)
        place = (f"{raw.topic}/{raw.partition}", raw.offset)
        if isinstance(record, TopicRecord):
            self._commit_until(record.at)
            self._lay_out(record, place)
        elif isinstance(record, OffsetsRecord):
            self._commit_until(record.at)
            self._sample(record, place)
        else:  # a tombstone: the intake lets nothing else through
            self._commit_until(raw.timestamp)
            self._forget(raw.timestamp)

    def _lay_out(self, record: TopicRecord, place: tuple[str, int]) -> None:
        self._begin_anew(record.id, record.at)
        self._observed = True
        self._state = replace(self._state, racks=record.racks, racks_at=record.at, laid_out=place)
        for number in sorted(self._visible):
            self._tell_racks(number, record.at)

    def _tell_racks(self, number: int, told: int) -> None:
        state = self._state
        row = RacksRow(
            topic=self._topic,
            id=state.id,
            at=state.racks_at,
            told=max(told, state.racks_at),
            racks=state.racks,
            source=dict([state.laid_out] if state.laid_out else []),
            committed=number in self._committed,
        )
        self._tell(self._visible[number], Kind.RACKS, row.pack())

    def _sample(self, record: OffsetsRecord, place: tuple[str, int]) -> None:
        if record.id == self._state.id and record.at <= self._state.at:
            return  # said already
        self._begin_anew(record.id, record.at)
        self._observed = True
        state = self._state
        self._state = replace(
            state,
            at=record.at,
            begin=_newest(state.begin, record.begin),
            stable=_newest(state.stable, record.stable),
            high=_newest(state.high, record.high),
            sampled=place,
            readers={group: at for group, at in state.readers.items() if record.at - at < READER_TTL},
        )
        if len(self._state.readers) < len(state.readers):
            self._show(np.full(len(state.commits.groups), record.at, np.int64))
        if not self._visible:
            return
        numbers = sorted(self._visible)
        committed, committed_at = self._matrix(numbers)
        lags = self._lag(committed).lag
        for row, number in enumerate(numbers):
            moment = Moment(
                topic=self._topic,
                at=record.at,
                lag=lags[row],
                committed_at=int(committed_at[row].max(initial=NONE)),
                source=self._source(number),
            )
            self._tell(self._visible[number], Kind.MOMENT, moment.pack())

    def _begin_anew(self, topic_id: str, at: int) -> None:
        """Forget a former topic of this name: its offsets, and the commits that are, or must be, its."""
        state = self._state
        if topic_id == state.id:
            return
        commits = state.commits
        if state.id:
            named = commits.topic_id >= 0
            commits = commits.take(np.where(named, commits.of_topic(topic_id), commits.at >= at))
        self._state = replace(TopicState.empty(), id=topic_id, commits=commits, readers=state.readers)
        self._show(np.full(len(self._state.commits.groups), at, np.int64))

    def _forget(self, at: int) -> None:
        names = replace(
            CommitTable.empty(), groups=self._state.commits.groups, topic_ids=self._state.commits.topic_ids
        )
        self._state = replace(TopicState.empty(), commits=names)
        self._show(np.full(len(self._state.commits.groups), at, np.int64))

    # -- lag

    @property
    def _ends(self) -> Ints:
        return self._state.stable if self._rule.end_kind == "stable" else self._state.high

    def _matrix(self, numbers: list[int]) -> tuple[Ints, Ints]:
        """Offsets and times of some groups' commits: rows by group, columns by partition."""
        commits = self._state.commits
        shape = (len(numbers), self._ends.size)
        offset, at = np.full(shape, NONE, np.int64), np.full(shape, NONE, np.int64)
        row = np.searchsorted(numbers, commits.group)
        fits = (row < len(numbers)) & (commits.partition < self._ends.size) & commits.of_topic(self._state.id)
        fits[fits] = np.asarray(numbers, np.int64)[row[fits]] == commits.group[fits]
        offset[row[fits], commits.partition[fits]] = commits.offset[fits]
        at[row[fits], commits.partition[fits]] = commits.at[fits]
        return offset, at

    def _lag(self, committed: Ints) -> Lag:
        return lag_of(committed=committed, begin=self._state.begin, end=self._ends, reset=self._rule.reset)

    def _source(self, number: int) -> dict[str, int]:
        commits = self._state.commits
        first, last = np.searchsorted(commits.group, [number, number + 1])
        source: dict[str, int] = {}
        if first < last:
            newest = int(first + np.argmax(commits.position[first:last]))
            source = {f"{OFFSETS_TOPIC}/{commits.source[newest]}": int(commits.position[newest])}
        return source | dict([self._state.sampled] if self._state.sampled else [])

    def _lag_row(self, number: int) -> LagRow:
        state = self._state
        committed, at = self._matrix([number])
        lag = self._lag(committed)
        racks = (state.racks + ((),) * self._ends.size)[: self._ends.size]
        return LagRow(
            topic=self._topic,
            at=state.at,
            id=state.id,
            end_kind=self._rule.end_kind,
            source=self._source(number),
            racks=racks,
            committed=committed[0],
            committed_at=at[0],
            begin=state.begin,
            end=self._ends,
            lag=lag.lag[0],
            lost=lag.lost[0],
            stale=np.flatnonzero(lag.stale[0]),
        )


def _newest(known: Ints, sampled: tuple[int, ...]) -> Ints:
    """What was sampled, and what was known before where nothing could be read."""
    read = np.array(sampled, np.int64)
    before = np.full(read.size, UNKNOWN, np.int64)
    before[: known.size] = known[: read.size]
    return np.where(read < 0, before, read)
