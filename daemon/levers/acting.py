"""Acting on an order: checked, previewed, and written only when asked to. One function for all.

An order becomes a lever or a request in `levelwind.control`, which any daemon follows that leads,
and an entry of the audit trail. The entry is written first: what is in force was audited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.protocol.records import (
    ALL_GROUPS,
    NO_SUBJECT,
    LeverRecord,
    OperatorRecord,
    Tombstone,
)
from levelwind.daemon.decisions.encoding import entry_parts
from levelwind.daemon.decisions.reading import find_decision
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.kafka.record_writer import outgoing, write
from levelwind.daemon.kafka.topic_reader import CONTROL_KINDS, read_to_end
from levelwind.daemon.kafka.topic_setup import partition_counts
from levelwind.daemon.levers.fitting import check_fits, check_size
from levelwind.daemon.levers.orders import OperatorOrder, OrderError
from levelwind.daemon.levers.preview import PlanPreview, levers_in_force, preview
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.assignors.protocol.records import DecisionPart, Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.levers.orders import Operator, Records


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOutcome:
    """What an order changes, or would change."""

    order: OperatorOrder
    executed: bool
    """Whether it was written; the daemon that leads follows it at once."""
    before: tuple[LeverRecord, ...]
    """The levers that held for the group."""
    after: tuple[LeverRecord, ...]
    """The levers that hold with the order."""
    preview: PlanPreview | None
    """The plan that follows; None where none does."""
    notes: tuple[str, ...]
    """What an operator should know beside it."""

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for a program."""
        return {
            "order": self.order.as_json(),
            "executed": self.executed,
            "before": [lever.as_json() for lever in self.before],
            "after": [lever.as_json() for lever in self.after],
            "preview": None if self.preview is None else self.preview.as_json(),
            "notes": list(self.notes),
        }


def read_records(settings: Settings) -> list[tuple[TopicKind, Record | Tombstone]]:
    """Return the records that orders are checked against, to the present end of the topics.

    Raises:
        NotFoundError: the cluster does not have levelwind's topics yet.
        ClusterUnavailableError: the cluster does not answer.
    """
    return _read(settings, CONTROL_KINDS)


def read_control(settings: Settings) -> list[tuple[TopicKind, Record | Tombstone]]:
    """Return the levers, requests and proposals, to the present end of their topic.

    Raises:
        NotFoundError: the cluster does not have levelwind's topics yet.
        ClusterUnavailableError: the cluster does not answer.
    """
    return _read(settings, ("control",))


def _read(
    settings: Settings, kinds: tuple[TopicKind, ...]
) -> list[tuple[TopicKind, Record | Tombstone]]:
    read = read_to_end(settings.client(), settings.topics, kinds, timeout=settings.topic.timeout)
    return [(entry.kind, entry.record) for entry in read]


def act(
    settings: Settings,
    order: OperatorOrder,
    operator: Operator,
    *,
    reason: str = "",
    execute: bool = False,
    records: Records | None = None,
) -> OrderOutcome:
    """Say what an order changes; with `execute` write it, and audit who gave it when and why.

    Args:
        settings: the settings.
        order: the order.
        operator: who gives it.
        reason: why.
        execute: whether to act; a dry run otherwise, which writes nothing.
        records: the records of levelwind's topics; None: they are read.

    Raises:
        NotFoundError: the group, the plan, or the lever to release is not there.
        OrderError: the order does not fit the group; the text says why.
        ClusterUnavailableError: the cluster does not answer, or did not acknowledge the order.
    """
    known = read_records(settings) if records is None else records
    at = now_ms()
    notes: list[str] = check_fits(settings, known, order)
    written = records_of(settings, order, operator, at, reason)
    levers = [record for record in written if not isinstance(record, OperatorRecord)]
    request = next((it for it in written if isinstance(it, OperatorRecord)), None)
    if request is not None:
        check_size(settings, request)
    before = levers_in_force(known, order.group)
    after = levers_in_force([*known, *(("control", it) for it in levers)], order.group)
    follows = _preview(settings, known, order, levers, request, at)
    if execute:
        write_order(settings, order, operator, at, reason, written)
    return OrderOutcome(
        order=order,
        executed=execute,
        before=tuple(before),
        after=tuple(after),
        preview=follows,
        notes=tuple(notes),
    )


def records_of(
    settings: Settings, order: OperatorOrder, operator: Operator, at: int, reason: str
) -> list[LeverRecord | OperatorRecord | Tombstone]:
    """Return the records that an order becomes; a rollback also pauses the group.

    Raises:
        NotFoundError: there is no plan to roll back to.
        OrderError: a record cannot hold a text of the order; so nothing is written, nor audited.
        ClusterUnavailableError: the cluster does not answer.
    """
    written = _records(settings, order, operator, at, reason)
    try:
        for record in _audit_entry(order, operator, at, reason):
            outgoing(settings.topics, "decisions", record, partitions=1)
        for each in written:
            outgoing(settings.topics, "control", each, partitions=1)
    except WireError as error:
        raise OrderError(f"{order.action}: {error}") from error
    return written


def _records(
    settings: Settings, order: OperatorOrder, operator: Operator, at: int, reason: str
) -> list[LeverRecord | OperatorRecord | Tombstone]:
    lever = order.lever(operator, at, reason)
    if lever is not None:
        return [lever]
    if order.action == "rollback":
        back = find_decision(settings, order.subject, order.group)
        pause = LeverRecord(
            group=order.group,
            kind="pause",
            subject=NO_SUBJECT,
            at=at,
            by=operator.name,
            reason=reason or f"rollback to {order.subject}",
            setting=None,
        )
        return [
            pause,
            OperatorRecord(
                group=order.group,
                at=at,
                by=operator.name,
                action="apply",
                reason=reason,
                plan=back.plan_id,
                target=back.target,
            ),
        ]
    action = order.action
    if action not in {"rebalance", "apply", "approve"}:
        raise OrderError(f"{action}: becomes no record")
    return [
        OperatorRecord(
            group=order.group,
            at=at,
            by=operator.name,
            action=action,
            reason=reason,
            plan=order.subject or None,
            target=order.target,
        )
    ]


def _preview(
    settings: Settings,
    known: Records,
    order: OperatorOrder,
    levers: Sequence[LeverRecord | Tombstone],
    request: OperatorRecord | None,
    at: int,
) -> PlanPreview | None:
    """Return the plan that follows an order about one group; None where none does."""
    if order.group == ALL_GROUPS or order.action == "pause":
        return None
    try:
        return preview(settings, known, order.group, levers=levers, request=request, at=at)
    except NotFoundError:
        if request is None:
            return None  # a lever for members that come later
        raise


def _audit_entry(
    order: OperatorOrder, operator: Operator, at: int, reason: str
) -> list[DecisionPart]:
    """Return the entry of an order in the audit trail.

    Raises:
        WireError: a record cannot hold a text of the order.
    """
    return entry_parts(
        group=order.group,
        at=at,
        outcome="ordered",
        cause=order.action,
        plan_id=order.subject if order.action in {"rollback", "approve"} else None,
        body={
            "kind": "lever",
            "by": operator.name,
            "reason": reason,
            "order": {name: text for name, text in order.as_json().items() if name != "target"},
        },
    )


def write_order(
    settings: Settings,
    order: OperatorOrder,
    operator: Operator,
    at: int,
    reason: str,
    written: Sequence[LeverRecord | OperatorRecord | Tombstone],
) -> None:
    """Write an order: its entry of the audit trail, then the records that it becomes.

    Raises:
        NotFoundError: the cluster has no audit trail yet.
        ClusterUnavailableError: the cluster does not answer, or did not acknowledge the order.
    """
    counts = partition_counts(settings.client(), settings.topics, settings.topic)
    if settings.topics.decisions not in counts:
        raise NotFoundError(
            f"the cluster has no topic {settings.topics.decisions}: start a daemon of this version,"
            " which makes it"
        )
    topics, timeout = settings.topics, settings.topic.timeout
    audited = [
        message
        for part in _audit_entry(order, operator, at, reason)
        for message in outgoing(topics, "decisions", part, counts[topics.decisions])
    ]
    write(settings.client(), audited, timeout=timeout)
    messages = [
        message for it in written for message in outgoing(topics, "control", it, partitions=1)
    ]
    write(settings.client(), messages, timeout=timeout)
