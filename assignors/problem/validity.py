"""The one statement of what a right assignment is.

It guards what is published and drives the property tests. Law: every partition that has a reader has one owner (or one
member that it is withheld for), and nobody owns what it does not read.
"""

import numpy as np

from assignors.problem.assignment import Assignment
from assignors.problem.columns import (
    Bools,
    Ints,
)
from assignors.problem.group import Group

TOLD = 10  # the first few of a kind say enough; a broken strategy breaks thousands at once


def violations(group: Group, assignment: Assignment) -> tuple[str, ...]:
    """Each way in which an assignment is wrong, a sentence each; empty when it is right."""
    columns = {"owner": assignment.owner}
    if assignment.withheld is not None:
        columns["withheld"] = assignment.withheld
    misshapen = [
        sentence for name, column in columns.items() for sentence in _misshapen(group, name, column)
    ]
    if misshapen:
        return tuple(misshapen)

    found = _told(group, group.has_reader() & (assignment.target < 0), "has readers but no owner")
    for name, column in columns.items():
        for member in np.unique(column[_foreign(group, column)]).tolist():
            theirs = _foreign(group, column) & (column == member)
            found += _told(
                group, theirs, f"has {name} {group.members[member]!r}, who does not read it"
            )
    if assignment.withheld is not None:
        found += _told(
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
        return [
            f"{name} must hold members below {len(group.members)} or -1, not {column.min()} .. {column.max()}"
        ]
    return []


def _foreign(group: Group, column: Ints) -> Bools:
    """Partitions that are with a member that does not read them."""
    foreign = column >= 0
    foreign[foreign] = ~group.reads(column[foreign], group.partition_topic[foreign])
    return foreign


def _told(group: Group, wrong: Bools, what: str) -> list[str]:
    partitions = np.flatnonzero(wrong)
    told = [f"partition {_name(group, p)} {what}" for p in partitions[:TOLD].tolist()]
    if len(partitions) > TOLD:
        told.append(f"and {len(partitions) - TOLD} more: each {what}")
    return told


def _name(group: Group, partition: int) -> str:
    topic = int(group.partition_topic[partition])
    return f"{partition - int(group.topic_start[topic])} of {group.topics[topic]!r}"
