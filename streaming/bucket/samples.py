"""Samples and published lag of a bucket's groups, applied to its columns.

What `group.update` does with a sample, done for all groups of a topic at once. A group is *singled
out* where more is to be done than that: where a sample or lag shows another state of reading than
the columns do, where a trigger is raised or cleared, and where a group may have expired. The
columns of such a group are not used, and its batch is applied by `group.update`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from levelwind.assignors.problem.columns import starts
from levelwind.assignors.problem.drain import sum_by_member
from levelwind.streaming.bucket import skew_columns, speed_columns
from levelwind.streaming.bucket.state import BucketState, OwnerText, ranges
from levelwind.streaming.group.update import TTL_MS
from levelwind.streaming.messages.lag_json import Claim, local_field
from levelwind.streaming.messages.own_fields import OwnColumns, shared_texts
from levelwind.streaming.rules.event_time import JUMP_MS, UNKNOWN
from levelwind.streaming.rules.skew import longest_silence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from levelwind.assignors.protocol.records import SpeedRecord, Tombstone
    from levelwind.streaming.messages.lag_columns import LagRows, LagSamples
    from levelwind.streaming.messages.lag_json import SharedFields
    from levelwind.streaming.messages.own_fields import Texts
    from levelwind.streaming.rules.event_time import Floats, Int64, Mask
    from levelwind.streaming.rules.skew import SkewRule


JOINT_CELLS = 2**20
"""Partitions of lag records that are written together: a column of text ends at 2 GiB."""


class PublishedLags(NamedTuple):
    """Lag records of groups."""

    groups: Sequence[str]
    topics: Sequence[str]
    values: Sequence[bytes]


class _Rows(NamedTuple):
    """Rows of a `LagSamples` or `LagRows` with the groups and entries that they are about."""

    row: Int64
    group: Int64
    entry: Int64
    """-1: the row says nothing of what the group reads, for which time alone passes."""

    def where(self, mask: Mask) -> _Rows:
        if mask.all():
            return self
        return self.take(mask)

    def take(self, rows: Int64 | Mask) -> _Rows:
        return _Rows(self.row[rows], self.group[rows], self.entry[rows])


class _Logs(NamedTuple):
    """The number in the bucket of each log of a `LagSamples`; the last item is -1, for none."""

    commit: Int64
    sample: Int64


def in_rounds(samples: Sequence[LagSamples], rows: Sequence[_Rows]) -> Iterator[tuple[int, _Rows]]:
    """The rows of some samples in the order in which they take effect.

    They come in rounds: a group has one row of a round at most, its earlier ones in earlier rounds.
    Groups do not depend on each other, so that a round is applied at once, in a part for each
    `LagSamples`, given by its index.
    """
    rank = {name: n for n, name in enumerate(sorted({t for part in samples for t in part.topics}))}
    part = np.repeat(np.arange(len(rows)), [of_part.row.size for of_part in rows])
    if not part.size:
        return
    group = np.concatenate([of_part.group for of_part in rows])
    topics = [p.topic[r.row] for p, r in zip(samples, rows, strict=True)]
    at = np.concatenate([p.at[t] for p, t in zip(samples, topics, strict=True)])
    ranks = [np.array([rank[name] for name in p.topics]) for p in samples]
    topic = np.concatenate([r[t] for r, t in zip(ranks, topics, strict=True)])
    order = np.lexsort((topic, at, group))
    first = np.flatnonzero(np.diff(group[order], prepend=UNKNOWN))
    of_round = np.empty(group.size, np.int64)
    of_round[order] = np.arange(group.size) - np.repeat(first, np.diff(first, append=group.size))
    place = np.concatenate([np.arange(of_part.row.size) for of_part in rows])
    code = of_round * len(rows) + part
    order = np.argsort(code, kind="stable")
    bounds = np.flatnonzero(np.diff(code[order], prepend=UNKNOWN, append=UNKNOWN))
    for begin, end in pairwise(bounds.tolist()):
        some = order[begin:end]
        number = int(part[some[0]])
        yield number, rows[number].take(place[some])


class ColumnUpdate:
    """One batch of a bucket: `apply` its samples in order, then `publish` its lag."""

    def __init__(self, state: BucketState, rule: SkewRule) -> None:
        self.state = state
        self.singled_out = np.zeros(len(state.groups), np.bool_)
        """By group, whether its batch is to be applied by `group.update`."""
        self.unknown: set[str] = set()
        """Groups that the batch names and the bucket does not know."""
        self.changed = False
        """Whether a sample was applied."""
        self._rule = rule
        self._number = {group: number for number, group in enumerate(state.groups)}
        self._numbers: dict[tuple[str, ...], Int64] = {}
        """By the groups of a row, which are often those of the next: their numbers."""
        self._topic = {topic: number for number, topic in enumerate(state.topics)}
        codes = state["topic"].astype(np.int64) * len(state.groups) + state.group
        self._by_code = np.argsort(codes)
        """Entries in the order of their topics and groups."""
        self._codes = codes[self._by_code]
        """The topic and group of each of these: the topic's number times the groups, and theirs."""
        self._logs = {log: number for number, log in enumerate(state.logs)}
        self._touched = np.zeros(len(state.groups), np.bool_)
        """By group, whether it has a sample or lag in the batch."""
        self._published: list[tuple[LagRows, _Rows]] = []
        self._member_lag: Floats | None = None
        """Lag by owner; None until a group with owners is evaluated."""
        self._member_rate: Floats = np.zeros(0)
        """Rate by owner, valid where `_member_lag` is."""
        self._learning = speed_columns.learning_groups(state)
        """By group, whether a member has been behind, and is not forgotten yet."""
        self._speeds: dict[int, SpeedRecord | Tombstone] = {}
        """By group, the newest speeds to publish."""

    def single_out(self, group: str) -> None:
        """Leave a group to `group.update`."""
        number = self._number.get(group)
        if number is None:
            self.unknown.add(group)
        else:
            self.singled_out[number] = True

    def apply(self, samples: Sequence[LagSamples], lags: Sequence[LagRows]) -> None:
        """Apply a batch: its samples in order, and what its lag says of the topics that are read.

        Afterwards it is final which groups are singled out.
        """
        sampled = [self._rows_of(part, cells=part.lag.shape[1]) for part in samples]
        published = [self._rows_of(part) for part in lags]
        if sampled:
            self.state = self.state.with_own_samples()
        logs = [self._log_numbers(part) for part in samples]
        for number, rows in in_rounds(samples, sampled):
            of_part = samples[number], logs[number]
            self._apply_sample(*of_part, rows.where(~self.singled_out[rows.group]))
        self.state = replace(self.state, logs=tuple(self._logs))
        self._published = [
            (part, rows.where(rows.entry >= 0)) for part, rows in zip(lags, published, strict=True)
        ]
        self._single_out_expired()

    def publish(self) -> Iterator[PublishedLags]:
        """The lag records of the groups that are not singled out."""
        parts: list[tuple[LagRows, _Rows]] = []
        cells = 0
        for part, all_rows in self._published:
            rows = all_rows.where(~self.singled_out[all_rows.group])
            if rows.row.size:
                parts.append((part, rows))
                cells += rows.row.size * part.partitions
            if cells >= JOINT_CELLS:
                yield self._lags(parts)
                parts, cells = [], 0
        if parts:
            yield self._lags(parts)

    def _lags(self, parts: Sequence[tuple[LagRows, _Rows]]) -> PublishedLags:
        """The lag records of some topics."""
        own = OwnColumns.concat([part.own.take(rows.row) for part, rows in parts])
        of_topics = [shared for part, _ in parts for shared in part.shared]
        counts = [len(part.topics) for part, _ in parts]
        topic = np.concatenate([part.topic[rows.row] for part, rows in parts])
        topic = topic + np.repeat(starts(counts)[:-1], [rows.row.size for _, rows in parts])
        shared = shared_texts(of_topics, topic)
        owner_text = np.concatenate([self._owner_text(part, rows) for part, rows in parts])
        local, members = self._owner_fields(of_topics, topic, owner_text)
        entries = np.concatenate([rows.entry for _, rows in parts])
        claims = self.state.claim[owner_text]
        by_plan = self.state["planned"][entries] & (claims == Claim.COMMITTED)
        claims = np.where(by_plan, Claim.ALL, claims)
        values = own.records(shared, local, members, claims)
        groups = np.concatenate([rows.group for _, rows in parts]).tolist()
        topics = [name for part, _ in parts for name in part.topics]
        return PublishedLags(
            groups=list(map(self.state.groups.__getitem__, groups)),
            topics=list(map(topics.__getitem__, topic.tolist())),
            values=values,
        )

    def _owner_fields(
        self, of_topics: Sequence[SharedFields], topic: Int64, owner_text: Int64
    ) -> tuple[Texts, Texts]:
        """For each row, the field `local` of its lag record, and those that name its owners."""
        texts = (*self.state.owner_texts, OwnerText("", "", Claim.COMMITTED))
        none = len(texts) - 1
        if not none:
            return "", ""
        number = np.where(owner_text == UNKNOWN, none, owner_text)
        fields = pa.array([text.fields for text in texts]).take(pa.array(number))
        if not any(text.racks for text in texts):
            return "", fields
        pairs, index = np.unique(topic * len(texts) + number, return_inverse=True)
        local = [
            local_field(of_topics[of_pair].racks, texts[of_owners].fields, racks)
            if (racks := texts[of_owners].racks)
            else ""
            for of_pair, of_owners in (divmod(pair, len(texts)) for pair in pairs.tolist())
        ]
        return pa.array(local, pa.string()).take(pa.array(index)), fields

    def _owner_text(self, part: LagRows, rows: _Rows) -> Int64:
        """For each row, the text of the owners at its sample; -1: none, or the sample is outdated.

        Until the next sample members may have come, or got other partitions.
        """
        state, entry = self.state, rows.entry
        at_sample = np.where(
            state["owners_valid"][entry],
            state["owner_text"][entry],
            state["former_owner_text"][entry],
        )
        return np.where(self._at_sample(part, rows), at_sample, UNKNOWN)

    def speeds(self) -> list[SpeedRecord | Tombstone]:
        """The records of speeds of the groups that are not singled out."""
        return [record for group, record in self._speeds.items() if not self.singled_out[group]]

    # -- rows and entries

    def _rows_of(self, part: LagSamples | LagRows, cells: int | None = None) -> _Rows:
        """The rows that agree with the columns; the groups of the other rows are singled out.

        Args:
            part: the rows.
            cells: the number of partitions that they show; None: any.
        """
        state = self.state
        number = self._numbers_of(part.groups)[part.group]
        committed = part.committed_at != UNKNOWN
        # One that has been silent for so long would be dropped at once, with each sample anew.
        alive = committed & (part.at[part.topic] - part.committed_at <= TTL_MS)
        unknown = np.unique(part.group[(number < 0) & alive])
        self.unknown.update([part.groups[group] for group in unknown.tolist()])
        entry = self._entries(part, number)
        fits = (number >= 0) & (entry >= 0)
        if state["topic"].size:
            uncommitted = state["planned"][entry] | state["joined"][entry]
            fits &= (committed == state["committed"][entry]) & (committed | uncommitted)
            if cells is not None:
                fits &= state["cells"][entry] == cells
        known = number >= 0
        # Groups whose members have left are sent their lag for a while.
        unread = known & (entry < 0) & ~committed
        unread[known] &= ~state["awaits"][number[known]]
        self.singled_out[number[~fits & ~unread & known]] = True
        row = np.flatnonzero(fits | unread)
        self._touched[number[row]] = True
        return _Rows(row, number[row], np.where(fits, entry, UNKNOWN)[row])

    def _numbers_of(self, groups: tuple[str, ...]) -> Int64:
        """The number of each group; -1: the bucket does not know it."""
        if (numbers := self._numbers.get(groups)) is None:
            numbers = np.array([self._number.get(group, UNKNOWN) for group in groups], np.int64)
            self._numbers[groups] = numbers
        return numbers

    def _entries(self, part: LagSamples | LagRows, group: Int64) -> Int64:
        """By row, the entry of its group, given by number, and its topic; -1: there is none."""
        numbers = [self._topic.get(topic, UNKNOWN) for topic in part.topics]
        topic = np.array(numbers, np.int64)[part.topic]
        entries = np.full(group.size, UNKNOWN, np.int64)
        known = np.flatnonzero((topic >= 0) & (group >= 0))
        if known.size and self._codes.size:
            code = topic[known] * len(self.state.groups) + group[known]
            place = np.minimum(np.searchsorted(self._codes, code), self._codes.size - 1)
            found = self._codes[place] == code
            entries[known[found]] = self._by_code[place[found]]
        return entries

    def _at_sample(self, part: LagRows, rows: _Rows) -> Mask:
        """Whether the entry's sample is that of the published lag."""
        state = self.state
        same_size = state["cells"][rows.entry] == part.partitions
        same: Mask = same_size & (state["at"][rows.entry] == part.at[part.topic[rows.row]])
        return same

    # -- samples

    def _apply_sample(self, samples: LagSamples, logs: _Logs, rows: _Rows) -> None:
        """Apply a sample of each of some groups."""
        self._evaluate_before(rows.group, samples.at[samples.topic[rows.row]])
        rows = rows.where((rows.entry >= 0) & ~self.singled_out[rows.group])
        state = self.state
        age = state["at"][rows.entry] - samples.at[samples.topic[rows.row]]
        late = (age >= 0) & (age < JUMP_MS)
        row, group, entry = rows.where(~late)
        if not row.size:
            return
        self.changed = True
        topic = samples.topic[row]
        at = samples.at[topic]
        self._take_in_commits(samples, row, group, entry)
        self._replace_lag(samples.lag[row], samples.rate[topic], group, entry)
        state["at"][entry] = at
        state["seconds"][entry] = samples.seconds[row]
        state["committed_at"][entry] = samples.committed_at[row]
        state["commit_log"][entry] = logs.commit[samples.commit_log[row]]
        state["commit_position"][entry] = samples.commit_position[row]
        state["sample_log"][entry] = logs.sample[samples.sample_log[topic]]
        state["sample_position"][entry] = samples.sample_position[topic]
        state["owners_valid"][entry] = True
        newest = state["sampled_at"][group]
        set_back = newest - at >= JUMP_MS
        state["sampled_at"][group] = np.where(set_back, at, np.maximum(newest, at))

    def _log_numbers(self, samples: LagSamples) -> _Logs:
        return _Logs(
            *(
                np.array(
                    [*(self._logs.setdefault(name, len(self._logs)) for name in names), UNKNOWN]
                )
                for names in (samples.commit_logs, samples.sample_logs)
            )
        )

    def _take_in_commits(self, samples: LagSamples, row: Int64, group: Int64, entry: Int64) -> None:
        """Count commits for the speeds of members, where one is behind or a window is open."""
        if not samples.stepped.size:
            return
        step = np.minimum(np.searchsorted(samples.stepped, row), samples.stepped.size - 1)
        is_behind = (samples.behind_at != UNKNOWN).any(axis=1)[step]
        learns = (is_behind | self._learning[group]) & (self.state["owners"][group] > 0)
        learns &= samples.stepped[step] == row
        if learns.any():
            group, entry, step = group[learns], entry[learns], step[learns]
            self._learning[group] = True
            advance, behind_at = samples.advance[step], samples.behind_at[step]
            speed_columns.take_in_commits(self.state, group, entry, advance, behind_at)

    def _replace_lag(self, lag: Int64, rate: Int64, group: Int64, entry: Int64) -> None:
        """Replace lag and rate of some entries, all of the same number of partitions."""
        state = self.state
        cells = state.first_cell[entry][:, None] + np.arange(lag.shape[1])
        if self._member_lag is not None:
            owners = self._member_lag.size
            claims = ranges(state.first_claim[entry], state["claims"][entry])
            row = np.repeat(np.arange(entry.size), state["claims"][entry])
            partition = state["cell"][claims]
            owner = state.first_owner[group[row]] + state["owner"][claims]
            more = (lag - state["lag"][cells])[row, partition]
            faster = (rate - state["rate"][cells])[row, partition]
            self._member_lag += sum_by_member(more, owner, owners)
            self._member_rate += sum_by_member(faster, owner, owners)
        state["lag"][cells] = lag
        state["rate"][cells] = rate

    # -- skew

    def _evaluate_before(self, groups: Int64, at: Int64) -> None:
        """Evaluate the groups' newest samples for skew, as `GroupUpdate` does before an event.

        Args:
            groups: indices of the groups, each once.
            at: the time of the event, by group.
        """
        state = self.state
        sampled_at = state["sampled_at"][groups]
        due = (sampled_at != UNKNOWN) & (at > sampled_at)
        due &= state["evaluated_at"][groups] != sampled_at
        groups = groups[due]
        if not groups.size:
            return
        self.changed = True
        learning = groups[self._learning[groups]]
        if learning.size:
            self._publish_speeds(speed_columns.evaluate(state, learning))
        counts, ready = np.zeros((2, groups.size), np.bool_)
        assigned = state["assigned"][groups]
        if assigned.any():
            counts[assigned], ready[assigned] = skew_columns.judge(
                state, groups[assigned], *self._work_by_owner(), self._rule
            )
        at_sample = state["sampled_at"][groups]
        before, since, active = (
            state[name][groups] for name in ("evaluated_at", "since", "active")
        )
        silence = at_sample - before
        longest = longest_silence(self._rule)
        silent = (before != UNKNOWN) & ((silence < 0) | (silence > longest))
        begun = np.where((since == UNKNOWN) | (silent & ~active), at_sample, since)
        lasted = ready & (at_sample - begun >= self._rule.duration_ms)
        after = counts & (active | lasted)
        self.singled_out[groups[after != active]] = True  # a trigger is raised or cleared
        state["since"][groups] = np.where(counts, begun, UNKNOWN)
        state["evaluated_at"][groups] = at_sample

    def _publish_speeds(self, groups: Int64) -> None:
        """Publish the speeds of some groups with their newest samples."""
        whole = self.state["speeds_whole"][groups]
        self.singled_out[groups[~whole]] = True
        for group in groups[whole].tolist():
            self._speeds[group] = speed_columns.published(self.state, group)

    def _work_by_owner(self) -> tuple[Floats, Floats]:
        """Records that wait, and the rate, of each owner of the bucket: whole numbers."""
        if self._member_lag is None:
            state = self.state
            claims = state["claims"]
            cell = np.repeat(state.first_cell[:-1], claims) + state["cell"]
            owner = np.repeat(state.first_owner[state.group], claims) + state["owner"]
            owners = int(state.first_owner[-1])
            self._member_lag = sum_by_member(state["lag"][cell], owner, owners)
            self._member_rate = sum_by_member(state["rate"][cell], owner, owners)
        return self._member_lag, self._member_rate

    # -- groups that end

    def _single_out_expired(self) -> None:
        """Single out the groups without members from which no sign of life is known for long."""
        state = self.state
        now, sign_of_life = state["sampled_at"].copy(), state["last_record_at"].copy()
        for part, (row, group, _) in self._published:
            np.maximum.at(now, group, part.at[part.topic[row]])
            np.maximum.at(sign_of_life, group, part.committed_at[row])
        silent = self._touched & ~self.singled_out & (state["owners"] == 0)
        silent &= now - sign_of_life > TTL_MS
        for number in np.flatnonzero(silent).tolist():
            entries = slice(*state.first_entry[number : number + 2].tolist())
            committed_at = state["committed_at"][entries].max(initial=UNKNOWN)
            self.singled_out[number] |= now[number] - committed_at > TTL_MS
