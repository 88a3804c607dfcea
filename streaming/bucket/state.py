"""State of a bucket of groups: columns of what samples change or need, and a value for each group.

It is three values of the state store, so that a batch reads and writes no more than it needs:

- `samples` changes with every sample: lag, and the runs of skew.
- `members` changes with all other events: names, owners, and what the columns are indexed by.
- `groups` holds the rest of each group's state, packed one by one. Only an event that is neither a
  sample nor lag needs it.

The columns are indexed by group, by entry (a topic that a group has lag in), by cell (a partition
of an entry), by owner (a member of a group), or by claim (a partition that a member owns). Entries
and owners are in the order of their groups, cells and claims in that of their entries.

Size, packed and before it is compressed, at most: two kilobytes a bucket, 580 bytes a group, 170
bytes a member, and for each partition of a topic that a group reads 8 bytes for its lag, 4 for its
rate and 2 for each layout of racks since the plan, of which `rack_changes` keeps a few. A partition
with an owner takes 8 bytes for the claim, 3 for the owner as text of a lag record, which is kept
once for topics whose owners are the same, and up to 5 in the member's assignment. Numbers that lie
close together take less (`messages.packing`): 3.3 bytes for a partition without owners, 13 with
three.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from levelwind.assignors.problem.columns import starts
from levelwind.streaming.messages import packing
from levelwind.streaming.messages.lag_json import Claim
from levelwind.streaming.messages.packing import PackingError
from levelwind.streaming.rules.speed import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from levelwind.streaming.rules.event_time import Int64

VERSION = 7
"""Counts up with every change of what `pack` writes; an older checkpoint is then set aside."""

SAMPLES, MEMBERS, GROUPS = "samples", "members", "groups"
VALUES = (SAMPLES, MEMBERS, GROUPS)
"""Names of the three values."""

Columns = dict[str, "npt.NDArray[Any]"]
_Named = TypeVar("_Named")

GROUP_SAMPLES = {
    "sampled_at": "<i8",
    "since": "<i8",
    "evaluated_at": "<i8",
    "active": "|b1",
    "speeds_at": "<i8",
}
"""Types of the columns by group that samples change."""
ENTRY_SAMPLES = {
    "at": "<i8",
    "seconds": "<f8",
    "committed_at": "<i8",
    "commit_log": "<i4",
    "commit_position": "<i8",
    "sample_log": "<i4",
    "sample_position": "<i8",
    "owners_valid": "|b1",
}
"""Those by entry: as in `TopicLag`; the two logs are indices of `logs`, and -1 where there is none.

`owners_valid` is whether the owners at the sample are those of today. Otherwise the group's packed
state has them."""
CELL_SAMPLES = {"lag": "<i8", "rate": "<i4"}
OWNER_SAMPLES = {
    "speed_since": "<i8",
    "speed_latest": "<i8",
    "speed_records": "<i8",
    "speed_behind": "<i8",
    "speed_shown": "<i4",
    "speed_published": "<f4",
    "speed_published_windows": "<i4",
} | dict.fromkeys((f"window{number}" for number in range(WINDOWS)), "<f4")
"""Those by owner: the fields of `LearnedSpeed`."""
GROUP_MEMBERS = {
    "entries": "<i4",
    "owners": "<i4",
    "assigned": "|b1",
    "awaits": "|b1",
    "last_record_at": "<i8",
    "speeds_whole": "|b1",
}
"""Types of the columns by group that other events change.

`entries` and `owners` are numbers of them, `assigned` is whether a member owns anything, and
`awaits` whether the group reads a topic that it has no entry of yet. `speeds_whole` is whether the
columns hold all that is known of its members' speeds: each owner has a name of its own, and nothing
is kept of members that have left."""
ENTRY_MEMBERS = {
    "topic": "<i4",
    "cells": "<i4",
    "claims": "<i4",
    "committed": "|b1",
    "planned": "|b1",
    "joined": "|b1",
    "owner_text": "<i4",
    "former_owner_text": "<i4",
}
"""Those by entry: an index of `topics`, numbers of cells and claims, whether the group reads the
topic by a commit, by its plan, or by its members, and indices of `owner_texts`; -1: no member owns
a partition, and what members read is not known. `owner_text` is that of today, `former_owner_text`
that of the sample, and counts where `owners_valid` is not set."""
OWNER_MEMBERS = {"capacity": "<f8", "learns": "|b1"}
"""Those by owner: `learns` is whether no other owner of the group has its name."""
CLAIM_MEMBERS = {"owner": "<i4", "cell": "<i4"}
"""By claim: the owner among those of the group, and the partition."""
AXES = (
    (GROUP_SAMPLES | GROUP_MEMBERS),
    (ENTRY_SAMPLES | ENTRY_MEMBERS),
    CELL_SAMPLES,
    (OWNER_SAMPLES | OWNER_MEMBERS),
    CLAIM_MEMBERS,
)
SAMPLE_COLUMNS = GROUP_SAMPLES | ENTRY_SAMPLES | CELL_SAMPLES | OWNER_SAMPLES
MEMBER_COLUMNS = GROUP_MEMBERS | ENTRY_MEMBERS | OWNER_MEMBERS | CLAIM_MEMBERS


def no_columns() -> Columns:
    """The columns of no group."""
    return {name: np.zeros(0, dtype) for axis in AXES for name, dtype in axis.items()}


class OwnerText(NamedTuple):
    """What a group's lag records of a topic say of the partitions' owners, as JSON."""

    fields: str
    """The fields that name them, as `lag_json.owner_fields` writes them."""
    racks: str
    """The racks of the owners that these name; empty: none is known."""
    claim: Claim
    """What the group claims of the topic beside what its members own."""


@dataclass(frozen=True)
class BucketState:
    """The columns of a bucket's groups; not slotted, since it keeps where they begin."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    """The "topic/partition" of the inputs that the entries' samples are from."""
    columns: Columns = field(default_factory=no_columns)
    owner_texts: tuple[OwnerText, ...] = ()
    """What lag records say of the owners, which is often the same for many topics."""
    owner_names: tuple[str, ...] = ()
    """By owner, its name as JSON."""

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    @cached_property
    def first_entry(self) -> Int64:
        """By group, its first entry; the last item is the number of entries."""
        return starts(self["entries"])

    @cached_property
    def first_owner(self) -> Int64:
        """By group, its first owner; the last item is the number of owners."""
        return starts(self["owners"])

    @cached_property
    def first_cell(self) -> Int64:
        """By entry, its first cell; the last item is the number of cells."""
        return starts(self["cells"])

    @cached_property
    def first_claim(self) -> Int64:
        """By entry, its first claim; the last item is the number of claims."""
        return starts(self["claims"])

    @cached_property
    def group(self) -> Int64:
        """By entry, its group."""
        group: Int64 = np.repeat(np.arange(len(self.groups)), self["entries"])
        return group

    @cached_property
    def claim(self) -> Int64:
        """By owner text, its claim; the last item is that of -1, where nothing is known."""
        return np.array([*(text.claim for text in self.owner_texts), Claim.COMMITTED])

    def take(self, groups: Int64) -> BucketState:
        """Some of the groups, in this order."""
        entries = ranges(self.first_entry[groups], self["entries"][groups])
        rows = (
            groups,
            entries,
            ranges(self.first_cell[entries], self["cells"][entries]),
            ranges(self.first_owner[groups], self["owners"][groups]),
            ranges(self.first_claim[entries], self["claims"][entries]),
        )
        return BucketState(
            groups=tuple([self.groups[group] for group in groups.tolist()]),
            topics=self.topics,
            logs=self.logs,
            columns={
                name: self[name][of_axis]
                for axis, of_axis in zip(AXES, rows, strict=True)
                for name in axis
            },
            owner_texts=self.owner_texts,
            owner_names=tuple([self.owner_names[owner] for owner in rows[3].tolist()]),
        )

    def followed_by(self, other: BucketState) -> BucketState:
        """These groups and then those of another state, whose topics, logs and texts begin alike.

        Those that no group uses any more are dropped.
        """
        columns = {
            name: np.concatenate([self[name], other[name]]) for axis in AXES for name in axis
        }
        topics, (topic,) = _used(other.topics, columns["topic"])
        logs, (commit_log, sample_log) = _used(
            other.logs, columns["commit_log"], columns["sample_log"]
        )
        owner_texts, (owner_text, former_owner_text) = _used(
            other.owner_texts, columns["owner_text"], columns["former_owner_text"]
        )
        numbered = {
            "topic": topic,
            "commit_log": commit_log,
            "sample_log": sample_log,
            "owner_text": owner_text,
            "former_owner_text": former_owner_text,
        }
        return BucketState(
            groups=self.groups + other.groups,
            topics=topics,
            logs=logs,
            columns=columns | numbered,
            owner_texts=owner_texts,
            owner_names=self.owner_names + other.owner_names,
        )

    def with_own_samples(self) -> BucketState:
        """This state with copies of the columns that samples change, to be changed in place."""
        copies = {name: self[name].copy() for name in SAMPLE_COLUMNS}
        return replace(self, columns=self.columns | copies)

    # -- the state store's values

    def pack_samples(self) -> bytes:
        """The value `samples`."""
        columns = {name: self[name] for name in SAMPLE_COLUMNS}
        return packing.pack({"bucket": VERSION, "logs": self.logs}, columns)

    def pack_members(self) -> bytes:
        """The value `members`."""
        texts = {
            "owner_fields": [text.fields for text in self.owner_texts],
            "owner_racks": [text.racks for text in self.owner_texts],
            "owner_claims": [str(text.claim.value) for text in self.owner_texts],
            "owner_names": self.owner_names,
        }
        lines = {name: packing.lines_column(written) for name, written in texts.items()}
        lines["group_names"] = packing.names_column(self.groups)
        meta = {
            "bucket": VERSION,
            "topics": self.topics,
            "owner_texts": len(self.owner_texts),
        }
        return packing.pack(meta, {name: self[name] for name in MEMBER_COLUMNS} | lines)

    @classmethod
    def unpack(cls, samples: bytes, members: bytes) -> BucketState:
        """The state of two values.

        Raises:
            PackingError: a value is damaged, or another version wrote it.
        """
        samples_meta, columns = _unpack(samples)
        meta, member_columns = _unpack(members)
        counts = {
            "owner_fields": meta["owner_texts"],
            "owner_racks": meta["owner_texts"],
            "owner_claims": meta["owner_texts"],
            "owner_names": member_columns["capacity"].size,
        }
        fields, racks, claims, names = (
            packing.lines_of(member_columns.pop(name), count) for name, count in counts.items()
        )
        return cls(
            groups=packing.names_of(member_columns.pop("group_names")),
            topics=tuple(meta["topics"]),
            logs=tuple(samples_meta["logs"]),
            columns=columns | member_columns,
            owner_texts=tuple(map(OwnerText, fields, racks, map(Claim, map(int, claims)))),
            owner_names=tuple(names),
        )


def pack_groups(states: Mapping[str, bytes]) -> bytes:
    """The value `groups`, from each group's packed state."""
    meta = {
        "bucket": VERSION,
        "groups": list(states),
        "sizes": [len(packed) for packed in states.values()],
    }
    return packing.pack(meta, {"states": np.frombuffer(b"".join(states.values()), np.uint8)})


def unpack_groups(value: bytes) -> dict[str, bytes]:
    """Each group's packed state.

    Raises:
        PackingError: the value is damaged, or another version wrote it.
    """
    meta, arrays = _unpack(value)
    states = arrays["states"].tobytes()
    bounds = pairwise(accumulate(meta["sizes"], initial=0))
    return {
        group: states[first:last]
        for group, (first, last) in zip(meta["groups"], bounds, strict=True)
    }


def ranges(first: Int64, counts: npt.NDArray[Any]) -> Int64:
    """The indices of some runs, each given by its first index and its length."""
    if counts.size == 1:
        return np.arange(first[0], first[0] + counts[0])
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    indices: Int64 = np.arange(total) + np.repeat(first - ends + counts, counts)
    return indices


def _used(
    names: tuple[_Named, ...], *columns: npt.NDArray[Any]
) -> tuple[tuple[_Named, ...], list[npt.NDArray[Any]]]:
    """The names that some columns of indices use, and the columns as indices of these."""
    used = np.zeros(len(names) + 1, np.bool_)  # the last is that of -1, "none"
    for column in columns:
        used[column] = True
    numbers = np.cumsum(used, dtype=np.int32) - 1
    numbers[-1] = -1
    kept = tuple([name for name, flag in zip(names, used.tolist(), strict=False) if flag])
    return kept, [numbers[column] for column in columns]


def _unpack(value: bytes) -> tuple[packing.Meta, Columns]:
    meta, arrays = packing.unpack(value)
    if meta.get("bucket") != VERSION:
        raise PackingError(f"bucket state of version {meta.get('bucket')}, not {VERSION}")
    return meta, arrays
