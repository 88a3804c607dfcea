"""The vocabulary of the log: every event that the daemon writes, its level, its fields, and what it means.

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


def _events(level: str, *rows: tuple[str, str, str]) -> tuple[Event, ...]:
    return tuple(
        Event(name, level, tuple(fields.split()), meaning) for name, fields, meaning in rows
    )


VOCABULARY: tuple[Event, ...] = (
    # The daemon.
    *_events(
        "info",
        ("daemon.started", "bootstrap prefix version", "It is up and reads its topics."),
        ("daemon.leading", "planner_epoch groups", "It has read everything and plans from now on."),
        ("daemon.stopped", "reason", "It has stopped in good order."),
    ),
    *_events("info", ("metrics.listening", "address", "Metrics are served there, for Prometheus.")),
    *_events(
        "error",
        ("daemon.failed", "error", "It stops because it cannot go on; the text says what to do."),
    ),
    # What the control decides.
    *_events(
        "info",
        (
            "plan.published",
            "group group_epoch plan_id strategy reason members moved moves before after lag_at metadata_at certificate",
            "A plan was decided and published: why, what moves, the score before and after.",
        ),
        (
            "plan.confirmed",
            "group plan_id reason before after at",
            "Racks changed, and the plan that stands is still the best.",
        ),
        (
            "plan.suppressed",
            "group reason why moved before after again_in",
            "A trigger asked for a plan and got none: no gain, cool-down, or over budget; it is considered again.",
        ),
        (
            "plan.judged",
            "group promised brought kept cool_down",
            "At the end of its cool-down: whether a plan brought what it promised.",
        ),
        (
            "trigger.seen",
            "group kind at since evidence",
            "The pipeline found a cause to plan a group anew.",
        ),
        ("trigger.ended", "group kind", "The cause no longer stands."),
        ("member.joined", "group instance incarnation rack topics", "A member announced itself."),
        ("member.left", "group instance incarnation", "A member left in good order."),
        (
            "handover.advanced",
            "group group_epoch granted revoking pending",
            "Partitions were granted or taken back; what is still under way.",
        ),
        (
            "handover.settled",
            "group group_epoch seconds",
            "Every partition is where the plan wants it.",
        ),
    ),
    *_events(
        "warning",
        (
            "member.evicted",
            "group instance incarnation why",
            "A member is gone, stuck, or was replaced.",
        ),
        (
            "member.refused",
            "group instance incarnation code epoch",
            "A member could not apply a record.",
        ),
        (
            "plan.held",
            "group topics",
            "A plan waits for topics that the observer has not told of yet; nothing is taken away meanwhile.",
        ),
        (
            "group.frozen",
            "group silent members for_seconds",
            "Most members fell silent at once: nothing moves for so long.",
        ),
        (
            "partition.unsplittable",
            "group topic partition lag skew",
            "One partition alone skews its group, and no plan can mend that: spread its keys, or speed up its consumer.",
        ),
    ),
    *_events(
        "error",
        (
            "plan.failed",
            "group reason again_in error",
            "A plan could not be made: a bug, with its trace; the group stays as it is, others go on.",
        ),
        (
            "member.contested",
            "group instance",
            "Processes under one instance name replace each other: none is admitted until one is left.",
        ),
    ),
    # The observer.
    *_events(
        "debug",
        ("observer.topic_changed", "topic id partitions", "A topic's layout was published anew."),
    ),
    *_events(
        "info",
        (
            "observer.recovered",
            "brokers topics",
            "What was published before this start was read back.",
        ),
        ("observer.broker_online", "broker rack", "A broker is there."),
        ("observer.racks_changed", "topics partitions examples", "Replicas moved to other racks."),
        ("observer.topic_gone", "topic", "A topic was deleted."),
        ("observer.topic_readable", "topic", "A topic can be described again."),
        (
            "observer.offsets_known",
            "topics partitions examples",
            "Offsets that could not be read can be again.",
        ),
        ("observer.resumed", "tick seconds", "The cluster answers again, after so long."),
    ),
    *_events(
        "warning",
        (
            "observer.broker_offline",
            "broker rack",
            "A broker is away; its last known rack is kept.",
        ),
        (
            "observer.topic_unreadable",
            "topic error",
            "A topic may not be described; grant the right, or exclude it.",
        ),
        (
            "observer.offsets_unknown",
            "error topics partitions examples",
            "Offsets of some partitions cannot be read for now.",
        ),
        (
            "observer.racks_unknown",
            "brokers",
            "Replicas are on brokers that were never seen: their racks are unknown.",
        ),
        (
            "observer.tick_skipped",
            "tick reason held_back",
            "A tick was still at work when the next was due.",
        ),
        (
            "observer.unreachable",
            "tick error",
            "The cluster does not answer; it is asked again, ever more seldom.",
        ),
        ("observer.producer_renewed", "error", "The producer of the metadata had to be made anew."),
    ),
    *_events(
        "error",
        (
            "observer.tick_failed",
            "tick error traceback",
            "A tick failed unexpectedly: a bug; the next goes on.",
        ),
    ),
    # Our topics.
    *_events("debug", ("publisher.published", "records seconds", "A transaction was committed.")),
    *_events(
        "info",
        ("topics.created", "topic partitions replication", "A topic of ours was made."),
        ("log_reader.caught_up", "records seconds", "All that stood in our topics was read."),
        ("log_reader.resumed", "seconds", "The cluster answers again, after so long."),
        (
            "publisher.ready",
            "transactional_id",
            "This daemon is the planner; any older one is fenced.",
        ),
    ),
    *_events(
        "warning",
        (
            "topics.drifted",
            "topic setting expected found",
            "A topic of ours is not set as it should be; it is left as it is.",
        ),
        (
            "topics.not_everywhere",
            "broker error",
            "A broker does not know a new topic of ours yet.",
        ),
        ("topics.unchecked", "topic error", "The settings of a topic of ours may not be read."),
        (
            "record.rejected",
            "topic partition offset reason total held_back",
            "A record of our topics is not what its schema says; it is counted and passed over.",
        ),
        (
            "record.misplaced",
            "topic partition name",
            "A record stands in another partition than its name's: passed over; its writer counts partitions wrongly.",
        ),
        (
            "log_reader.unreachable",
            "error",
            "The cluster does not answer; what is known stays in force.",
        ),
        (
            "log_reader.troubled",
            "error code topic partition held_back",
            "Reading met an error and goes on.",
        ),
        (
            "publisher.aborted",
            "transactional_id",
            "A transaction was aborted; nothing of it is seen.",
        ),
        (
            "publisher.left_open",
            "error",
            "At the end a transaction was left for the brokers to abort.",
        ),
        (
            "publisher.retrying",
            "error again_in",
            "Publishing failed; assignments stay as they are until it succeeds.",
        ),
    ),
    *_events("critical", ("log_reader.died", "error", "The control is deaf: the daemon stops.")),
    # The pipeline's process.
    *_events(
        "debug",
        (
            "pipeline.batch",
            "batch rows rows_per_second batch_ms durations behind newest delay_ms state_rows state_bytes rejected skipped",
            "One batch of the query, for the metrics.",
        ),
        ("pipeline.trace", "error", "What the query died of, in Spark's words."),
    ),
    *_events(
        "info",
        ("pipeline.starting", "attempt", "The pipeline's process is being started."),
        ("pipeline.started", "seconds", "The query runs."),
        (
            "pipeline.progress",
            "batch rows rows_per_second batch_ms behind newest state_rows state_bytes skipped",
            "What the query did in a batch; at most every ten seconds.",
        ),
        (
            "pipeline.catching_up",
            "percent seconds_left behind rows_per_second",
            "The query is behind its input: until it has caught up, lag is as of what was read so far.",
        ),
        (
            "pipeline.caught_up",
            "seconds rows rows_per_second rebuilt",
            "Everything that was there is read; `rebuilt`: state was built anew from the topics.",
        ),
        (
            "pipeline.former_doubted",
            "keys",
            "So many lag records and triggers of a former state were not said again: those that nobody stands by end.",
        ),
    ),
    *_events(
        "warning",
        (
            "pipeline.rejected",
            "batch rejected",
            "Records could not be read, by reason; they are in the dead letters.",
        ),
        (
            "pipeline.checkpoint_set_aside",
            "moved_to reason",
            "The checkpoint was damaged, another version's or another cluster's; state is rebuilt from the topics.",
        ),
    ),
    *_events(
        "error",
        (
            "pipeline.failed",
            "error cause rebuild",
            "The query ended: of what, whose fault it is, and whether its checkpoint is given up.",
        ),
        (
            "pipeline.died",
            "exit_code attempt restart_in",
            "Its process ended; it is started again.",
        ),
        ("pipeline.gave_up", "attempts window", "It died too often; the daemon stops."),
    ),
    *_events(
        "info",
        (
            "library.said",
            "library text",
            "A line of a library that levelwind runs on; its level is the library's own, and info for Spark's.",
        ),
    ),
)

EVENTS = {event.name: event for event in VOCABULARY}


def level_of(event: str) -> str:
    """Return the level that an event is written at."""
    return EVENTS[event].level


def table() -> str:
    """Return the vocabulary as the README shows it."""
    rows = (f"| `{event.name}` | {event.level} | {event.meaning} |" for event in VOCABULARY)
    return "\n".join(("| event | level | meaning |", "|---|---|---|", *rows))
