"""Stateful operators as Spark knows them: their states, and that `row_handlers` does their work.

At each start Spark's driver asks each operator for its states, one after the other, in a process of
its own that imports this module. So it imports no rule, and what the rules need is packed until
there are rows.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from levelwind.streaming.spark.schemas import STATE, TOPIC_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.streaming.output import OutputTopics
    from levelwind.streaming.rules.skew import SkewRule
    from levelwind.streaming.spark.store.batch_offsets import OffsetsLog
    from levelwind.streaming.topic.state import LagRule

ROW_HANDLERS = "levelwind.streaming.spark.row_handlers"


class _Processor(StatefulProcessor):  # type: ignore[misc] # pyspark is not followed
    """Operator that makes its handler of rows when the first ones come."""

    HANDLER: str
    """Name of the class of `ROW_HANDLERS`."""

    def __init__(self, *settings: Any) -> None:
        self._settings = pickle.dumps(settings)
        self._states: Any = None
        """The handles of the states."""
        self._handler: Any = None

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Any]:
        """Process the rows of one state key in a batch."""
        if self._handler is None:
            settings = pickle.loads(self._settings)  # noqa: S301 - this class has packed them
            make = getattr(import_module(ROW_HANDLERS), self.HANDLER)
            self._handler = make(self._states, *settings)
        (state_key,) = key
        yield from self._handler.handle(state_key, rows)

    def close(self) -> None:
        """Nothing to release."""


class TopicProcessor(_Processor):
    """Operator with the states of each bucket of topics."""

    HANDLER = "TopicRows"

    def __init__(self, rule: LagRule, buckets: int, log: OffsetsLog | None = None) -> None:
        super().__init__(rule, buckets, log)

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls it before any rows."""
        self._states = handle.getMapState("topics", TOPIC_NAME, STATE)


class GroupProcessor(_Processor):
    """Operator with the state of each bucket of groups; its output are the records to publish."""

    HANDLER = "GroupRows"

    def __init__(
        self, values: Collection[str], rule: SkewRule, topics: Topics, outputs: OutputTopics
    ) -> None:
        """Prepare the operator.

        Args:
            values: names of the values of a bucket's state.
            rule: when a skew is a trigger.
            topics: names of levelwind's topics.
            outputs: the topics that are written.
        """
        super().__init__(rule, topics, outputs)
        self._values = tuple(values)

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls it before any rows."""
        self._states = {name: handle.getValueState(name, STATE) for name in self._values}
