"""Fields of lag records that all groups of a topic share: JSON, for many topics at once.

Arrow writes the lists of all topics together: written topic by topic, the fields of 2,500 topics of
three partitions took 41 ms of CPU instead of 12.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.records import LagRecord
from levelwind.streaming.messages import lag_json
from levelwind.streaming.messages.buckets import REMEMBERED_TOPICS
from levelwind.streaming.messages.lag_json import SharedFields
from levelwind.streaming.messages.remembered import remembered
from levelwind.streaming.topic.lag.commit_cells import stacked
from levelwind.streaming.topic.state import sampled_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from levelwind.streaming.rules.event_time import Floats, Int64, Mask
    from levelwind.streaming.topic.state import LagRule, Racks, TopicState

REMEMBERED_LAYOUTS, MAX_REMEMBERED_LAYOUT = 32, 4096
"""The number of layouts whose racks are remembered as JSON, and the partitions of one."""


def shared_fields(
    states: Sequence[TopicState], racks: Iterable[Racks], rates: Floats, rule: LagRule
) -> list[SharedFields]:
    """The fields of each topic's lag records that are the same for all groups.

    Args:
        states: the topics' states, at least one, with as many partitions.
        racks: the racks of each topic's last layout.
        rates: by topic and partition, the records that arrive per second; NaN: not known.
        rule: the settings of lag.
    """
    data_end = stacked([state.data_end for state in states])
    end_read_at = stacked([state.end_read_at for state in states])
    at = np.array([[state.at] for state in states], np.int64)
    columns = (
        states,
        lag_json.integers(stacked([state.begin for state in states])),
        _lists("data_end", data_end, data_end >= 0),
        lag_json.integers(stacked([sampled_end(state, rule) for state in states])),
        _lists("end_read_at", end_read_at, end_read_at != at),
        [_racks_text(of_topic, data_end.shape[1]) for of_topic in racks],
        ["" if written is None else f',"rate":{written}' for written in lag_json.decimals(rates)],
    )
    end_kind = lag_json.text(rule.end_kind)
    return [
        SharedFields(
            before_committed=f',"at":{state.at},"begin":{begin}',
            before_lag=f'{data_end},"end":{end},"end_kind":{end_kind}{end_read_at}'
            f',"id":{_id_text(state.id)}',
            before_seconds=f',"racks":{of_topic}{rate}',
            before_velocity=_VERSION,
            racks=of_topic,
        )
        for state, begin, data_end, end, end_read_at, of_topic, rate in zip(*columns, strict=True)
    ]


_VERSION = lag_json.fields(("v", str(LagRecord.V)))
_id_text = lru_cache(maxsize=REMEMBERED_TOPICS)(lag_json.text)


def _lists(name: str, matrix: Int64, of_interest: Mask) -> list[str]:
    """For each row a field with its numbers; empty where none of them is of interest."""
    wanted = set(np.flatnonzero(of_interest.any(axis=1)).tolist())
    written = lag_json.integers(matrix) if wanted else []
    fields = [""] * matrix.shape[0]
    for row in wanted:
        fields[row] = f',"{name}":{written[row]}'
    return fields


@remembered(
    REMEMBERED_LAYOUTS, MAX_REMEMBERED_LAYOUT, size=lambda racks, width: max(len(racks), width)
)
def _racks_text(racks: Racks, partitions: int) -> str:
    """The racks of so many partitions, which may be more or fewer than the layout has."""
    return lag_json.text((racks + ((),) * partitions)[:partitions])
