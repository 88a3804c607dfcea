"""What a plan says of the members that are present, for whoever leads a classic group. Pure.

A plan may name members that are gone and lack members that came: what it says of present members
stands, and a local strategy places the rest as if each had its planned share already.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from levelwind.assignors.clients.classic.published_plan import PublishedPlan
    from levelwind.assignors.problem.assignment import Assignment
    from levelwind.assignors.problem.columns import Ints
    from levelwind.assignors.problem.group import Group
    from levelwind.assignors.problem.inputs import Member
    from levelwind.assignors.protocol.partition_ranges import Partitions


def present_shares(
    plan: PublishedPlan, names: Mapping[str, str], members: Iterable[Member]
) -> dict[str, Partitions]:
    """Planned partitions of the members that are present and read their topics, by member id."""
    return {
        member.id: {
            topic: numbers
            for topic, numbers in plan.assignments[names[member.id]].items()
            if topic in member.topics
        }
        for member in members
        if names[member.id] in plan.assignments
    }


def moves(plan: PublishedPlan, shares: Mapping[str, Partitions]) -> bool:
    """Whether a plan gives a partition to another member than has it, of those that are present.

    Args:
        plan: the plan.
        shares: partitions by the members' names, as they are assigned.
    """
    owner = ranges.owners(shares)
    return any(
        owner.get((topic, number), name) != name
        for name, share in plan.assignments.items()
        if name in shares
        for topic, numbers in share.items()
        for number in numbers
    )


def as_planned(members: Sequence[Member], shares: Mapping[str, Partitions]) -> list[Member]:
    """The members as if each already had its planned share, and nothing that is planned else."""
    planned = {partition for share in shares.values() for partition in ranges.pairs(share)}
    generation = max((member.generation for member in members), default=0)
    return [
        replace(
            member,
            owned=ranges.by_topic(
                ranges.pairs(member.owned or {}) - planned | ranges.pairs(shares.get(member.id, {}))
            ),
            generation=max(generation, 0),
        )
        for member in members
    ]


def planned_owners(group: Group, shares: Mapping[str, Partitions]) -> Ints:
    """The member that a plan gives each partition, by dense partition; of two the first."""
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    topic_of = {name: index for index, name in enumerate(group.topics)}
    for index, member in enumerate(group.members):
        for topic, numbers in shares.get(member, {}).items():
            if topic not in topic_of:
                continue
            first, end = group.topic_start[topic_of[topic] :][:2].tolist()
            for number in numbers:
                if 0 <= number < end - first and owner[first + number] == NOBODY:
                    owner[first + number] = index
    return owner


def completed(planned: Ints, group: Group, local: Callable[[Group], Assignment]) -> Ints:
    """The owner of each partition: as planned, and where nobody is, by a local strategy."""
    if not ((planned == NOBODY) & group.has_reader()).any():
        return planned
    return np.where(planned == NOBODY, local(group).target, planned).astype(np.int32)
