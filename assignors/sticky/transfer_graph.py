"""Who can pass what to whom, without an arc for each partition and reader.

Law: partitions of one audience whose replicas are in the same racks are one kind, and readers of one audience in one rack share
a seat: whoever takes a partition takes it on a seat of its kind's audience.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
    numbered,
    starts,
)
from assignors.problem.group import Group
from assignors.problem.locality import far


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Kinds of partitions and seats of readers. Seat a * width + r is audience a's in rack r, the unknown rack last."""

    width: int  # racks, and the unknown one
    kind: Longs  # P: the kind of a partition
    seats: Longs  # kinds x width: the seats of a kind's audience
    far: Bools  # kinds x width: the seats that are far from all its replicas
    seat_start: Longs  # the readers on seat s are sitting[seat_start[s] : seat_start[s + 1]]
    sitting: Ints
    seat: Longs  # by place in `sitting`: the seat

    @classmethod
    def of(cls, group: Group) -> "Network":
        """Lay out the kinds and seats of a group."""
        audiences, (sets, width) = len(group.reader_start) - 1, group.near.shape
        keys = group.audience[group.partition_topic].astype(np.int64) * sets + group.rack_set
        kind = numbered(keys)
        sample = np.zeros(int(kind.max(initial=-1)) + 1, dtype=np.int64)
        sample[kind] = keys
        audience, rack_set = np.divmod(sample, max(sets, 1))
        readers = np.diff(group.reader_start)
        seat = (
            np.repeat(np.arange(audiences), readers) * width
            + group.member_rack[group.reader] % width
        )
        order = np.argsort(seat, kind="stable")
        return cls(
            width=width,
            kind=kind,
            seats=audience[:, None] * width + np.arange(width),
            far=far(group)[rack_set],
            seat_start=starts(np.bincount(seat, minlength=audiences * width)),
            sitting=group.reader[order],
            seat=seat[order],
        )
