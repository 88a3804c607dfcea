"""Work of the stateful operators: load states, call the pure updates, store the result.

No rule is here. The operators take Spark's rows and give those of `messages.rows`, not pandas
frames: a frame for each key, in and out, cost more than the work on it (140 ms a batch of 100
topics, against 40 as rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.streaming import output
from levelwind.streaming.bucket import update as bucket_update
from levelwind.streaming.messages.buckets import GROUP_KEY_PREFIX, TOPIC_KEY_PREFIX
from levelwind.streaming.messages.rows import NO_TOPIC, Kind, Row, SinkRow
from levelwind.streaming.sized_output import SHARDS, SizedOutput
from levelwind.streaming.spark.store import batch_offsets
from levelwind.streaming.spark.stored_topics import StoredTopics
from levelwind.streaming.topic import joint_update
from levelwind.streaming.topic.batch import TopicBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.streaming.output import OutputTopics
    from levelwind.streaming.rules.skew import SkewRule
    from levelwind.streaming.spark.store.batch_offsets import OffsetsLog
    from levelwind.streaming.topic.state import LagRule


class TopicRows:
    """Rows for the buckets of topics; rows of other state keys pass through.

    A topic's state is a value of its own, so that a batch reads and writes those that it concerns.
    """

    def __init__(self, states: Any, rule: LagRule, buckets: int, log: OffsetsLog | None) -> None:
        self._states = StoredTopics(states)
        self._rule = rule
        self._buckets = buckets
        self._log = log
        self._batch_offsets: tuple[int | None, Mapping[int, int] | None] = None, None
        """Number of the last batch, and its end offsets."""

    def _end_offsets(self) -> Mapping[int, int] | None:
        """End offsets of this batch in the commits' topic, by partition; read once a batch."""
        batch = batch_offsets.current_batch()
        if self._log is None or batch is None:
            return None
        if self._batch_offsets[0] != batch:
            offsets = batch_offsets.end_offsets(self._log, batch, self._rule.commits_topic)
            self._batch_offsets = batch, offsets
        return self._batch_offsets[1]

    def handle(self, state_key: str, rows: Iterator[Any]) -> Iterator[Any]:
        """Process the rows of one state key in a batch."""
        if not state_key.startswith(TOPIC_KEY_PREFIX):
            for row in rows:
                yield Row(row.state_key, row.subject, row.kind, row.payload)
            return
        batches = TopicBatch.by_topic((row.subject, row.kind, row.payload) for row in rows)
        yield from joint_update.advance_all(
            batches, self._states, self._rule, self._end_offsets(), self._buckets
        )


class GroupRows:
    """Rows for the buckets of groups, which give the records to publish.

    Rows of other state keys are rejected records and finished replays: they become dead letters,
    and tombstones of dead letters.
    """

    def __init__(
        self, values: Mapping[str, Any], rule: SkewRule, topics: Topics, outputs: OutputTopics
    ) -> None:
        self._values = values
        self._rule = rule
        self._outputs = outputs
        self._record_kinds: dict[str, TopicKind] = {topics.assignments: "assignments"}

    def handle(self, state_key: str, rows: Iterator[Any]) -> Iterator[Any]:
        """Process the rows of one state key in a batch."""
        if not state_key.startswith(GROUP_KEY_PREFIX):
            for row in rows:
                yield output.pass_through_record(row.kind, row.payload, self._outputs)
            return
        events = [(row.subject, row.kind, row.payload) for row in rows]
        result = bucket_update.advance(self._stored, events, self._rule, self._record_kinds)
        for name, value in result.values.items():
            self._store(name, value)
        sized = SizedOutput(self._outputs, self._stored(SHARDS))
        yield from sized.rows(output.bucket_records(result, self._outputs))
        yield from sized.unneeded(payload for _, kind, payload in events if kind == Kind.VERIFY_KEY)
        if sized.changed:
            self._store(SHARDS, sized.pack())
        if result.at_stake:
            yield SinkRow(NO_TOPIC, b"", None, 0)

    def _store(self, name: str, value: bytes | None) -> None:
        """Keep a value of the bucket's state; None: keep none."""
        if value is not None:
            self._values[name].update((value,))
        else:
            self._values[name].clear()

    def _stored(self, name: str) -> bytes | None:
        """A value of the bucket's state."""
        stored = self._values[name].get()
        return None if stored is None else bytes(stored[0])
