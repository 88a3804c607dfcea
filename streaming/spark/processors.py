"""Stateful operators: load a state, call `topic.update` or `bucket.update`, store the result.

No rule is here. The operators take and give Spark's rows, not pandas frames: a frame for each key,
in and out, cost more than the work on it (140 ms a batch of 100 topics, against 40 as rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from streaming import output
from streaming.bucket import update as bucket_update
from streaming.bucket.state import VALUES
from streaming.decoding import offsets_topic
from streaming.messages.rows import GROUP_KEY_PREFIX, TOPIC_KEY_PREFIX, Row, SinkRow
from streaming.spark import batch_offsets
from streaming.spark.schemas import STATE
from streaming.topic import update as topic_update
from streaming.topic.state import TopicState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from assignors.protocol.topics import TopicKind, Topics
    from streaming.output import OutputTopics
    from streaming.rules.skew import SkewRule
    from streaming.topic.state import LagRule


ROW, SINK_ROW = SparkRow(*Row._fields), SparkRow(*SinkRow._fields)


def _kinds_and_payloads(rows: Iterator[Any]) -> list[tuple[int, bytes]]:
    return [(row.kind, row.payload) for row in rows]


class TopicProcessor(StatefulProcessor):  # type: ignore[misc] # pyspark is not followed
    """Operator with the state of each topic; rows of other state keys pass through it."""

    def __init__(self, rule: LagRule, query: Path | None = None) -> None:
        self._rule = rule
        self._query = query
        self._batch_offsets: tuple[int | None, Mapping[int, int] | None] = None, None
        """Number of the last batch, and its end offsets."""

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls it before any rows."""
        self._value = handle.getValueState("topic", STATE)

    def _end_offsets(self) -> Mapping[int, int] | None:
        """End offsets of this batch in `__consumer_offsets`, by partition; read once a batch."""
        batch = batch_offsets.current_batch()
        if self._query is None or batch is None:
            return None
        if self._batch_offsets[0] != batch:
            offsets = batch_offsets.end_offsets(self._query, batch, offsets_topic.TOPIC)
            self._batch_offsets = batch, offsets
        return self._batch_offsets[1]

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Any]:
        """Process the rows of one state key in a batch."""
        (state_key,) = key
        if not state_key.startswith(TOPIC_KEY_PREFIX):
            for row in rows:
                yield ROW(row.state_key, row.group, row.kind, row.payload)
            return
        stored = self._value.get()
        state = None if stored is None else TopicState.unpack(bytes(stored[0]))
        topic = state_key.removeprefix(TOPIC_KEY_PREFIX)
        after, out = topic_update.advance(
            topic, state, _kinds_and_payloads(rows), self._rule, self._end_offsets()
        )
        if after is not None:
            self._value.update((after.pack(),))
        elif stored is not None:
            self._value.clear()
        for row in out:
            yield ROW(*row)

    def close(self) -> None:
        """Nothing to release."""


class GroupProcessor(StatefulProcessor):  # type: ignore[misc] # pyspark is not followed
    """Operator with the state of each bucket of groups; its output are the records to publish.

    Rows of other state keys are rejected records and finished replays: they become dead letters,
    and tombstones of dead letters.
    """

    def __init__(self, rule: SkewRule, topics: Topics, outputs: OutputTopics) -> None:
        self._rule = rule
        self._outputs = outputs
        self._record_kinds: dict[str, TopicKind] = {topics.assignments: "assignments"}

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls it before any rows."""
        self._values = {name: handle.getValueState(name, STATE) for name in VALUES}

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Any]:
        """Process the rows of one state key in a batch."""
        (state_key,) = key
        if not state_key.startswith(GROUP_KEY_PREFIX):
            for row in rows:
                yield SINK_ROW(*output.pass_through_record(row.kind, row.payload, self._outputs))
            return
        events = [(row.group, row.kind, row.payload) for row in rows]
        result = bucket_update.advance(self._stored, events, self._rule, self._record_kinds)
        for name, value in result.values.items():
            if value is not None:
                self._values[name].update((value,))
            else:
                self._values[name].clear()
        for record in output.bucket_records(result, self._outputs):
            yield SINK_ROW(*record)

    def _stored(self, name: str) -> bytes | None:
        """A value of the bucket's state."""
        stored = self._values[name].get()
        return None if stored is None else bytes(stored[0])

    def close(self) -> None:
        """Nothing to release."""
