"""Whether a group's topics still have the replica racks that its last plan rested on. Pure functions of its state.

A plan of ours says itself what racks it rested on, and since when they were: what is older than that says nothing, what
is newer and differs is a change, though nobody who runs today has seen it happen. Where the plan does not say (it is an
older daemon's), it rested on the layout that was known at its `metadata_at`. Without any plan the racks that were seen
first are what later ones are compared with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from assignors.protocol.records import RacksEvidence
from streaming.group.state import (
    GroupState,
    Layout,
)
from streaming.rules.event_time import UNKNOWN
from streaming.rules.racks import changes

if TYPE_CHECKING:
    from assignors.protocol.records import GroupRecord, PlannedTopic, RackChange
    from streaming.messages.rows import RacksRow

MAX_LAYOUTS = 16
"""Between two plans; the oldest, which is the plan's, is kept."""


def laid_out(state: GroupState, row: RacksRow) -> GroupState:
    """A topic's racks are told: they are new, or told again, as to each group that comes to the topic."""
    committed = state.committed | {row.topic} if row.committed else state.committed
    known = state.layouts.get(row.topic, ())
    new = Layout(at=row.at, racks=row.racks)
    if (
        not known
        or state.ids.get(row.topic) != row.id
        or (row.at <= state.planned_at and not known[0].planned)
    ):
        layouts: tuple[Layout, ...] = (new,)
    elif row.at <= known[-1].at or row.racks == known[-1].racks:
        return replace(state, committed=committed)
    else:
        layouts = (*known[:1], *known[1:][-MAX_LAYOUTS + 2 :], new)
    return replace(
        state,
        committed=committed,
        layouts={**state.layouts, row.topic: layouts},
        ids={**state.ids, row.topic: row.id},
        racks_sources={**state.racks_sources, row.topic: row.source},
    )


def planned(state: GroupState, record: GroupRecord) -> GroupState:
    """A plan was published, or held against newer metadata."""
    planned_at = max(
        state.planned_at, UNKNOWN if record.metadata_at is None else record.metadata_at
    )
    layouts, ids = {}, dict(state.ids)
    for topic, known in state.layouts.items():
        seen = sum(1 for layout in known if layout.at <= planned_at)
        layouts[topic] = known if known[0].planned else known[max(seen - 1, 0) :]
    for topic, covered in record.topics.items():
        if (
            based := _based(covered, state.ids.get(topic), state.layouts.get(topic, ()))
        ) is not None:
            layouts[topic], ids[topic] = based, covered.id
    return replace(
        state, planned_at=planned_at, by_plan=frozenset(record.topics), layouts=layouts, ids=ids
    )


def _based(
    covered: PlannedTopic, known_id: str | None, known: tuple[Layout, ...]
) -> tuple[Layout, ...] | None:
    """The layouts from the plan's own on; None: the plan does not say, or speaks of a former topic of that name."""
    if covered.racks is None:
        return None
    base = Layout(at=covered.racks.at, racks=covered.racks.racks, planned=True)
    if not known:
        return (base,)
    if known_id != covered.id:
        return (base,) if base.at > known[-1].at else None
    return (base, *(replace(layout, planned=False) for layout in known if layout.at > base.at))


def unplanned(state: GroupState) -> GroupState:
    """The plan is gone; what it rested on stays what later racks are compared with."""
    return replace(state, planned_at=UNKNOWN, by_plan=frozenset())


def changed(state: GroupState) -> tuple[RacksEvidence, int] | None:
    """What differs from the plan's racks, and since when."""
    topics: dict[str, dict[int, RackChange]] = {}
    since: list[int] = []
    for topic in sorted(state.committed | state.by_plan):
        known = state.layouts.get(topic, ())
        if len(known) > 1 and (found := changes(known[0].racks, known[-1].racks)):
            topics[topic] = found
            since.append(known[1].at)
    return (RacksEvidence(topics=topics), min(since)) if topics else None


def source(state: GroupState, evidence: RacksEvidence) -> dict[str, int]:
    """By "topic/partition" of the input, the newest record that the evidence rests on.

    Records of other topics do not count: how many of them were read by then depends on the batches.
    """
    newest: dict[str, int] = {}
    for topic in evidence.topics:
        for log, offset in state.racks_sources.get(topic, {}).items():
            newest[log] = max(offset, newest.get(log, offset))
    return newest
