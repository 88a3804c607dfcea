"""The one statement of when an assignment is valid.

`violations` guards every plan before it is published and drives the property tests.
Guarantees: every partition with a reader has one owner (or one member that it is withheld for), and
no member owns a partition of a topic that it does not read.
"""

import numpy as np

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.columns import Bools, Ints
from levelwind.assignors.problem.group import Group

MAX_LISTED = 10
"""Violations listed of each kind: a broken strategy breaks thousands at once, and the first few say
enough."""


def violations(group: Group, assignment: Assignment) -> tuple[str, ...]:
    """Violations of validity, one sentence each; empty if the assignment is valid."""
    columns = {"owner": assignment.owner}
    if assignment.withheld is not None:
        columns["withheld"] = assignment.withheld
    misshapen = [
        sentence for name, column in columns.items() for sentence in _misshapen(group, name, column)
    ]
    if misshapen:
        return tuple(misshapen)

    found = _listed(group, group.has_reader() & (assignment.target < 0), "has readers but no owner")
    for name, column in columns.items():
        for member in np.unique(column[_foreign(group, column)]).tolist():
            of_member = _foreign(group, column) & (column == member)
            found += _listed(
                group, of_member, f"has {name} {group.members[member]!r}, who does not read it"
            )
    if assignment.withheld is not None:
        found += _listed(
            group,
            (assignment.owner >= 0) & (assignment.withheld >= 0),
            "is owned and withheld at once",
        )
    return tuple(found)


def _misshapen(group: Group, name: str, column: Ints) -> list[str]:
    if column.dtype != np.int32 or column.shape != (group.partition_count,):
        return [
            f"{name} must be int32[{group.partition_count}], not {column.dtype}{list(column.shape)}"
        ]
    if len(column) and (column.min() < -1 or column.max() >= len(group.members)):
        found = f"{column.min()} .. {column.max()}"
        return [f"{name} must hold members below {len(group.members)} or -1, not {found}"]
    return []


def _foreign(group: Group, column: Ints) -> Bools:
    """Partitions (P) whose member in this column does not read their topic."""
    foreign = column >= 0
    foreign[foreign] = ~group.reads(column[foreign], group.partition_topic[foreign])
    return foreign


def _listed(group: Group, wrong: Bools, violation: str) -> list[str]:
    """One sentence for each of the first wrong partitions (P), and one that counts the others."""
    partitions = np.flatnonzero(wrong)
    listed = [f"partition {_name(group, p)} {violation}" for p in partitions[:MAX_LISTED].tolist()]
    if len(partitions) > MAX_LISTED:
        listed.append(f"and {len(partitions) - MAX_LISTED} more: each {violation}")
    return listed


def _name(group: Group, partition: int) -> str:
    topic = int(group.partition_topic[partition])
    return f"{partition - int(group.topic_start[topic])} of {group.topics[topic]!r}"
