"""A batch's rows of one group, in the order in which they take effect: that of event time.

What happens at the same time as a sample is part of it, so racks and moments come after all else of their time. A log
orders its own records, so none of them is earlier than one that stands before it, whatever its clock said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from streaming.messages.rows import (
    Detached,
    Kind,
    LagRow,
    LagSample,
    RacksRow,
    Raw,
)
from streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Event: TypeAlias = Raw | LagSample | RacksRow | Detached
Placed: TypeAlias = tuple[int, int, int, Event]
"""Its time, what it is at that time, its offset, and the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch says of a group."""

    events: tuple[tuple[int, Event], ...]
    """Each with its time, in order."""
    replays: tuple[Raw, ...]
    """Records whose time has passed."""
    lags: Mapping[str, LagRow]
    """By topic."""
    doubted: tuple[tuple[str, ...], ...]
    """Keys of what may be published though nobody stands by it."""


def read(rows: Iterable[tuple[int, bytes]]) -> Batch:
    """The batch of some rows, kind and payload, in any order."""
    lags: dict[str, LagRow] = {}
    placed: list[Placed] = []
    raws: list[Raw] = []
    doubted: list[tuple[str, ...]] = []
    for kind, payload in rows:
        match kind:
            case Kind.LAG:
                lag = LagRow.unpack(payload)
                lags[lag.topic] = lag
            case Kind.LAG_SAMPLE:
                moment = LagSample.unpack(payload)
                placed.append((moment.at, 2, 0, moment))
            case Kind.RACKS:
                layout = RacksRow.unpack(payload)
                placed.append((layout.notified_at, 1, 0, layout))
            case Kind.DETACHED:
                end = Detached.unpack(payload)
                placed.append((end.at, 0, 0, end))
            case Kind.VERIFY_KEY:
                doubted.append(tuple(json.loads(payload)))
            case _:
                raws.append(Raw.unpack(payload))
    raws.sort(key=lambda raw: (raw.topic, raw.partition, raw.offset))
    placed += _in_order(raw for raw in raws if raw.until < 0)
    return Batch(
        events=tuple([(at, event) for at, _, _, event in sorted(placed, key=_when)]),
        replays=tuple([raw for raw in raws if raw.until >= 0]),
        lags=lags,
        doubted=tuple(sorted(doubted)),
    )


def _in_order(raws: Iterable[Raw]) -> list[Placed]:
    """Records with their times; each partition's come in their order."""
    latest: dict[tuple[str, int], int] = {}
    placed: list[Placed] = []
    for raw in raws:
        partition = (raw.topic, raw.partition)
        latest[partition] = max(raw.timestamp, latest.get(partition, UNKNOWN))
        placed.append((latest[partition], 0, raw.offset, raw))
    return placed


def _when(placed: Placed) -> tuple[int, int, int, str]:
    at, what, offset, event = placed
    return at, what, offset, event.topic
