"""What the pipeline publishes, as Kafka records with their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from assignors.protocol.records import DeadLetter, LagRecord, Tombstone, TriggerRecord, encode, encode_key
from assignors.protocol.topics import partition_for
from streaming.rows import Kind, LagRow, Raw
from streaming.tables import SinkRow

if TYPE_CHECKING:
    import numpy.typing as npt

    from assignors.protocol.records import EndKind
    from assignors.protocol.topics import Topics
    from streaming.group_state import Ownership
    from streaming.group_turn import Outcome

MAX_KEPT = 256 * 1024
"""Of a dead record's key and value, so many bytes each are kept: the letter must fit a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The topics that are written, and how many partitions each has."""

    topics: Topics
    lag: int
    triggers: int
    dead_letters: int


def of_group(group: str, outcome: Outcome, places: Places) -> list[SinkRow]:
    """A group's records: lag, the end of lag, and triggers in the order of their events."""
    topics = places.topics
    lag_at, triggers_at = partition_for(group, places.lag), partition_for(group, places.triggers)
    records = [
        SinkRow(topics.lag, *encode(_lag_record(group, row, owners)), lag_at) for row, owners in outcome.lags
    ]
    records += [
        SinkRow(topics.lag, encode_key(("lag", group, topic)), None, lag_at) for topic in outcome.gone
    ]
    records += [SinkRow(topics.triggers, *_trigger(trigger), triggers_at) for trigger in outcome.triggers]
    records += [_settled(raw, places) for raw in outcome.settled]
    return records


def passing(kind: int, payload: bytes, places: Places) -> SinkRow:
    """What neither a topic nor a group keeps: a dead letter, or the end of one."""
    raw = Raw.unpack(payload)
    return _settled(raw, places) if kind == Kind.SETTLED else _dead_letter(raw, places)


def _settled(raw: Raw, places: Places) -> SinkRow:
    key = encode_key((raw.topic, raw.partition, raw.offset))
    return SinkRow(places.topics.dead_letters, key, None, partition_for(key.decode(), places.dead_letters))


def _trigger(trigger: TriggerRecord | Tombstone) -> tuple[bytes, bytes | None]:
    return (encode_key(trigger.key), None) if isinstance(trigger, Tombstone) else encode(trigger)


def _lag_record(group: str, row: LagRow, owners: Ownership) -> LagRecord:
    owned = bool(owners.members)
    local = _local(row, owners)
    return LagRecord(
        group=group,
        topic=row.topic,
        at=row.at,
        id=row.id,
        end_kind=cast("EndKind", row.end_kind),
        committed=tuple(row.committed.tolist()),
        committed_at=tuple(row.committed_at.tolist()),
        begin=tuple(row.begin.tolist()),
        end=tuple(row.end.tolist()),
        lag=tuple(row.lag.tolist()),
        lost=tuple(row.lost.tolist()),
        stale=tuple(row.stale.tolist()),
        racks=row.racks,
        source=row.source,
        rate=_figures(row.rate),
        velocity=_figures(row.velocity),
        seconds=_figures(row.seconds),
        at_least=tuple(row.at_least.tolist()),
        ends_at=None if (row.ends_at == row.at).all() else tuple(row.ends_at.tolist()),
        data=None if (row.data < 0).all() else tuple(row.data.tolist()),
        members=tuple(name for name, _ in owners.members),
        owner=tuple(owners.owner.tolist()) if owned else None,
        local=local if any(one is not None for one in local) else None,
    )


def _figures(column: npt.NDArray[np.float64]) -> tuple[float | None, ...] | None:
    """Numbers by partition, None where there is none; None if there is none at all."""
    unknown = np.isnan(column)
    if unknown.all():
        return None
    figures = column.tolist()
    return tuple(None if one != one else one for one in figures) if unknown.any() else tuple(figures)  # noqa: PLR0124 - NaN


def _local(row: LagRow, owners: Ownership) -> tuple[bool | None, ...]:
    """By partition, whether its owner's rack holds a replica; None where either is not known."""
    racks = [rack for _, rack in owners.members]
    of = [racks[number] if number >= 0 else None for number in owners.owner.tolist()]
    return tuple(
        rack in replicas if rack is not None and replicas else None
        for rack, replicas in zip(of, row.racks, strict=True)
    )


def _dead_letter(raw: Raw, places: Places) -> SinkRow:
    cut = any(part is not None and len(part) > MAX_KEPT for part in (raw.key, raw.value))
    letter = DeadLetter(
        at=raw.timestamp,
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        reason=f"{raw.reason} (cut to {MAX_KEPT} bytes)" if cut else raw.reason,
        raw_key=None if raw.key is None else raw.key[:MAX_KEPT],
        raw_value=None if raw.value is None else raw.value[:MAX_KEPT],
    )
    key, value = encode(letter)
    return SinkRow(places.topics.dead_letters, key, value, partition_for(key.decode(), places.dead_letters))
