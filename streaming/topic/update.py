"""How a batch changes what is known of a topic: a pure function of the state and the batch's rows.

A sample is a cut through all logs at one time: the ends of the topic's partitions, and how far the offsets topic had
come. What a group is judged by, its moment at that sample, counts the commits below the cut and no other, whatever the
batches: commits beyond it wait in the state for the next sample, and a sample whose commits are not all read yet waits,
with all that follows it in its log, for the batch that brings them. So a pipeline that reads a backlog, with one topic
far ahead of another, gives the same triggers as one that keeps pace. Three limits. More than `MAX_DEFERRED_RECORDS` samples do not wait:
the oldest are dropped, as if they had not been taken. Of more than `UNCOUNTED_MARGIN` commits beyond those that are counted all
are counted early, so that an old sample may find less lag than there was, never more. And of a group's commits to a
partition within one of the intake's buckets of time the last alone may arrive here: a cut between two such may count the
earlier of them or the one before both.

A layout with other racks counts the commits up to its time, since the groups that came before it must know the former ones.
So does a sample that does not say how far commits had come; then they must be read with it.

The lag that is published is of the last sample that counted and of all commits read. Records of one name are in order in
their log, so their offsets there order them, not their times: a sample that is younger by its place and less than `JUMP_MS`
older by its time is late, and ignored; more, and the clock was set back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.records import OffsetsRecord, TopicRecord, decode
from streaming.decoding.offsets_topic import TOPIC as OFFSETS_TOPIC
from streaming.messages.rows import (
    GROUP_KEY_PREFIX,
    PASS_THROUGH_PREFIX,
    Detached,
    Kind,
    PlanCovers,
    RacksRow,
    Raw,
    Row,
    TopicCommits,
)
from streaming.rules.event_time import (
    JUMP_MS,
    UNKNOWN,
)
from streaming.topic.commit_table import (
    CommitTable,
    effective_times,
    used,
)
from streaming.topic.lag_rows import (
    Lags,
    lag_rows,
    lag_samples,
    sampled_end,
)
from streaming.topic.replays import (
    Verdict,
    commit_verdict,
    newest_tombstones,
    record_verdict,
)
from streaming.topic.state import (
    MAX_DEFERRED_RECORDS,
    READER_TTL_MS,
    UNCOUNTED_MARGIN,
    Baseline,
    LagRule,
    TopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streaming.rules.event_time import (
        Int64,
        Mask,
    )


WINDOW = 60_000
"""Milliseconds: speeds are measured over one to two of them."""


def advance(
    topic: str,
    state: TopicState | None,
    rows: Iterable[tuple[int, bytes]],
    rule: LagRule,
    offsets_read: Mapping[int, int] | None = None,
) -> tuple[TopicState | None, list[Row]]:
    """The state after a batch, and the rows for the groups.

    Args:
        topic: the topic's name.
        state: what is known of it.
        rows: the batch's, kind and payload, in any order.
        rule: what lag is.
        offsets_read: by partition of the offsets topic, the offset that this batch is read to; None: not known, commits
            are taken to be read as far as the samples.
    """
    turn = _Turn(topic, state or TopicState.empty(), rule, offsets_read)
    turn.take(rows)
    return turn.end()


class _Turn:
    """One batch of one topic."""

    def __init__(
        self, topic: str, state: TopicState, rule: LagRule, offsets_read: Mapping[int, int] | None
    ) -> None:
        self._topic = topic
        self._state = state
        self._rule = rule
        self._offsets_read = offsets_read
        self._out: list[Row] = []
        self._news = CommitTable.empty()
        """In log order: what no sample has counted yet."""
        self._effective = np.zeros(0, np.int64)
        """When each of them counts for a sample that does not say how far commits had come."""
        self._reads: list[PlanCovers] = []
        """Newest first."""
        self._name(tuple(self._state.planned_readers))
        self._committed: frozenset[int] = frozenset()
        """The numbers of the groups with a commit."""
        self._visible = self._visible_now()
        self._observed = False
        self._touched: dict[int, int] = {}
        """By number the groups that the batch has news of, and the time of the last."""
        self._judged: Lags | None = None
        """At the last sample."""
        self._left: set[int] = set()
        """Those that were told that the topic is nothing to them any more."""

    def take(self, rows: Iterable[tuple[int, bytes]]) -> None:
        batches: list[TopicCommits] = []
        replays: list[TopicCommits] = []
        raws: list[Raw] = []
        for kind, payload in rows:
            if kind == Kind.COMMITS:
                batches.append(TopicCommits.unpack(payload))
            elif kind == Kind.REPLAYED_COMMIT:
                replays.append(TopicCommits.unpack(payload))
            elif kind == Kind.PLAN_COVERS:
                self._reads.append(PlanCovers.unpack(payload))
            else:
                raws.append(Raw.unpack(payload))
        self._reads.sort(key=lambda reads: (reads.at, reads.group), reverse=True)
        self._name(tuple(reads.group for reads in self._reads))
        self._hear(batches + self._commits_again(replays, batches))
        raws = self._observed_again(raws)
        deferred_records = [Raw.unpack(payload) for payload in self._state.deferred_records]
        self._observe(
            [*deferred_records, *sorted(raws, key=lambda raw: (raw.partition, raw.offset))]
        )

    def _commits_again(
        self, replays: list[TopicCommits], batches: list[TopicCommits]
    ) -> list[TopicCommits]:
        """Which replayed commits count."""
        tables = (self._state.commits, self._state.uncounted_commits)
        due = [
            (one, commit_verdict(one, tables, batches, self._state.last_tombstones))
            for one in replays
        ]
        for commit, verdict in due:
            if verdict is not Verdict.UNSURE:
                self._settle(OFFSETS_TOPIC, int(commit.source[0]), int(commit.position[0]))
        self._state = replace(
            self._state, last_tombstones=newest_tombstones(batches, self._state.last_tombstones)
        )
        return [commit for commit, verdict in due if verdict is Verdict.APPLIES]

    def _observed_again(self, raws: list[Raw]) -> list[Raw]:
        """Records of the observer but replays that are outdated."""
        outdated = []
        for raw in raws:
            if raw.until >= 0:
                self._settle(raw.topic, raw.partition, raw.offset)
                if (
                    record_verdict(raw, self._state.sample_position, self._state.layout_position)
                    is Verdict.OUTDATED
                ):
                    outdated.append(raw)
        return [raw for raw in raws if raw not in outdated]

    def _settle(self, topic: str, partition: int, offset: int) -> None:
        raw = Raw(
            topic=topic, partition=partition, offset=offset, timestamp=0, key=None, value=None
        )
        self._out.append(Row(f"{PASS_THROUGH_PREFIX}{partition}", Kind.REPLAY_DONE, raw.pack()))

    def end(self) -> tuple[TopicState | None, list[Row]]:
        self._read_until(None)
        limit = self._state.commits.code.size + UNCOUNTED_MARGIN
        if not self._state.exact_cut or self._news.code.size > limit:
            self._count(np.ones(self._news.code.size, np.bool_))
        self._publish()
        state = replace(self._state, uncounted_commits=self._news).compact()
        return (None if state.blank else state), self._out

    def _publish(self) -> None:
        """Tell the lag of the groups that there is news of, with all commits that were read."""
        shown = replace(self._state, commits=self._state.commits.merged(self._news))
        visible = _groups(shown)[1]
        told = sorted(visible if self._observed else visible.keys() & self._touched.keys())
        if told and self._state.at != UNKNOWN:
            lags = self._judged.at(shown, told) if self._judged else None
            lags = lags or Lags.of(shown, self._rule, told)
            for number, row in lag_rows(self._topic, lags, self._state, self._rule):
                self._tell(visible[number], Kind.LAG, row.pack())
        # Those that came and went before a sample counted them: an earlier batch may have told their lag.
        unseen = self._touched.keys() - visible.keys() - self._visible.keys() - self._left
        for number in sorted(unseen):
            self._tell_gone(number, self._state.commits.groups[number], self._touched[number])

    def _name(self, groups: tuple[str, ...]) -> None:
        """Number groups that may have no commit."""
        if groups:
            self._state = replace(self._state, commits=self._state.commits.naming(groups))

    def _tell(self, group: str, kind: Kind, payload: bytes) -> None:
        self._out.append(Row(GROUP_KEY_PREFIX + group, kind, payload))

    def _tell_gone(self, number: int, group: str, at: int) -> None:
        self._left.add(number)
        self._tell(group, Kind.DETACHED, Detached(topic=self._topic, at=at).pack())

    # -- commits

    def _hear(self, batches: list[TopicCommits]) -> None:
        """Put the batch's commits behind those that wait already."""
        named, news = self._state.commits.with_names(batches)
        last = np.full(len(named.groups), UNKNOWN, np.int64)
        last[news.group] = news.at  # of several the last stays
        touched = used([news.group], len(named.groups))
        self._touched.update(zip(touched.tolist(), last[touched].tolist(), strict=True))
        self._news = self._state.uncounted_commits.followed_by(news).in_log_order()
        self._effective = effective_times(self._news)
        self._state = replace(self._state, commits=named)

    def _visible_now(self) -> dict[int, str]:
        """By number, the groups with a commit that may be of this topic, and those that read it by plan."""
        self._committed, visible = _groups(self._state)
        return visible

    def _read_until(self, time: int | None) -> None:
        """Let the plans up to a time take effect; each is told the racks, since its group may have forgotten them."""
        while self._reads and (time is None or self._reads[-1].at <= time):
            reads = self._reads.pop()
            number = self._state.commits.groups.index(reads.group)
            self._touched.setdefault(number, reads.at)
            readers = {**self._state.planned_readers, reads.group: reads.at}
            self._state = replace(self._state, planned_readers=readers)
            self._visible = self._visible_now()
            if self._state.racks_at != UNKNOWN:
                self._tell_racks(number, reads.at)

    def _count_until(self, record: OffsetsRecord) -> None:
        """Count the commits that belong to a sample."""
        if record.offsets_topic_ends is None:
            self._count(self._effective <= record.at)
            return
        cut = np.array(
            [*record.offsets_topic_ends, 0], np.int64
        )  # the last: of a partition that was not there yet
        source = np.minimum(self._news.source, cut.size - 1)
        self._count(self._news.position < cut[source], record.at)

    def _count(self, due: Mask, at: int = UNKNOWN) -> None:
        """Count some of the commits that wait; `at`: since when, if not since their own times."""
        if not due.any():
            return
        now = self._news.take(due)
        last = np.full(len(self._state.commits.groups), at, np.int64)
        if at == UNKNOWN:
            np.maximum.at(last, now.group, self._effective[due])
        self._news, self._effective = self._news.take(~due), self._effective[~due]
        self._state = replace(self._state, commits=self._state.commits.merged(now))
        self._show(last)

    def _show(self, last: Int64) -> None:
        """Say which groups came or went; `last` is indexed by group: the time of what made it come or go."""
        before, committed = self._visible, self._committed
        self._visible = self._visible_now()
        for number in sorted(before.keys() - self._visible.keys()):
            self._tell_gone(number, before[number], int(last[number]))
        if self._state.racks_at != UNKNOWN:
            # Also of one that read the topic by plan alone: that it has a commit now is news.
            for number in sorted(
                (self._visible.keys() - before.keys()) | (self._committed - committed)
            ):
                self._tell_racks(number, int(last[number]))

    # -- what the observer saw

    def _observe(self, raws: list[Raw]) -> None:
        """Take the records of the topic in their order, as far as the commits that belong to them are read."""
        for index, raw in enumerate(raws):
            record = decode("metadata", raw.key, raw.value)
            place = (f"{raw.topic}/{raw.partition}", raw.offset)
            if isinstance(record, TopicRecord):
                self._read_until(record.at)
                self._lay_out(record, place)
            elif isinstance(record, OffsetsRecord):
                if not self._covers(record.offsets_topic_ends):
                    self._hold(raws[index:])
                    return
                self._read_until(record.at)
                self._sample(record, place)
            else:  # a tombstone: the intake lets nothing else through
                self._read_until(raw.timestamp)
                self._forget(raw.timestamp)
        self._state = replace(self._state, deferred_records=())

    def _covers(self, commits: tuple[int, ...] | None) -> bool:
        """Whether the commits that belong to a sample are read."""
        if commits is None or self._offsets_read is None:
            return True
        return all(self._offsets_read.get(source, end) >= end for source, end in enumerate(commits))

    def _hold(self, raws: list[Raw]) -> None:
        """Keep records for a later batch; of too many the oldest samples are forgotten."""
        spare = len(raws) - MAX_DEFERRED_RECORDS
        kept: list[bytes] = []
        for raw in raws:
            if (
                spare > 0
                and raw.value is not None
                and raw.key is not None
                and raw.key.startswith(b'["offsets"')
            ):
                spare -= 1
            else:
                kept.append(raw.pack())
        self._state = replace(self._state, deferred_records=tuple(kept))

    def _lay_out(self, record: TopicRecord, place: tuple[str, int]) -> None:
        state = self._state
        if state.racks_at != UNKNOWN and record.id == state.id and record.racks != state.racks:
            self._count(
                self._effective <= record.at
            )  # who came before the change is to be told what it was
        self._begin_anew(record.id, record.at)
        self._observed = True
        self._state = replace(
            self._state, racks=record.racks, racks_at=record.at, layout_position=place
        )
        for number in sorted(self._visible):
            self._tell_racks(number, record.at)

    def _tell_racks(self, number: int, told: int) -> None:
        state = self._state
        row = RacksRow(
            topic=self._topic,
            id=state.id,
            at=state.racks_at,
            notified_at=max(told, state.racks_at),
            racks=state.racks,
            source=dict([state.layout_position] if state.layout_position else []),
            committed=number in self._committed,
        )
        self._tell(self._visible[number], Kind.RACKS, row.pack())

    def _sample(self, record: OffsetsRecord, place: tuple[str, int]) -> None:
        state = self._state
        if record.id == state.id:
            told = (
                state.sample_position is not None
                and state.sample_position[0] == place[0]
                and state.sample_position[1] >= place[1]
            )
            if told or 0 <= state.at - record.at < JUMP_MS:
                return  # said already, or late
        self._begin_anew(record.id, record.at)
        self._count_until(record)
        self._observed = True
        self._state = state = _with_sample(self._state, record, place, self._rule)
        readers = {
            group: at
            for group, at in state.planned_readers.items()
            if record.at - at < READER_TTL_MS
        }
        if len(readers) < len(state.planned_readers):
            self._state = replace(self._state, planned_readers=readers)
            self._show(np.full(len(state.commits.groups), record.at, np.int64))
        self._judge()

    def _judge(self) -> None:
        """Tell each group its lag at this sample."""
        if not self._visible:
            return
        self._judged = Lags.of(self._state, self._rule, sorted(self._visible))
        for number, moment in lag_samples(self._topic, self._judged):
            self._tell(self._visible[number], Kind.LAG_SAMPLE, moment.pack())

    def _begin_anew(self, topic_id: str, at: int) -> None:
        """Forget a former topic of this name: its offsets, and the commits that are, or must be, its.

        A commit without an id is the former's unless it came after the last that was seen of that: the coordinator takes
        the commits to a deleted topic back, each with a tombstone, before anybody can commit to the new one.
        """
        state = self._state
        if topic_id == state.id:
            return
        commits = state.commits
        if state.id:
            self._tell_all_gone(at)
            self._keep(state.at + 1 if state.at != UNKNOWN else at, gone=False)
            commits = self._state.commits
        self._state = replace(
            TopicState.empty(),
            id=topic_id,
            commits=commits,
            planned_readers=state.planned_readers,
            last_tombstones=state.last_tombstones,
        )
        self._visible = self._visible_now()

    def _keep(self, since: int, *, gone: bool) -> None:
        """Keep the commits to other topics of this name, and those without an id that came since then.

        Of a topic that is gone those to itself, too, that came since then: it may only have been out of sight.
        """
        state = self._state

        def kept(commits: CommitTable, young: Mask) -> Mask:
            others = (commits.topic_id >= 0) & ~commits.of_topic(state.id)
            return others | (young if gone else young & (commits.topic_id < 0))

        # What no sample of the former topic has counted came after the last of them, whatever its clock says.
        by_cut = state.exact_cut and state.at != UNKNOWN and not gone
        news, commits = self._news, state.commits
        stays = kept(news, np.ones(news.at.size, np.bool_) if by_cut else news.at >= since)
        self._news, self._effective = news.take(stays), self._effective[stays]
        counted = np.zeros(commits.at.size, np.bool_) if by_cut else commits.at >= since
        self._state = replace(state, commits=commits.take(kept(commits, counted)))

    def _forget(self, at: int) -> None:
        """The topic is no more."""
        self._tell_all_gone(at)
        self._keep(at + 1, gone=True)
        self._state = replace(
            TopicState.empty(),
            commits=self._state.commits,
            planned_readers={
                group: since for group, since in self._state.planned_readers.items() if since > at
            },
            last_tombstones=self._state.last_tombstones,
        )
        self._visible = self._visible_now()

    def _tell_all_gone(self, at: int) -> None:
        """To all that may have been told of the topic: those with commits that no sample has counted, too.

        Who has commits to what comes after it is told of that as of its first sample.
        """
        for number in sorted(self._visible.keys() | set(self._news.group.tolist())):
            self._tell_gone(number, self._state.commits.groups[number], at)


def _groups(state: TopicState) -> tuple[frozenset[int], dict[int, str]]:
    """The numbers of the groups with a commit that may be of this topic; these, and those that read it by plan, by number."""
    commits, readers = state.commits, state.planned_readers
    by_plan = [n for n, name in enumerate(commits.groups) if name in readers] if readers else []
    mine = commits.group[commits.of_topic(state.id)] if state.id else commits.group
    committed = frozenset(used([mine], len(commits.groups)).tolist())
    return committed, {
        number: commits.groups[number] for number in sorted(committed.union(by_plan))
    }


def _with_sample(
    state: TopicState, record: OffsetsRecord, place: tuple[str, int], rule: LagRule
) -> TopicState:
    """With a sample more, which counts the commits that the state has."""
    read = np.array(record.stable if rule.end_kind == "stable" else record.high, np.int64) >= 0
    data = (
        np.full(read.size, UNKNOWN, np.int64)
        if record.data_end is None
        else np.array(record.data_end, np.int64)
    )
    state = replace(
        state,
        at=record.at,
        begin=_newest(state.begin, np.array(record.begin, np.int64)),
        stable=_newest(state.stable, np.array(record.stable, np.int64)),
        high=_newest(state.high, np.array(record.high, np.int64)),
        data_end=np.where(read, data, _newest(state.data_end, data)),
        end_read_at=_newest(state.end_read_at, np.where(read, record.at, UNKNOWN)),
        sample_position=place,
        exact_cut=record.offsets_topic_ends is not None,
    )
    end = sampled_end(state, rule)
    state = replace(state, history=state.history.with_sample(record.at, end))
    baselines = tuple(
        mark for mark in state.baselines if mark.at < record.at
    )  # a clock may be set back
    if (
        len(baselines) < len(state.baselines)
        or not baselines
        or record.at - baselines[-1].at >= WINDOW
    ):
        baselines = (*baselines, Baseline(at=record.at, end=end))[-2:]
        state = replace(state, commits=state.commits.with_new_baseline())
    return replace(state, baselines=baselines)


def _newest(known: Int64, read: Int64) -> Int64:
    """What was read, and what was known before where nothing could be."""
    before = np.full(read.size, UNKNOWN, np.int64)
    before[: known.size] = known[: read.size]
    return np.where(read < 0, before, read)
