"""The vocabulary of the log: every event that levelwind writes, its level, its fields, and what it means.

The README's table is this one, and a test holds both and the code's own log calls together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One word of the vocabulary."""

    name: str
    level: str
    fields: tuple[str, ...]
    meaning: str


def _event(name: str, level: str, fields: str, meaning: str) -> Event:
    return Event(name, level, tuple(fields.split()), meaning)


VOCABULARY: tuple[Event, ...] = (
    _event("daemon.started", "info", "bootstrap prefix version", "The daemon is up and reads its topics."),
    _event(
        "daemon.leading",
        "info",
        "planner_epoch groups seconds",
        "It has read everything and plans from now on.",
    ),
    _event("daemon.stopped", "info", "reason", "It has stopped in good order."),
    _event("daemon.failed", "error", "error", "It stops because it cannot go on; the text says what to do."),
    _event(
        "plan.published",
        "info",
        "group group_epoch plan_id strategy reason members moved moves before after predicted_gain",
        "A plan was decided and published: why, what moves, the score before and after.",
    ),
    _event(
        "plan.confirmed",
        "info",
        "group plan_id reason before after",
        "New metadata was considered; the plan that stands is still the best.",
    ),
    _event(
        "plan.suppressed",
        "info",
        "group reason why before after moved until",
        "A plan was asked for and not published: no gain, cool-down, or over budget.",
    ),
    _event(
        "plan.judged",
        "info",
        "group promised brought kept cool_down",
        "At the end of its cool-down: whether a plan brought what it promised.",
    ),
    _event(
        "partition.unsplittable",
        "warning",
        "group topic partition lag share",
        "One partition alone skews the group; no plan can mend that: split the key or speed up its consumer.",
    ),
    _event(
        "group.frozen",
        "warning",
        "group silent members until",
        "Most members fell silent at once: nothing moves.",
    ),
    _event("member.joined", "info", "group instance incarnation rack topics", "A member announced itself."),
    _event("member.left", "info", "group instance incarnation", "A member left in good order."),
    _event(
        "member.evicted", "warning", "group instance incarnation why", "A member is gone or was replaced."
    ),
    _event(
        "member.refused",
        "warning",
        "group instance incarnation code epoch",
        "A member could not apply a record.",
    ),
    _event(
        "handover.advanced",
        "info",
        "group group_epoch granted revoking pending",
        "Members gave partitions up or took them; what is still under way.",
    ),
    _event(
        "handover.settled",
        "info",
        "group group_epoch seconds",
        "The target is reached: every partition is where it should be.",
    ),
    _event(
        "trigger.seen",
        "info",
        "group kind at since evidence",
        "The pipeline found a cause to plan a group anew.",
    ),
    _event("trigger.ended", "info", "group kind", "The cause no longer stands."),
    _event("pipeline.starting", "info", "attempt", "The pipeline's process is being started."),
    _event("pipeline.started", "info", "seconds", "The query runs."),
    _event(
        "pipeline.progress",
        "info",
        "batch rows rows_per_second batch_ms state_rows rejected",
        "What the query did, at most every ten seconds.",
    ),
    _event(
        "pipeline.died",
        "error",
        "exit_code attempt restart_in",
        "Its process ended by itself; it is started again.",
    ),
    _event("pipeline.gave_up", "error", "attempts window", "It died too often; the daemon stops."),
    _event("library.said", "warning", "library text", "A line of a library that levelwind runs on."),
)

EVENTS = {event.name: event for event in VOCABULARY}
