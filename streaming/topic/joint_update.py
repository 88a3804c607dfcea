"""Update of the states of many topics by a batch, which have their groups' lag computed together.

Each topic is updated for itself, by `update.advance`. A call of NumPy costs 1 to 10 us however few
numbers it works on: for 100 topics of 20 groups the lag took 2 ms a topic when each had its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from levelwind.streaming.messages.buckets import DEFAULT_BUCKETS
from levelwind.streaming.topic import update
from levelwind.streaming.topic.lag.lag_rows import rows_for_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from levelwind.streaming.messages.rows import Row
    from levelwind.streaming.topic.lag.lag_rows import TopicRequests
    from levelwind.streaming.topic.state import LagRule, TopicState

JOINT_CELLS = 2**16
"""Cells of lag, of a group and partition each, from which the topics that wait are computed."""


class TopicStates(Protocol):
    """The states of topics, by name."""

    def load(self, topic: str) -> TopicState | None:
        """The state of a topic; None: there is none."""

    def store(self, topic: str, state: TopicState | None) -> None:
        """Keep the state of a topic that was loaded; None: keep none."""


def advance_all(
    rows_by_topic: Mapping[str, Iterable[tuple[int, bytes]]],
    states: TopicStates,
    rule: LagRule,
    offsets_read: Mapping[int, int] | None = None,
    buckets: int = DEFAULT_BUCKETS,
) -> Iterator[Row]:
    """Apply a batch to the states of its topics, giving rows for groups.

    Args:
        rows_by_topic: the batch's rows of each topic, kind and payload, in any order.
        states: the states before, and then after.
        rule: the settings of lag.
        offsets_read: see `update.advance`.
        buckets: the number of buckets that the groups are in.
    """
    waiting: list[TopicRequests] = []
    cells = 0
    for topic, rows in rows_by_topic.items():
        before = states.load(topic)
        after, out, requests = update.advance(topic, before, rows, rule, offsets_read, buckets)
        if before is not None or after is not None:
            states.store(topic, after)
        yield from out
        waiting.append(requests)
        cells += requests.cells
        if cells >= JOINT_CELLS:
            yield from rows_for_groups(waiting, rule, buckets)
            waiting, cells = [], 0
    yield from rows_for_groups(waiting, rule, buckets)
