"""Replica racks of a group's topics, compared with those that its last plan was computed from.

A plan names the racks that it was computed from, and since when they were so. A layout older than
that is no news; a newer and different one is a change, even if no running process has seen it
happen. A plan of an older daemon names no racks: it counts as computed from the layout known at its
`metadata_at`. Without any plan, later racks are compared with those that were seen first. All
functions are pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import RacksEvidence
from levelwind.streaming.group.read_topics import read_by
from levelwind.streaming.group.state import GroupState, Layout
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.racks import changes

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import GroupRecord, PlannedTopic, RackChange
    from levelwind.streaming.messages.rows import RacksRow

MAX_LAYOUTS = 16
"""Layouts kept of a topic between two plans: the oldest, which is the plan's, and the newest."""


def with_layout(state: GroupState, row: RacksRow) -> GroupState:
    """Apply a topic's racks: a new layout, or the current one to a group that newly reads it."""
    committed_topics = (
        state.committed_topics | {row.topic} if row.committed else state.committed_topics
    )
    known = state.layouts.get(row.topic, ())
    layout = Layout(at=row.at, racks=row.racks)
    if (
        not known
        or state.topic_ids.get(row.topic) != row.id
        or (row.at <= state.plan_metadata_at and not known[0].from_plan)
    ):
        layouts: tuple[Layout, ...] = (layout,)
    elif row.at <= known[-1].at or row.racks == known[-1].racks:
        return replace(state, committed_topics=committed_topics)
    else:
        layouts = (*known[:1], *known[1:][-MAX_LAYOUTS + 2 :], layout)
    return replace(
        state,
        committed_topics=committed_topics,
        layouts={**state.layouts, row.topic: layouts},
        topic_ids={**state.topic_ids, row.topic: row.id},
        racks_sources={**state.racks_sources, row.topic: row.source},
    )


def with_plan(state: GroupState, record: GroupRecord) -> GroupState:
    """Apply a plan that was published, or that was confirmed against newer metadata."""
    metadata_at = UNKNOWN if record.metadata_at is None else record.metadata_at
    plan_metadata_at = max(state.plan_metadata_at, metadata_at)
    layouts, topic_ids = {}, dict(state.topic_ids)
    for topic, known in state.layouts.items():
        older = sum(1 for layout in known if layout.at <= plan_metadata_at)
        layouts[topic] = known if known[0].from_plan else known[max(older - 1, 0) :]
    for topic, planned in record.topics.items():
        since_plan = _layouts_since_plan(
            planned, state.topic_ids.get(topic), state.layouts.get(topic, ())
        )
        if since_plan is not None:
            layouts[topic], topic_ids[topic] = since_plan, planned.id
    return replace(
        state,
        plan_metadata_at=plan_metadata_at,
        planned_topics=frozenset(record.topics),
        layouts=layouts,
        topic_ids=topic_ids,
    )


def _layouts_since_plan(
    planned: PlannedTopic, known_id: str | None, known: tuple[Layout, ...]
) -> tuple[Layout, ...] | None:
    """The layout that a plan names, and the newer ones of `known`.

    None: the plan names no racks, or it is about a former topic of that name.
    """
    if planned.racks is None:
        return None
    base = Layout(at=planned.racks.at, racks=planned.racks.racks, from_plan=True)
    if not known:
        return (base,)
    if known_id != planned.id:
        return (base,) if base.at > known[-1].at else None
    return (base, *(replace(layout, from_plan=False) for layout in known if layout.at > base.at))


def without_plan(state: GroupState) -> GroupState:
    """Drop the plan; later racks are still compared with those that it was computed from."""
    return replace(state, plan_metadata_at=UNKNOWN, planned_topics=frozenset())


def changed_racks(state: GroupState) -> tuple[RacksEvidence, int] | None:
    """The partitions whose racks differ from the plan's, and the time of the first such layout.

    None: the racks of all topics that the group reads are those of the plan.
    """
    topics: dict[str, dict[int, RackChange]] = {}
    since: list[int] = []
    for topic in sorted(read_by(state)):
        known = state.layouts.get(topic, ())
        if len(known) > 1 and (found := changes(known[0].racks, known[-1].racks)):
            topics[topic] = found
            since.append(known[1].at)
    return (RacksEvidence(topics=topics), min(since)) if topics else None


def racks_source(state: GroupState, evidence: RacksEvidence) -> dict[str, int]:
    """The offset of the newest record that the evidence is from, by "topic/partition" of the input.

    Records of other topics do not count: how many of them were read by then depends on the batches.
    """
    newest: dict[str, int] = {}
    for topic in evidence.topics:
        for partition, offset in state.racks_sources.get(topic, {}).items():
            newest[partition] = max(offset, newest.get(partition, offset))
    return newest
