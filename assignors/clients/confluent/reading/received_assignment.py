"""Member's events from the planner's records, each with its log line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from levelwind.assignors.clients.confluent.event_log import log_event
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.protocol.records import MemberAssignment, Rejection, Tombstone, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.records.reassembly import Reassembly


def event_of_assignment(
    message: Any, identity: Mapping[str, object], reassembly: Reassembly
) -> ev.Event | None:
    """The event of a record about this member; logs what was received.

    A record that was cut gives its event once its head is read; a shard alone gives none.
    """
    read = decode("assignments", message.key(), message.value())
    whole = read if isinstance(read, Rejection) else reassembly.take(read)
    if whole is None and isinstance(read, MemberAssignment):
        whole = Rejection("not all shards of the record were read")
    match whole:
        case MemberAssignment() as record:
            log_event(
                logging.INFO,
                "member.assignment_received",
                **identity,
                epoch=record.member_epoch,
                state=record.state,
                assigned=sum(map(len, record.assigned.values())),
                pending=sum(map(len, record.pending.values())),
            )
            if record.state == "refused":
                log_event(logging.ERROR, "member.refused", **identity, reason=record.reason)
            return ev.AssignmentReceived(record)
        case Tombstone():
            return ev.AssignmentDeleted()
        case Rejection() as rejection:
            log_event(
                logging.ERROR,
                "member.assignment_rejected",
                **identity,
                reason=rejection.reason,
                offset=message.offset(),
            )
            code = "unknown-v" if rejection.other_version else "malformed"
            return ev.AssignmentRejected(_epoch(message), code)
    return None


def _epoch(message: Any) -> int:
    for name, value in message.headers() or ():
        if name == "epoch" and isinstance(value, bytes) and value.isdigit() and len(value) < 16:
            return int(value)
    return 0
