"""Levers in force: what operators have set beside the configuration file. Pure.

A lever wins over the file. A drain, an evacuation and a pin add to those of the file; a strategy
replaces the file's. A lever for all groups holds beside those of the group.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import (
    ALL_GROUPS,
    LeverKind,
    LeverRecord,
    Tombstone,
)
from levelwind.assignors.registry import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.daemon.control.settings import PlanSettings

LISTED: tuple[LeverKind, ...] = ("drain", "evacuate")
"""Levers that add a name to the list of the option of the same name."""

NECESSARY_STRATEGY = "optimal"
"""The strategy of plans that move only what must: it alone tells such moves from others."""


PAUSED = "/paused"
"""End of a digest that stands for a pause."""


@dataclass(frozen=True)
class GroupLevers:
    """The levers that hold for one group, its own and those of all groups."""

    records: tuple[LeverRecord, ...] = ()
    """In the order of their keys."""

    @cached_property
    def paused(self) -> bool:
        """Whether plans move only what must move."""
        return any(record.kind == "pause" for record in self.records)

    @cached_property
    def digest(self) -> str | None:
        """Name of what the levers ask of a plan; None where they ask nothing.

        The plan's record repeats it, so that a daemon that starts knows whether the plan in force
        was made under the levers in force.
        """
        named = [(r.kind, r.subject, r.setting) for r in self.records if r.kind != "pause"]
        settings = repr(sorted(named, key=repr)).encode()
        asked = hashlib.sha256(settings).hexdigest()[:16] if named else ""
        return (asked + PAUSED if self.paused else asked) or None

    def asks_beyond(self, planned: str | None) -> bool:
        """Whether the levers ask for another plan than one that was made under a digest.

        A pause asks for none; its end does if a plan was made meanwhile, which moved only what had
        to move.
        """
        planned, own = planned or "", self.digest or ""
        if planned.removesuffix(PAUSED) != own.removesuffix(PAUSED):
            return True
        return planned.endswith(PAUSED) and not self.paused

    def subjects(self, kind: LeverKind) -> tuple[str, ...]:
        """Return what the levers of a kind act on, sorted."""
        return tuple(sorted({record.subject for record in self.records if record.kind == kind}))

    def planning(self, of_file: PlanSettings) -> PlanSettings:
        """Return the settings that the group is planned by: those of the file under the levers.

        A strategy that this release does not know, as after one with more of them, changes nothing.
        """
        if not self.records:
            return of_file
        chosen = next((r.setting for r in self.records if r.kind == "strategy"), None)
        strategy = chosen if chosen in STRATEGIES else None
        options: dict[str, Any] = dict(of_file.options)
        for kind in LISTED:
            if subjects := self.subjects(kind):
                options[kind] = sorted({*options.get(kind, ()), *subjects})
        if pins := self._pins(of_file):
            options["pins"] = pins
        return replace(of_file, strategy=strategy or of_file.strategy, options=options)

    def _pins(self, of_file: PlanSettings) -> dict[str, dict[str, str]]:
        """The pins of the file, and those of the levers, which win; empty without any lever."""
        set_here = [record for record in self.records if record.kind == "pin"]
        if not set_here:
            return {}
        pins: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for topic, owners in of_file.options.get("pins", {}).items():
            pins[topic] = {str(number): member for number, member in owners.items()}
        for record in set_here:
            topic, number = ranges.parse_partition(record.subject)
            pins[topic][str(number)] = record.setting or ""
        return dict(pins)


NO_LEVERS = GroupLevers()


def only_necessary(planning: PlanSettings) -> PlanSettings:
    """Return the settings of a plan that moves nothing but what cannot wait.

    That is what nobody reads, what its owner may not have, and what is drained or pinned.
    """
    options = {**planning.options, "max_moves": 0}
    return replace(planning, strategy=NECESSARY_STRATEGY, options=options)


@dataclass(frozen=True)
class LeverSet:
    """All levers in force."""

    by_group: Mapping[str, tuple[LeverRecord, ...]] = field(default_factory=dict)
    """The levers of each group that has any, and of `ALL_GROUPS`."""

    def of(self, group: str) -> GroupLevers:
        """Return the levers that hold for a group."""
        own = self.by_group.get(group, ())
        shared = self.by_group.get(ALL_GROUPS, ()) if group != ALL_GROUPS else ()
        if not own and not shared:
            return NO_LEVERS
        # Of two levers of one kind and subject the group's own counts.
        merged = {(r.kind, r.subject): r for r in (*shared, *own)}
        return GroupLevers(tuple(merged[key] for key in sorted(merged)))

    def after(self, record: LeverRecord | Tombstone) -> LeverSet:
        """Return the levers once one was set, or was released by the tombstone of its key."""
        group = str(record.key[1])
        others = {name: levers for name, levers in self.by_group.items() if name != group}
        own = LeverSet.of_records([*self.by_group.get(group, ()), record])
        return LeverSet({**others, **own.by_group})

    @property
    def records(self) -> list[LeverRecord]:
        """All levers, by their groups."""
        return [lever for _, levers in sorted(self.by_group.items()) for lever in levers]

    @classmethod
    def of_records(cls, records: Iterable[object]) -> LeverSet:
        """Return the levers that records leave in force; records of other kinds are skipped."""
        in_force: dict[tuple[str | int, ...], LeverRecord] = {}
        for record in records:
            if isinstance(record, LeverRecord):
                in_force[record.key] = record
            elif isinstance(record, Tombstone):
                in_force.pop(record.key, None)
        by_group: defaultdict[str, list[LeverRecord]] = defaultdict(list)
        for key in sorted(in_force, key=repr):
            by_group[in_force[key].group].append(in_force[key])
        return cls({group: tuple(levers) for group, levers in by_group.items()})
