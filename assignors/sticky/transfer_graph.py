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
from assignors.problem.locality import rack_remote


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
        reader_sets, (sets, width) = len(group.reader_start) - 1, group.rack_local.shape
        keys = group.reader_set[group.partition_topic].astype(np.int64) * sets + group.rack_set
        kind = numbered(keys)
        sample = np.zeros(int(kind.max(initial=-1)) + 1, dtype=np.int64)
        sample[kind] = keys
        reader_set, rack_set = np.divmod(sample, max(sets, 1))
        readers = np.diff(group.reader_start)
        seat = (
            np.repeat(np.arange(reader_sets), readers) * width
            + group.member_rack[group.reader] % width
        )
        order = np.argsort(seat, kind="stable")
        return cls(
            width=width,
            kind=kind,
            seats=reader_set[:, None] * width + np.arange(width),
            far=rack_remote(group)[rack_set],
            seat_start=starts(np.bincount(seat, minlength=reader_sets * width)),
            sitting=group.reader[order],
            seat=seat[order],
        )
