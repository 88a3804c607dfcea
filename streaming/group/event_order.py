"""The rows of one group in a batch, put into the order in which they take effect: event time.

Events with the same time as a sample belong to it, so layouts of racks and then samples come after
all other events of their time. A log orders its own records: a record counts as no earlier than one
before it in its partition, whatever the producer's clock was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from levelwind.streaming.messages.lag_columns import LagRow, LagSample
from levelwind.streaming.messages.rows import Detached, Kind, RacksRow, Raw
from levelwind.streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Event: TypeAlias = Raw | LagSample | RacksRow | Detached
RankedEvent: TypeAlias = tuple[int, int, int, Event]
"""Time of an event, its rank at that time, its offset (0 unless it is a record), and the event."""

RANK_OTHERS, RANK_RACKS, RANK_SAMPLE = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBatch:
    """The content of a batch for one group."""

    events: tuple[tuple[int, Event], ...]
    """Times and events, in the order in which they take effect."""
    replays: tuple[Raw, ...]
    """Records that an operator replays: their own time has passed, so they come last."""
    lags: Mapping[str, LagRow]
    """Lag of the group after the batch, by topic."""
    keys_to_verify: tuple[tuple[str, ...], ...]
    """Keys of records that an earlier checkpoint published, in order; those that the group's state
    would not publish are tombstoned."""


def read_rows(
    rows: Iterable[tuple[int, bytes]],
    samples: Iterable[LagSample] = (),
    lags: Iterable[LagRow] = (),
) -> GroupBatch:
    """The batch made of rows, samples and lags, each in any order.

    Args:
        rows: kinds and payloads of the rows that are about this group alone.
        samples: the group's lag at samples.
        lags: the group's lag after the batch, of each topic once.
    """
    ranked: list[RankedEvent] = [(sample.at, RANK_SAMPLE, 0, sample) for sample in samples]
    raws: list[Raw] = []
    keys_to_verify: list[tuple[str, ...]] = []
    for kind, payload in rows:
        match kind:
            case Kind.RACKS:
                layout = RacksRow.unpack(payload)
                ranked.append((layout.notified_at, RANK_RACKS, 0, layout))
            case Kind.DETACHED:
                detached = Detached.unpack(payload)
                ranked.append((detached.at, RANK_OTHERS, 0, detached))
            case Kind.VERIFY_KEY:
                keys_to_verify.append(tuple(json.loads(payload)))
            case _:
                raws.append(Raw.unpack(payload))
    raws.sort(key=lambda raw: (raw.topic, raw.partition, raw.offset))
    ranked += _in_log_order(raw for raw in raws if raw.until < 0)
    return GroupBatch(
        events=tuple([(at, event) for at, _, _, event in sorted(ranked, key=_sort_key)]),
        replays=tuple([raw for raw in raws if raw.until >= 0]),
        lags={lag.topic: lag for lag in lags},
        keys_to_verify=tuple(sorted(keys_to_verify)),
    )


def _in_log_order(raws: Iterable[Raw]) -> list[RankedEvent]:
    """Records with times that never go back within a partition; `raws` are sorted by offset."""
    latest: dict[tuple[str, int], int] = {}
    ranked: list[RankedEvent] = []
    for raw in raws:
        partition = (raw.topic, raw.partition)
        latest[partition] = max(raw.timestamp, latest.get(partition, UNKNOWN))
        ranked.append((latest[partition], RANK_OTHERS, raw.offset, raw))
    return ranked


def _sort_key(ranked: RankedEvent) -> tuple[int, int, int, str]:
    at, rank, offset, event = ranked
    return at, rank, offset, event.topic
