"""Assignment: an owner for each partition of a group.

Guarantees: an assignment is a column over the group's dense partitions; it has no meaning without
its group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from levelwind.assignors.problem.columns import Ints, radix
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError

NOBODY = -1
"""Owner of a partition that no member owns."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Owners of the partitions, and the partitions withheld until their owner gives them up."""

    owner: Ints
    """P: the member that owns a dense partition; -1 for nobody."""
    withheld: Ints | None = None
    """P: the member that gets the partition in the next round, -1 for none; None if nothing is
    withheld."""

    @property
    def target(self) -> Ints:
        """Owners after every withheld partition has been handed over."""
        return (
            self.owner
            if self.withheld is None
            else np.where(self.withheld >= 0, self.withheld, self.owner)
        )

    def to_names(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Topics and partitions of every member, ascending; {} for a member without partitions."""
        return _named(group, self.owner)

    def withheld_names(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Withheld partitions by the member that will get them; other members are left out."""
        if self.withheld is None:
            return {}
        return {member: topics for member, topics in _named(group, self.withheld).items() if topics}

    @classmethod
    def from_names(
        cls, group: Group, names: Mapping[str, Mapping[str, Sequence[int]]]
    ) -> "Assignment":
        """Read an assignment by names.

        Raises:
            ProblemError: a member, topic or partition is unknown, or a partition is given twice.
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
        """Present owners by the members' claims.

        Of several claims of a partition only those that stand count (`Group.standing_claims`); if
        more than one stands, the partition is nobody's.
        """
        owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
        owner[group.claim_partition] = group.claim_member
        if np.array_equal(owner[group.claim_partition], group.claim_member):
            return cls(owner)  # no partition is claimed twice
        stands = group.standing_claims()
        partition = group.claim_partition[stands]
        owner[partition] = group.claim_member[stands]
        owner[np.bincount(partition, minlength=len(owner)) > 1] = NOBODY
        return cls(owner)


def _named(group: Group, owner: Ints) -> dict[str, dict[str, list[int]]]:
    """Partition numbers by member and topic: cut where the owner or the topic changes."""
    order = radix(owner, len(group.members))
    order = order[np.count_nonzero(owner < 0) :]
    member, topic = owner[order], group.partition_topic[order]
    begins = np.flatnonzero(
        np.append(True, (member[1:] != member[:-1]) | (topic[1:] != topic[:-1]))
    )
    begins = begins[: len(order)]
    partitions = (order - group.topic_start[topic]).tolist()
    # One partition a piece is the case of every large group whose members get few of each topic.
    if len(begins) == len(order):
        pieces = [[partition] for partition in partitions]
    else:
        pieces = [partitions[begin:end] for begin, end in pairwise([*begins.tolist(), len(order)])]
    topics = np.array(group.topics, dtype=np.object_)[topic[begins]].tolist()
    named = zip(topics, pieces, strict=True)
    sizes = np.bincount(member[begins], minlength=len(group.members)).tolist()
    return {
        name: dict(islice(named, size)) for name, size in zip(group.members, sizes, strict=True)
    }
