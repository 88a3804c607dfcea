"""Update of a topic's state by a batch: a pure function of the state and the batch's rows.

A sample is a cut through all logs at one time: the end offsets of the topic's partitions and of the
offsets topic. A group's lag at a sample counts the commits below the cut and no other, however the
input is cut into batches. Commits beyond the cut wait in the state for the next sample. A sample
whose commits have not all been read waits, with all later records of its log, for the batch that
brings them. So a pipeline that reads a backlog, with one topic far ahead of another, raises the
same triggers as one that keeps pace. Three limits:

- More than `MAX_DEFERRED_RECORDS` records do not wait: the oldest samples among them are dropped,
  as if never taken.
- With more than `UNCOUNTED_MARGIN` uncounted commits beyond the number of counted ones, all are
  counted early: an old sample may then find less lag than there was, never more.
- Of a group's commits to a partition within one bucket of time (`ingest.BUCKET_MS`) only the last
  may arrive here: a cut between two of them may count the earlier one or the one before both.

A layout with other racks counts the commits up to its time, since the groups that came before it
must know the former racks. A sample without the end offsets of the offsets topic counts the commits
up to its time that have been read by then. Commits after such a sample count when their batch ends:
a group that deletes its last commit and commits again before the next sample counts as gone in
between only if a batch ended there.

The published lag is that of the last sample, with all commits that have been read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from levelwind.assignors.protocol.records import OffsetsRecord, TopicRecord
from levelwind.streaming.messages.buckets import DEFAULT_BUCKETS
from levelwind.streaming.messages.rows import Raw, Row
from levelwind.streaming.rules.event_time import UNKNOWN, agreed_time
from levelwind.streaming.topic import recreation, sampling
from levelwind.streaming.topic.batch import ReadRecord
from levelwind.streaming.topic.commit_table import used
from levelwind.streaming.topic.lag.commit_cells import LagRequest
from levelwind.streaming.topic.lag.commit_steps import SampleRequest
from levelwind.streaming.topic.lag.lag_rows import PublishedRequest, TopicRequests
from levelwind.streaming.topic.readers import Readers, detached_row, racks_row
from levelwind.streaming.topic.replays import (
    applicable_commits,
    applicable_records,
    newest_tombstones,
)
from levelwind.streaming.topic.state import READER_TTL_MS, TopicState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.streaming.messages.rows import PlanCovers
    from levelwind.streaming.messages.topic_columns import TopicCommits
    from levelwind.streaming.rules.event_time import Int64, Mask
    from levelwind.streaming.topic.batch import TopicBatch
    from levelwind.streaming.topic.state import LagRule, LogPosition


def advance(
    topic: str,
    state: TopicState | None,
    batch: TopicBatch,
    rule: LagRule,
    offsets_read: Mapping[int, int] | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> tuple[TopicState | None, list[Row], TopicRequests]:
    """The state after a batch, None if nothing is left to keep, and the rows for the groups.

    Their lag is only asked for: `joint_update.advance_all` computes that of many topics together.

    Args:
        topic: the topic's name.
        state: the state before; None: there is none yet.
        batch: the batch's rows of the topic.
        rule: the settings of lag.
        offsets_read: by partition of the offsets topic, the offset that this batch is read to;
            None: not known, commits are taken to be read as far as the samples.
        buckets: the number of buckets that the groups are in.
    """
    update = TopicUpdate(topic, state or TopicState.empty(), rule, batch.plans, buckets)
    update.add_commits(batch.commits, batch.replayed_commits)
    update.observe(batch.records, offsets_read)
    return update.finish()


class TopicUpdate:
    """One batch of one topic while it is applied: the state so far, and the rows for the groups.

    Values of the state are replaced and never changed. Results that are derived from a state
    (`readers`, the lag at the last sample) are kept with the values that they were derived from,
    and computed again once the state has other values.
    """

    def __init__(
        self,
        topic: str,
        state: TopicState,
        rule: LagRule,
        plans: Iterable[PlanCovers],
        buckets: int,
    ) -> None:
        self._topic = topic
        self._rule = rule
        self._buckets = buckets
        self._plans = list(plans)
        """Plans that have not taken effect yet, the newest first."""
        readers = (*state.planned_readers, *(plan.group for plan in self._plans))
        self._state = replace(state, commits=state.commits.with_groups(readers))
        self._rows: list[Row] = []
        self._readers: Readers | None = None
        self._samples: list[SampleRequest] = []
        """For each sample of the batch, the lag of all readers that is asked for."""
        self._published: PublishedRequest | None = None
        self._observed = False
        """Whether the batch brought a layout or a sample, which concern all readers."""
        self._news_at: dict[int, int] = {}
        """By number of each group that the batch brought commits or plans of: the time of its last
        commit; without a commit, of its first plan."""
        self._detached: set[int] = set()
        """The numbers of the groups for which a `Detached` row was written."""

    def add_commits(self, batches: Sequence[TopicCommits], replays: Sequence[TopicCommits]) -> None:
        """Append the batch's commits, and replayed ones that still apply, to those that wait."""
        state = self._state
        applicable, ended = applicable_commits(replays, batches, state, self._rule.commits_topic)
        self._rows += ended
        numbered, news = state.commits.numbered([*batches, *applicable])
        last = np.full(len(numbered.groups), UNKNOWN, np.int64)
        last[news.group] = news.at  # of several of a group the last in the log stays
        groups = used([news.group], len(numbered.groups))
        self._news_at.update(zip(groups.tolist(), last[groups].tolist(), strict=True))
        self._state = replace(
            state,
            commits=numbered,
            uncounted_commits=state.uncounted_commits.followed_by(news),
            last_tombstones=newest_tombstones(batches, state.last_tombstones),
        )

    def observe(
        self, records: Sequence[ReadRecord], offsets_read: Mapping[int, int] | None
    ) -> None:
        """Apply the observer's records in order, up to the first sample that is not complete.

        A sample is complete once all commits that belong to it have been read.
        """
        deferred = [ReadRecord(Raw.unpack(payload)) for payload in self._state.deferred_records]
        applicable, ended = applicable_records(records, self._state)
        self._rows += ended
        read = [*deferred, *applicable]
        self._state = replace(self._state, deferred_records=())
        for index, (raw, _) in enumerate(read):
            record = read[index].record
            position = (f"{raw.topic}/{raw.partition}", raw.offset)
            if isinstance(record, TopicRecord):
                self._apply_plans(record.at)
                self._apply_layout(record, position)
            elif isinstance(record, OffsetsRecord):
                if not sampling.complete(record, offsets_read):
                    waiting = sampling.deferred([raw for raw, _ in read[index:]])
                    self._state = replace(self._state, deferred_records=waiting)
                    return
                self._apply_plans(record.at)
                self._apply_sample(record, position)
            else:  # a tombstone
                self._apply_plans(raw.timestamp)
                if not self._state.gone:
                    self._detach_all(raw.timestamp)
                self._state = recreation.deleted(self._state, raw.timestamp)

    def finish(self) -> tuple[TopicState | None, list[Row], TopicRequests]:
        """The state after the batch, None if it holds nothing to keep, and the rows for groups.

        Then the lag that is asked for, for further rows.
        """
        self._apply_plans(None)
        if not self._state.exact_cut or sampling.too_many_uncounted(self._state):
            self._count(np.ones(self._state.uncounted_commits.code.size, np.bool_))
        self._publish_lag()
        if self._state.gone:
            self._state = recreation.without_ended_commits(self._state)
        state = self._state.compact()
        requests = TopicRequests(samples=tuple(self._samples), published=self._published)
        return (None if state.blank else state), self._rows, requests

    @property
    def readers(self) -> Readers:
        """The groups that read the topic as of the present state."""
        if self._readers is None or not self._readers.valid_for(self._state):
            self._readers = Readers.of(self._state)
        return self._readers

    # -- plans and commits

    def _apply_plans(self, until: int | None) -> None:
        """Let the plans up to a time take effect; None: all.

        The racks are sent to each plan's group, whose state may have dropped them.
        """
        due: list[PlanCovers] = []
        while self._plans and (until is None or self._plans[-1].at <= until):
            due.append(self._plans.pop())
        if not due:
            return
        readers = dict(self._state.planned_readers)
        newest = max(self._state.at, agreed_time(readers.values()))
        for plan in due:
            known = readers.get(plan.group, UNKNOWN)
            # An older record, as a replay, makes no group older, unless the known time is far ahead
            # of all others, and this one is not.
            is_ahead = newest != UNKNOWN and known - newest >= READER_TTL_MS
            mends = is_ahead and abs(plan.at - newest) < READER_TTL_MS
            readers[plan.group] = plan.at if mends else max(plan.at, known)
        self._state = replace(self._state, planned_readers=readers)
        numbers = {group: number for number, group in enumerate(self._state.commits.groups)}
        for plan in due:
            self._news_at.setdefault(numbers[plan.group], plan.at)
            self._announce_racks([numbers[plan.group]], plan.at)
        # No sample comes of a topic that does not exist, or that the observer does not see. There
        # new readers take the old ones away: the tombstone of a group names no topic. Times ahead
        # of theirs, which wrong clocks may have left, do not count.
        now = min(due[-1].at, agreed_time(readers.values()))
        if now - self._state.at >= READER_TTL_MS:
            self._expire_readers(now, now)

    def _expire_readers(self, now: int, at: int) -> None:
        """Forget the groups that read the topic by plan alone, and whose last plan is too old.

        Args:
            now: the time by which it is, on which two records agree.
            at: the time at which they leave.
        """
        before = self.readers
        self._state = sampling.without_expired_readers(self._state, now)
        self._announce_changes(before, self._at_all_groups(at))

    def _count(self, rows: Mask, at: int | None = None) -> None:
        """Count some of the commits that wait.

        Args:
            rows: which ones.
            at: the time at which groups come or go by these commits; None: for each group, the
                time at which its last one takes effect.
        """
        if not rows.any():
            return
        before, uncounted = self.readers, self._state.uncounted_commits
        changed_at = self._at_all_groups(UNKNOWN if at is None else at)
        if at is None:
            np.maximum.at(changed_at, uncounted.group[rows], uncounted.effective_at[rows])
        self._state = sampling.counted(self._state, rows)
        self._announce_changes(before, changed_at)

    def _at_all_groups(self, at: int) -> Int64:
        """One time for all groups, as a column by number of the group."""
        return np.full(len(self._state.commits.groups), at, np.int64)

    # -- records of the observer

    def _apply_layout(self, record: TopicRecord, position: LogPosition) -> None:
        state = self._state
        if state.racks_at != UNKNOWN and record.id == state.id and record.racks != state.racks:
            # Groups that came before the change must know the former racks.
            self._count(state.uncounted_commits.effective_at <= record.at)
        self._apply_topic_id(record.id, record.at)
        self._observed = True
        self._state = replace(
            self._state, racks=record.racks, racks_at=record.at, layout_position=position
        )
        self._announce_racks(self.readers.names, record.at)

    def _apply_sample(self, record: OffsetsRecord, position: LogPosition) -> None:
        if sampling.outdated(self._state, record, position):
            return
        self._apply_topic_id(record.id, record.at)
        rows = sampling.before_sample(self._state.uncounted_commits, record)
        self._count(rows, None if record.offsets_topic_ends is None else record.at)
        self._observed = True
        sampled_before = self._state.at
        previous_at = sampled_before if self._state.exact_cut else UNKNOWN
        self._state = sampling.sampled(self._state, record, position, self._rule)
        self._expire_readers(min(sampled_before, record.at), record.at)
        sampled, commits = self._state.commits.sampled, self._state.commits.with_sample()
        self._state = replace(self._state, commits=commits)
        self._publish_samples(sampled, previous_at)

    def _apply_topic_id(self, topic_id: str, at: int) -> None:
        """Forget the former topic of this name if a record has another topic id.

        A topic that comes back under its own id goes on with its commits.
        """
        if topic_id == self._state.id:
            if self._state.gone:
                self._state = recreation.returned(self._state)
            return
        if self._state.id and not self._state.gone:
            self._detach_all(at)
        self._state = recreation.recreated(self._state, topic_id, at, polled=self._rule.polled)

    # -- rows for the groups

    def _announce_racks(self, numbers: Iterable[int], at: int) -> None:
        """Send the racks to some readers; nothing is sent before the first layout."""
        if self._state.racks_at != UNKNOWN:
            self._rows += [
                racks_row(self._topic, self._state, self.readers, number, at, self._buckets)
                for number in numbers
            ]

    def _announce_changes(self, before: Readers, changed_at: Int64) -> None:
        """Notify the groups that came to read the topic, or left it, since a former state.

        Args:
            before: the readers then.
            changed_at: by number of the group, the time of what made it come or go.
        """
        after = self.readers
        if after is before:
            return
        for number in before.left(after):
            self._detach(number, before.names[number], int(changed_at[number]))
        for number in before.came(after):
            self._announce_racks([number], int(changed_at[number]))

    def _detach(self, number: int, group: str, at: int) -> None:
        self._detached.add(number)
        self._rows.append(detached_row(self._topic, group, at, self._buckets))

    def _detach_all(self, at: int) -> None:
        """Detach all groups that may know of the topic.

        The lag of groups with uncounted commits may be published, so they are detached, too. A
        group with commits to the recreated topic learns of that topic at its first sample.
        """
        uncounted = set(self._state.uncounted_commits.group.tolist())
        # After the last sample, whichever clock the time of the topic's end is by.
        after = max(at, self._state.at + 1)
        for number in sorted(self.readers.names.keys() | uncounted):
            self._detach(number, self._state.commits.groups[number], after)

    def _publish_samples(self, sampled: Int64, previous_at: int) -> None:
        """Send each reader its lag at the sample that was just applied, and its steps before."""
        if numbers := list(self.readers.names):
            lag = LagRequest(topic=self._topic, state=self._state, numbers=numbers)
            self._samples.append(SampleRequest(lag=lag, sampled=sampled, previous_at=previous_at))

    def _publish_lag(self) -> None:
        """Send the lag, with all commits read, to the readers that the batch concerns.

        A layout or a sample concerns all readers, a commit or a plan only its group.
        """
        shown = sampling.counted(self._state)
        readers = self.readers if shown is self._state else Readers.of(shown)
        names = readers.names
        numbers = list(names) if self._observed else sorted(names.keys() & self._news_at.keys())
        if numbers and shown.at != UNKNOWN and not shown.gone:
            lag = LagRequest(topic=self._topic, state=shown, numbers=numbers)
            if self._samples and lag.equals(self._samples[-1].lag):
                lag = self._samples[-1].lag
            self._published = PublishedRequest(lag=lag, sampled=self._state)
        # An earlier batch may have published the lag of groups that came and went before a sample
        # counted them.
        departed = self._news_at.keys() - names.keys() - self._detached
        for number in sorted(departed - self.readers.names.keys() if departed else departed):
            self._detach(number, self._state.commits.groups[number], self._news_at[number])
