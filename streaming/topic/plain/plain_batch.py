"""Plain batches of topics: those that bring commits and samples, and nobody comes or goes by them.

In a fleet of many small topics nearly all batches are plain. A topic with many commits is updated
for itself, as calls of NumPy do not count there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from levelwind.assignors.protocol.records import OffsetsRecord
from levelwind.streaming.messages.topic_columns import TopicCommits
from levelwind.streaming.topic import sampling
from levelwind.streaming.topic.state import READER_TTL_MS, UNCOUNTED_MARGIN, LogPosition, TopicState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.streaming.topic.batch import ReadRecord, TopicBatch

MAX_ENTRIES = 2048
"""Commits of a topic, counted and not, up to which it is updated with others."""


class AppliedSample(Struct, frozen=True, kw_only=True, eq=False):
    """A sample of a plain batch, which has to be applied."""

    record: OffsetsRecord
    position: LogPosition
    cut: tuple[int, ...]
    """The end offsets of the offsets topic."""


class PlainBatch(Struct, frozen=True, kw_only=True, eq=False):
    """A topic's state and a batch that may be plain.

    Whether all commits are of groups that have committed to the partition before shows with their
    columns.
    """

    topic: str
    state: TopicState
    """Its last sample, if any, has an exact cut; all its commits are, or may be, the topic's."""
    commits: Sequence[TopicCommits]
    """With the topic ids of the state."""
    numbers: tuple[tuple[int, ...], ...]
    """For each of these, the numbers of its groups in the state."""
    samples: tuple[AppliedSample, ...]
    """In the order of their log."""

    @property
    def committed(self) -> list[int]:
        """The numbers of the groups that the batch brought commits of, ascending."""
        pairs = zip(self.numbers, self.commits, strict=True)
        return sorted({numbers[n] for numbers, c in pairs for n in c.group.tolist()})

    @classmethod
    def of(
        cls,
        topic: str,
        state: TopicState | None,
        batch: TopicBatch,
        offsets_read: Mapping[int, int] | None,
    ) -> PlainBatch | None:
        """The batch of a topic if it may be plain; see `update.advance`."""
        if state is None or batch.plans or batch.replayed_commits or not _ordinary(state):
            return None
        ids = state.commits.topic_ids
        if any(commits.topic_ids != ids for commits in batch.commits):
            return None
        added = state.uncounted_commits.code.size + sum([c.group.size for c in batch.commits])
        counted = state.commits.code.size
        if counted + added > MAX_ENTRIES or added > counted + UNCOUNTED_MARGIN:
            return None
        groups = state.commits.groups
        known = dict(zip(groups, range(len(groups)), strict=True))
        if not known.keys() >= state.planned_readers.keys():
            return None
        try:
            numbers = [tuple(map(known.__getitem__, c.groups)) for c in batch.commits]
        except KeyError:
            return None
        samples = _samples(state, batch.records, offsets_read)
        if samples is None:
            return None
        return cls(
            topic=topic,
            state=state,
            commits=batch.commits,
            numbers=tuple(numbers),
            samples=samples,
        )


def _ordinary(state: TopicState) -> bool:
    """Whether nothing waits in a state but commits, all of which are of the topic."""
    ids = state.commits.topic_ids
    of_topic = not ids or ids == (state.id,)
    seen = bool(state.id) and not state.gone
    return seen and of_topic and state.exact_cut and not state.deferred_records


def _samples(
    state: TopicState, records: Sequence[ReadRecord], offsets_read: Mapping[int, int] | None
) -> tuple[AppliedSample, ...] | None:
    """The samples of a batch; None: it has other records, or samples that need a closer look."""
    samples: list[AppliedSample] = []
    at, last = state.at, state.sample_position
    for read in records:
        raw, record = read.raw, read.record
        if raw.replayed or not isinstance(record, OffsetsRecord) or record.id != state.id:
            return None
        cut, log = record.offsets_topic_ends, f"{raw.topic}/{raw.partition}"
        late = record.at <= at or (last is not None and last[0] == log and last[1] >= raw.offset)
        other_size = len(record.begin) != state.begin.size
        if cut is None or late or other_size or not sampling.complete(record, offsets_read):
            return None
        at, last = record.at, (log, raw.offset)
        samples.append(AppliedSample(record=record, position=last, cut=cut))
    # A reader that has expired by the last sample alone stays until the next: `_apply_sample`.
    since = min(state.planned_readers.values(), default=at)
    return tuple(samples) if at - since < READER_TTL_MS else None
