"""Update of a bucket of groups by a batch, group by group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from streaming.group import codec, update
from streaming.group.bucket_batch import BucketBatch
from streaming.messages import packing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.protocol.topics import TopicKind
    from streaming.group.update import UpdateResult
    from streaming.rules.skew import SkewRule


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketResult:
    """The state of a bucket after a batch, and what is to be published."""

    state: bytes | None
    """None: nothing is left to keep."""
    groups: Mapping[str, UpdateResult]
    """The result of each group that the batch is about, in order."""


def advance(
    stored: bytes | None,
    rows: Iterable[tuple[str, int, bytes]],
    rule: SkewRule,
    record_kinds: Mapping[str, TopicKind],
) -> BucketResult:
    """Apply a batch to the groups of a bucket.

    Args:
        stored: the state before the batch; None: the bucket has no group yet.
        rows: group, kind and payload of the bucket's rows, in any order.
        rule: when skew counts.
        record_kinds: see `update.advance`.
    """
    states = {} if stored is None else unpack(stored)
    results: dict[str, UpdateResult] = {}
    for group, batch in BucketBatch.of(rows).by_group().items():
        packed = states.pop(group, None)
        state = None if packed is None else codec.unpack(packed)
        results[group] = result = update.advance(group, state, batch, rule, record_kinds)
        if result.state is not None:
            states[group] = codec.pack(result.state)
    return BucketResult(state=pack(states) if states else None, groups=results)


def pack(states: Mapping[str, bytes]) -> bytes:
    """Pack the packed states of groups as the state store's value."""
    meta = {"groups": [[group, len(packed)] for group, packed in states.items()]}
    return packing.pack(meta, {"states": np.frombuffer(b"".join(states.values()), np.uint8)})


def unpack(value: bytes) -> dict[str, bytes]:
    """The packed state of each group.

    Raises:
        PackingError: the value is damaged, or another version wrote it.
    """
    meta, arrays = packing.unpack(value)
    states = arrays["states"].tobytes()
    bounds = pairwise(accumulate([size for _, size in meta["groups"]], initial=0))
    return {
        group: states[first:last]
        for (group, _), (first, last) in zip(meta["groups"], bounds, strict=True)
    }
