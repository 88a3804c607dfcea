"""Update of the states of several topics by plain batches, in columns of all topics.

Each topic's state is as `topic.update` leaves it: a sample counts the commits below its cut, and
the lag of all readers is asked for; without a sample that of the groups that have committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic import sampling
from levelwind.streaming.topic.lag.commit_cells import LagRequest
from levelwind.streaming.topic.lag.commit_steps import SampleRequest
from levelwind.streaming.topic.lag.lag_rows import PublishedRequest, TopicRequests
from levelwind.streaming.topic.plain.joint_commits import JointTable, WaitingCommits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.streaming.topic.commit_table import CommitTable
    from levelwind.streaming.topic.plain.plain_batch import AppliedSample, PlainBatch
    from levelwind.streaming.topic.state import LagRule, TopicState


class Updated(NamedTuple):
    """A topic's state after a batch, and the lag that is asked for."""

    state: TopicState
    requests: TopicRequests


def advance_together(batches: Sequence[PlainBatch], rule: LagRule) -> Sequence[Updated | None]:
    """The states of some topics after their batches; None: the topic's batch is not plain."""
    if not batches:
        return []
    table = JointTable.of([batch.state.commits for batch in batches])
    waiting = WaitingCommits.of(batches, table)
    plain = waiting.plain(batches, table).tolist()
    if not all(plain):
        some = [batch for batch, is_plain in zip(batches, plain, strict=True) if is_plain]
        updated = iter(advance_together(some, rule))
        return [next(updated) if is_plain else None for is_plain in plain]
    return _PlainUpdate(batches, table, waiting, rule).updated()


class _PlainUpdate:
    """Plain batches of some topics while they are applied: the states so far."""

    def __init__(
        self,
        batches: Sequence[PlainBatch],
        table: JointTable,
        waiting: WaitingCommits,
        rule: LagRule,
    ) -> None:
        self._batches = batches
        self._table = table
        self._waiting = waiting
        self._rule = rule
        self._states = [batch.state for batch in batches]
        self._samples: list[list[SampleRequest]] = [[] for _ in batches]

    def updated(self) -> list[Updated]:
        """Apply the samples, first those that come first in their topics; then publish."""
        for number in range(max(len(batch.samples) for batch in self._batches)):
            topics = [t for t, batch in enumerate(self._batches) if len(batch.samples) > number]
            self._apply(topics, [self._batches[t].samples[number] for t in topics])
        return self._published()

    def _apply(self, topics: Sequence[int], samples: Sequence[AppliedSample]) -> None:
        """Apply a sample of each of some topics."""
        self._count(topics, samples)
        states = sampling.sampled_together(
            [replace(self._states[topic], commits=self._counted(topic)) for topic in topics],
            [sample.record for sample in samples],
            [sample.position for sample in samples],
            self._rule,
        )
        for topic, state in zip(topics, states, strict=True):
            self._ask(topic, state)

    def _counted(self, topic: int) -> CommitTable:
        """The commits of a topic that the sample counts."""
        values = self._table.of_topic(topic)
        return replace(self._states[topic].commits, **values, sampled=values["offset"])

    def _ask(self, topic: int, state: TopicState) -> None:
        """Keep the state after a sample, and ask for the readers' lag there."""
        before, self._states[topic] = self._states[topic], state
        if numbers := list(range(len(state.commits.groups))):
            lag = LagRequest(topic=self._batches[topic].topic, state=state, numbers=numbers)
            request = SampleRequest(lag=lag, sampled=before.commits.sampled, previous_at=before.at)
            self._samples[topic].append(request)

    def _count(self, topics: Sequence[int], samples: Sequence[AppliedSample]) -> None:
        """Count the commits below the cuts of samples."""
        waiting = self._waiting
        if not waiting.topic.size:
            return
        numbers = {cut: number for number, cut in enumerate({sample.cut for sample in samples})}
        # See `sampling.before_sample` for the 0. The last cut is for topics without a sample.
        ends = np.array([end for cut in (*numbers, ()) for end in (*cut, 0)], np.int64)
        sizes = np.array([len(cut) + 1 for cut in (*numbers, ())], np.int64)
        cut_of = np.full(len(self._batches), len(numbers), np.int64)
        cut_of[topics] = [numbers[sample.cut] for sample in samples]
        of_commit = cut_of[waiting.topic]
        source = np.minimum(waiting.values["source"], sizes[of_commit] - 1)
        due = waiting.values["position"] < ends[(np.cumsum(sizes) - sizes)[of_commit] + source]
        self._table = self._table.merged(waiting.take(due))
        self._waiting = waiting.take(~due)

    def _published(self) -> list[Updated]:
        """The states after the batch, and the lag with all commits that have been read."""
        shown = self._table.merged(self._waiting)
        tables = [state.commits for state in self._states]
        published = []
        for topic, uncounted in enumerate(self._waiting.by_topic(tables, self._table)):
            state, samples = self._states[topic], self._samples[topic]
            if uncounted.code.size or state.uncounted_commits.code.size:
                state = replace(state, uncounted_commits=uncounted)
            lag = samples[-1].lag if samples else None
            if uncounted.code.size:
                lag = self._shown(topic, state, shown)
            request = None if lag is None else PublishedRequest(lag=lag, sampled=state)
            requests = TopicRequests(samples=tuple(samples), published=request)
            published.append(Updated(state, requests))
        return published

    def _shown(self, topic: int, state: TopicState, table: JointTable) -> LagRequest | None:
        """The lag that is asked for of a topic with commits that wait; None: there is no sample."""
        batch = self._batches[topic]
        numbers = list(range(len(state.commits.groups))) if batch.samples else batch.committed
        if not numbers or state.at == UNKNOWN:
            return None
        shown = replace(
            state,
            commits=replace(state.commits, **table.of_topic(topic)),
            uncounted_commits=state.uncounted_commits.take(slice(0)),
        )
        return LagRequest(topic=batch.topic, state=shown, numbers=numbers)
