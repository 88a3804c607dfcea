"""Possible transfers between members, without an arc for each partition and reader.

Partitions with the same readers and replicas in the same racks form one *partition class*. Readers
of one reader set in one rack form one *reader class*. A member can take a partition if it belongs
to a reader class of the partition class's reader set.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.columns import Bools, Ints, Longs, numbered, starts
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.locality import rack_remote


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransferGraph:
    """Partition classes and reader classes of a group.

    Reader class a * width + r holds the readers of reader set a in rack r.
    """

    width: int
    """Number of racks plus one: the unknown rack is last."""
    partition_class: Longs
    """P: the class of each partition."""
    reader_classes: Longs
    """Partition classes x width: the reader class of each rack that may take the class."""
    rack_remote: Bools
    """Partition classes x width: whether that rack has no replica of the class."""
    reader_class_start: Longs
    """Readers of reader class c are reader[reader_class_start[c] : reader_class_start[c + 1]]."""
    reader: Ints
    """Members by reader class; a member is in one reader class of each reader set it belongs to."""
    reader_class: Longs
    """Reader class of each entry of `reader`."""

    @classmethod
    def of(cls, group: Group) -> "TransferGraph":
        """Lay out the classes of a group."""
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
