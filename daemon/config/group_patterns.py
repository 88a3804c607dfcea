"""Which table of the configuration holds for a group: its own, or that of the longest pattern.

A table's name with `*` (any characters) or `?` (one) is a pattern. One table alone holds for a
group: the one of its very name, else that of the pattern with the most characters that are no
wildcards, else of the one that comes first by its name. Tables are not mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from levelwind.assignors.protocol.records import Mode
from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from levelwind.daemon.config.groups import GroupSection

Section = TypeVar("Section")

WILDCARDS = frozenset("*?")


def is_pattern(name: str) -> bool:
    """Whether the name of a table stands for several groups."""
    return bool(WILDCARDS & set(name))


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(char) or re.escape(char) for char in pattern), re.DOTALL)


def fits(pattern: str, group: str) -> bool:
    """Whether a group has the name that a pattern, or a plain name, stands for."""
    return bool(_expression(pattern).fullmatch(group))


def table_of(tables: Mapping[str, Section], group: str) -> str | None:
    """Return the name of the table that holds for a group; None without one."""
    if group in tables:
        return group
    fitting = [name for name in tables if is_pattern(name) and fits(name, group)]
    return min(fitting, key=lambda name: (-_literal(name), name), default=None)


def _literal(pattern: str) -> int:
    return sum(char not in WILDCARDS for char in pattern)


def check_patterns(groups: Mapping[str, GroupSection]) -> None:
    """Check that tables of patterns have no setting that needs the names of its groups.

    Raises:
        ConfigurationError: names the setting, and what to do.
    """
    for name, section in groups.items():
        if not is_pattern(name):
            continue
        if section.mode == "proxy":
            raise ConfigurationError(
                f"groups.{name}.mode: the leader proxy joins groups by name; give each a table"
            )
        if section.reset_policy is not None:
            raise ConfigurationError(
                f"groups.{name}.reset_policy: the pipeline goes by names; give each group a table"
            )


class GroupModes(Mapping[str, Mode]):
    """Mode of each group that is not managed, also of those that a pattern names.

    Iterating yields only the groups that tables name themselves.
    """

    def __init__(self, tables: Mapping[str, GroupSection]) -> None:
        self._tables = tables
        self._any = any(section.mode != "managed" for section in tables.values())
        self._known: dict[str, Mode] = {}

    def _mode(self, group: str) -> Mode:
        if not self._any:
            return "managed"
        mode = self._known.get(group)
        if mode is None:
            name = table_of(self._tables, group)
            mode = self._known[group] = "managed" if name is None else self._tables[name].mode
        return mode

    def __getitem__(self, group: str) -> Mode:
        mode = self._mode(group)
        if mode == "managed":
            raise KeyError(group)
        return mode

    def __iter__(self) -> Iterator[str]:
        return (
            name
            for name, section in self._tables.items()
            if section.mode != "managed" and not is_pattern(name)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
