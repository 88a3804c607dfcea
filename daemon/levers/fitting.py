"""Whether an order fits what is known of its group. Pure."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import (
    ALL_GROUPS,
    MemberRecord,
    ProposalRecord,
    TopicRecord,
    encode,
)
from levelwind.assignors.registry import OPTIONS, STRATEGIES
from levelwind.daemon.control.lever_set import LeverSet
from levelwind.daemon.control.schedule.lever_changes import recovered_proposals
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.levers.orders import OPTION_OF, RELEASES, OrderError

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import OperatorRecord
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.levers.orders import OperatorOrder, Records

CLIENT_MESSAGE_BYTES = 1_000_000
"""The largest message that a Kafka client sends by default (`message.max.bytes`)."""
ENVELOPE_BYTES = 1_000
"""Room for the headers of a message and of its batch."""


def check_fits(settings: Settings, records: Records, order: OperatorOrder) -> list[str]:
    """Check an order against what is known; return what the operator should know besides.

    Raises:
        NotFoundError: the group, the proposal, or the lever to release is not there.
        OrderError: the group's strategy does not take the lever, or there is no such strategy.
    """
    groups = _groups(records)
    if order.group != ALL_GROUPS and order.group not in groups:
        raise NotFoundError(_unknown_group(order.group, groups))
    levers = LeverSet.of_records(record for kind, record in records if kind == "control")
    _check_released(levers, order)
    _check_approved(records, order)
    notes = _strategy_notes(settings, levers, order)
    if order.action == "rollback":
        notes.append(
            f"the group is paused with it, so that no trigger undoes it: `levelwind resume"
            f" {order.group}` ends that"
        )
    return notes + _absent(records, order)


def check_size(settings: Settings, request: OperatorRecord) -> None:
    """Check that a request fits into one message, since it has no shards.

    Raises:
        OrderError: it does not; so nothing of the order is written, nor audited.
    """
    key, value = encode(request)
    most = int(settings.kafka.get("message.max.bytes", CLIENT_MESSAGE_BYTES)) - ENVELOPE_BYTES
    if len(key) + len(value) > most:
        raise OrderError(
            f"{request.action}: the assignment takes {len(key) + len(value):,} bytes, and a request"
            f" has {most:,} at most: partitions of a member that are neighbours take less; or reach"
            " the same by pins and drains. Where brokers accept more, set `message.max.bytes` in"
            f" [kafka], and `max.message.bytes` of the topic {settings.topics.control}"
        )


def _groups(records: Records) -> set[str]:
    found = {getattr(record, "group", None) for _, record in records}
    return {name for name in found if isinstance(name, str) and name != ALL_GROUPS}


def _unknown_group(name: str, groups: set[str]) -> str:
    similar = get_close_matches(name, groups, n=3)
    hint = f"; the nearest are {', '.join(similar)}" if similar else ""
    return f"no group {name!r} is known here{hint}: `levelwind groups` lists them"


def _check_released(levers: LeverSet, order: OperatorOrder) -> None:
    kind = RELEASES.get(order.action)
    if order.action == "strategy" and not order.value:
        kind = "strategy"
    if kind is None:
        return

    def holds_for(group: str) -> bool:
        own = levers.by_group.get(group, ())
        return any(r.kind == kind and r.subject == (order.subject or r.subject) for r in own)

    if holds_for(order.group):
        return
    what = f"{kind} {order.subject}".strip()
    if holds_for(ALL_GROUPS):
        raise NotFoundError(f"the lever {what!r} holds for all groups: release it with group '*'")
    raise NotFoundError(f"group {order.group!r} has no lever {what!r} to release")


def _check_approved(records: Records, order: OperatorOrder) -> None:
    if order.action != "approve":
        return
    waiting: ProposalRecord | None = recovered_proposals(records).get(order.group)
    if waiting is None:
        raise NotFoundError(f"no plan of group {order.group!r} waits for approval")
    if order.subject != waiting.plan_id:
        raise NotFoundError(
            f"plan {order.subject} does not wait for approval; {waiting.plan_id} does"
        )


def _strategy_notes(settings: Settings, levers: LeverSet, order: OperatorOrder) -> list[str]:
    """Check that the group's strategy takes the lever.

    Raises:
        OrderError: it does not, or there is no such strategy.
    """
    if order.action == "strategy" and order.value and order.value not in STRATEGIES:
        raise OrderError(
            f"{order.value!r} is no strategy; there are {', '.join(sorted(STRATEGIES))}"
        )
    if order.group == ALL_GROUPS:
        return []
    planning = levers.of(order.group).planning(settings.planning_of(order.group))
    option = OPTION_OF.get(order.action)
    if option is not None and option not in OPTIONS.get(planning.strategy, {}):
        takers = [name for name, taken in sorted(OPTIONS.items()) if option in taken]
        raise OrderError(
            f"{order.action}: strategy {planning.strategy!r} of group {order.group!r} knows no"
            f" {option}; `levelwind strategy {order.group} {takers[0]}` first"
        )
    if order.action == "strategy" and order.value:
        accepted = OPTIONS.get(order.value, {})
        lost = sorted(name for name in planning.options if name not in accepted)
        return [f"strategy {order.value!r} takes no {name}: it is without effect" for name in lost]
    return []


def _absent(records: Records, order: OperatorOrder) -> list[str]:
    """Return what an order names that is not there now; such a lever waits for it."""
    latest = {(kind, record.key): record for kind, record in records}
    members = {
        record.instance: record
        for record in latest.values()
        if isinstance(record, MemberRecord)
        and order.group in (record.group, ALL_GROUPS)
        and record.state != "left"
    }
    if order.action == "pin":
        topic, number = ranges.parse_partition(order.subject)
        layout = latest.get(("metadata", ("topic", topic)))
        if isinstance(layout, TopicRecord) and number >= layout.partitions:
            raise OrderError(
                f"topic {topic!r} has no partition {number}: it has {layout.partitions}"
            )
        if members and order.value not in members:
            return [f"no member {order.value!r} is there now: the pin waits for it"]
    if order.action == "drain" and members and order.subject not in members:
        return [f"no member {order.subject!r} is there now: the drain waits for it"]
    racks = {record.rack for record in members.values()}
    if order.action == "evacuate" and members and order.subject not in racks:
        return [f"no member is in rack {order.subject!r} now"]
    return []
