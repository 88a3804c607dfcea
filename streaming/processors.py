"""The stateful operators: Spark's side of `topic_state` and `group_turn`. They fetch, call and store; no rule is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from streaming import group_codec, group_turn, offsets_topic, publication, reach, topic_turn
from streaming.rows import GROUP_ROUTE, TOPIC_ROUTE, Row
from streaming.tables import STATE, SinkRow
from streaming.topic_state import TopicState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from assignors.protocol.topics import TopicKind, Topics
    from streaming.publication import Places
    from streaming.skew import SkewRule
    from streaming.topic_state import LagRule


def _events(frames: Iterator[pd.DataFrame]) -> list[tuple[int, bytes]]:
    return [event for frame in frames for event in zip(frame["kind"], frame["payload"], strict=True)]


class TopicProcessor(StatefulProcessor):  # type: ignore[misc] # pyspark is not followed
    """Keeps a topic's state; what is not a topic's passes."""

    def __init__(self, rule: LagRule, query: Path | None = None) -> None:
        self._rule = rule
        self._query = query
        self._reach: tuple[int | None, Mapping[int, int] | None] = None, None

    def init(self, handle: Any) -> None:
        """Name the state."""
        self._value = handle.getValueState("topic", STATE)

    def _read(self) -> Mapping[int, int] | None:
        """How far the offsets topic is read with this batch."""
        number = reach.batch()
        if self._query is None or number is None:
            return None
        if self._reach[0] != number:
            self._reach = number, reach.read_to(self._query, number, offsets_topic.TOPIC)
        return self._reach[1]

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[pd.DataFrame]:
        """One route's rows of a batch."""
        (route,) = key
        if not route.startswith(TOPIC_ROUTE):
            for frame in rows:
                yield frame[list(Row._fields)]
            return
        stored = self._value.get()
        state = None if stored is None else TopicState.unpack(bytes(stored[0]))
        topic = route.removeprefix(TOPIC_ROUTE)
        after, out = topic_turn.advance(topic, state, _events(rows), self._rule, self._read())
        if after is not None:
            self._value.update((after.pack(),))
        elif stored is not None:
            self._value.clear()
        if out:
            yield pd.DataFrame(out, columns=Row._fields)

    def close(self) -> None:
        """Nothing is held."""


class GroupProcessor(StatefulProcessor):  # type: ignore[misc] # pyspark is not followed
    """Keeps a group's state and gives the records to publish; what is not a group's are rejections."""

    def __init__(self, rule: SkewRule, topics: Topics, places: Places) -> None:
        self._rule = rule
        self._places = places
        self._ours: dict[str, TopicKind] = {topics.assignments: "assignments"}

    def init(self, handle: Any) -> None:
        """Name the state."""
        self._value = handle.getValueState("group", STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[pd.DataFrame]:
        """One route's rows of a batch."""
        (route,) = key
        events = _events(rows)
        if not route.startswith(GROUP_ROUTE):
            yield _sink([publication.passing(kind, payload, self._places) for kind, payload in events])
            return
        group = route.removeprefix(GROUP_ROUTE)
        stored = self._value.get()
        state = None if stored is None else group_codec.unpack(bytes(stored[0]))
        outcome = group_turn.advance(group, state, events, self._rule, self._ours)
        if outcome.state is not None:
            self._value.update((group_codec.pack(outcome.state),))
        elif stored is not None:
            self._value.clear()
        if out := publication.of_group(group, outcome, self._places):
            yield _sink(out)

    def close(self) -> None:
        """Nothing is held."""


def _sink(records: list[SinkRow]) -> pd.DataFrame:
    return pd.DataFrame(records, columns=SinkRow._fields)
