"""The answer: an owner for each partition.

Law: an assignment is a column over the group's dense partitions and means nothing without its group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from assignors.problem.columns import (
    Ints,
    radix,
)
from assignors.problem.group import Group
from assignors.problem.inputs import ProblemError

NOBODY = -1


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Who owns what, and what is withheld until its present owner has given it up."""

    owner: Ints  # P: the member that owns a dense partition, -1 nobody
    withheld: Ints | None = (
        None  # P: the member that gets it in the next round, -1 none; None: nothing is withheld
    )

    @property
    def target(self) -> Ints:
        """The owners once nothing is withheld any more."""
        return (
            self.owner
            if self.withheld is None
            else np.where(self.withheld >= 0, self.withheld, self.owner)
        )

    def to_names(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Every member's topics and partitions, ascending; a member without any has {}."""
        return _named(group, self.owner)

    def withheld_names(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """What each member is to get later; members that wait for nothing are left out."""
        if self.withheld is None:
            return {}
        return {member: topics for member, topics in _named(group, self.withheld).items() if topics}

    @classmethod
    def from_names(
        cls, group: Group, names: Mapping[str, Mapping[str, Sequence[int]]]
    ) -> "Assignment":
        """Read an assignment by names.

        Raises:
            ProblemError: an unknown member, topic or partition, or a partition that is given twice.
        """
        topic_of = {name: index for index, name in enumerate(group.topics)}
        member_of = {name: index for index, name in enumerate(group.members)}
        owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
        for member, topics in names.items():
            if member not in member_of:
                raise ProblemError(f"member {member!r}: not in the group")
            for topic, partitions in topics.items():
                if topic not in topic_of:
                    raise ProblemError(f"member {member!r}: topic {topic!r} is not in the group")
                first, end = group.topic_start[topic_of[topic] :][:2].tolist()
                for partition in partitions:
                    if not 0 <= partition < end - first:
                        raise ProblemError(
                            f"member {member!r}: {topic!r} has no partition {partition}"
                        )
                    if owner[first + partition] != NOBODY:
                        raise ProblemError(
                            f"member {member!r}: partition {partition} of {topic!r} is given twice"
                        )
                    owner[first + partition] = member_of[member]
        return cls(owner)

    @classmethod
    def held(cls, group: Group) -> "Assignment":
        """What the members own now, by their claims: the highest generation wins, and a tie of it is nobody's."""
        owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
        owner[group.claim_partition] = group.claim_member
        if np.array_equal(owner[group.claim_partition], group.claim_member):
            return cls(owner)  # nobody claims what another one does
        generation = group.generation[group.claim_member]
        order = np.lexsort((generation, group.claim_partition))
        partition, generation, claimant = (
            group.claim_partition[order],
            generation[order],
            group.claim_member[order],
        )
        same = np.zeros(
            len(order) + 1, dtype=np.bool_
        )  # claim i is of the partition of claim i - 1
        same[1:-1] = partition[1:] == partition[:-1]
        last = ~same[1:]
        tied = same[:-1] & (generation == np.roll(generation, 1))
        owner[partition[last]] = np.where(tied[last], NOBODY, claimant[last])
        return cls(owner)


def _named(group: Group, owner: Ints) -> dict[str, dict[str, list[int]]]:
    """Cut the partitions, sorted by owner, where owner or topic changes, and name each piece."""
    order = radix(owner, len(group.members))
    order = order[np.count_nonzero(owner < 0) :]
    member, topic = owner[order], group.partition_topic[order]
    begins = np.flatnonzero(
        np.append(True, (member[1:] != member[:-1]) | (topic[1:] != topic[:-1]))
    )
    begins = begins[: len(order)]
    partitions = (order - group.topic_start[topic]).tolist()
    if len(begins) == len(
        order
    ):  # as in all large groups whose members get few partitions of each topic
        pieces = [[partition] for partition in partitions]
    else:
        pieces = [partitions[begin:end] for begin, end in pairwise([*begins.tolist(), len(order)])]
    topics = np.array(group.topics, dtype=np.object_)[topic[begins]].tolist()
    named = zip(topics, pieces, strict=True)
    sizes = np.bincount(member[begins], minlength=len(group.members)).tolist()
    return {
        name: dict(islice(named, size)) for name, size in zip(group.members, sizes, strict=True)
    }
