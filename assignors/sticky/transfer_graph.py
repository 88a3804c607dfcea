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
class TransferGraph:
    """Kinds of partitions and seats of readers. Seat a * width + r is audience a's in rack r, the unknown rack last."""

    width: int  # racks, and the unknown one
    partition_class: Longs  # P: the kind of a partition
    reader_classes: Longs  # kinds x width: the seats of a kind's audience
    rack_remote: Bools  # kinds x width: the seats that are far from all its replicas
    reader_class_start: (
        Longs  # the readers on seat s are sitting[seat_start[s] : seat_start[s + 1]]
    )
    reader: Ints
    reader_class: Longs  # by place in `sitting`: the seat

    @classmethod
    def of(cls, group: Group) -> "TransferGraph":
        """Lay out the kinds and seats of a group."""
        reader_sets, (sets, width) = len(group.reader_start) - 1, group.rack_local.shape
        keys = group.reader_set[group.partition_topic].astype(np.int64) * sets + group.rack_set
        partition_class = numbered(keys)
        sample = np.zeros(int(partition_class.max(initial=-1)) + 1, dtype=np.int64)
        sample[partition_class] = keys
        reader_set, rack_set = np.divmod(sample, max(sets, 1))
        readers = np.diff(group.reader_start)
        reader_class = (
            np.repeat(np.arange(reader_sets), readers) * width
            + group.member_rack[group.reader] % width
        )
        order = np.argsort(reader_class, kind="stable")
        return cls(
            width=width,
            partition_class=partition_class,
            reader_classes=reader_set[:, None] * width + np.arange(width),
            rack_remote=rack_remote(group)[rack_set],
            reader_class_start=starts(np.bincount(reader_class, minlength=reader_sets * width)),
            reader=group.reader[order],
            reader_class=reader_class[order],
        )
