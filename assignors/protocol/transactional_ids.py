"""Transactional ids of members: one for each group and instance, whatever these are named."""

from __future__ import annotations


def of_group(prefix: str, group: str) -> str:
    """What the ids of a group's members begin with, and those of no other group.

    Args:
        prefix: the prefix of levelwind's topics.
        group: the group's name.
    """
    return f"{prefix}{_escaped(group)}/"


def of_member(prefix: str, group: str, instance: str) -> str:
    """The id of a member's commits; the arguments are those of `of_group`."""
    return of_group(prefix, group) + _escaped(instance)


def former(prefix: str, group: str, instance: str) -> str:
    """The id that releases before 0.2 gave the member.

    It is another one where a name has a slash or a percent sign: group `a` with instance `b/c` had
    that of group `a/b` with instance `c`.
    """
    return f"{prefix}{group}/{instance}"


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
