"""Announcements: how each record of a member changes its group. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.handover.ledger import BELIEVED_EPOCH, Incarnation
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.members.duplicate_instances import InstanceConflict
from levelwind.daemon.control.members.existing_partitions import existing_only
from levelwind.daemon.control.members.live_member import Live, Profile
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.protocol.records import MemberRecord, TopicRecord
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.membership.subscribed_patterns import SubscribedPatterns

HOLDS_ON_SECONDS = 60.0
"""Time between two log lines about an evicted member that goes on."""


def as_taken_in(
    record: MemberRecord,
    group: ManagedGroup,
    topics: Mapping[str, TopicRecord],
    patterns: SubscribedPatterns,
) -> MemberRecord:
    """Return an announcement as its group takes it in.

    It names the topics that its pattern matches, and no partitions that no topic has.

    Args:
        record: the announcement.
        group: the group.
        topics: the layouts that are known, by topic.
        patterns: what patterns match among them.
    """
    return existing_only(patterns.resolved(record, topics), topics, group.granted)


def announced(
    group: ManagedGroup, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in an announcement: a join, a heartbeat, an acknowledgement, or a departure."""
    incarnation = Incarnation(record.instance, record.incarnation)
    group = _seen(group, incarnation, time)
    if record.state == "left":
        return _departed(group, incarnation, record, time)
    holding = group.ledger.holdings.get(incarnation)
    if incarnation in group.live:
        return _heartbeat(group, incarnation, record, time)
    if incarnation in group.refused:
        group, events = _acknowledged(group, incarnation, record, time)
        refused = {**group.refused, incarnation: Live(record, time.readable)}
        return replace(group, refused=refused), events
    if holding is not None and (holding.evicted or holding.left):
        return _evicted(group, incarnation, record, time)
    if incarnation in group.ledger.ended:
        # Its records were taken back: whatever wrote this is no member any more.
        return replace(group, ledger=group.ledger.end(incarnation)), []
    # Only a start meets a member that the ledger has and that is not live: it resumes.
    group, events = (group, []) if holding else records_lost(group, record, time)
    take_in = _claim if holding is None and record.owned else _join
    group, more = take_in(group, incarnation, record, time)
    return group, [*events, *more]


def repeated(
    group: ManagedGroup,
    record: MemberRecord,
    readable: float,
    topics: Mapping[str, TopicRecord],
    patterns: SubscribedPatterns,
    *,
    final: bool,
) -> bool:
    """Take in an announcement in place if it repeats the last one; return whether it does.

    A heartbeat puts off the time at which silence evicts the member, and changes nothing else. It
    does change a conflict of its instance, and a group that is frozen.

    Args:
        group: the group.
        record: the announcement, as its member wrote it.
        readable: readable time of the group's partition.
        topics: the layouts that are known, by topic.
        patterns: what patterns match among them.
        final: whether the table of layouts will not be changed any more.
    """
    incarnation = Incarnation(record.instance, record.incarnation)
    live = group.live.get(incarnation)
    if (
        live is None
        or live.holding is None
        or live.holding is not group.ledger.holdings.get(incarnation)
        or group.silent_together
        or record.instance in group.conflicts
    ):
        return False
    if record is not live.record or topics is not live.layouts:
        record = as_taken_in(record, group, topics, patterns)
        if not (record is live.record or record.repeats(live.record)):
            return False
    layouts = topics if final else None
    group.live[incarnation] = Live(record, readable, live.holding, layouts)
    return True


def records_lost(
    group: ManagedGroup, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Notice that an unknown member of a group without a plan has followed a planner.

    The records of that planner are lost. Until all of its members have announced themselves again,
    nobody knows what they use.
    """
    followed = 0 < record.planner_epoch <= BELIEVED_EPOCH
    if group.plan is not None or group.records_lost_at is not None or not followed:
        return group, []
    fields = {**group.member_fields(Incarnation(record.instance, record.incarnation))}
    lost = replace(group, records_lost_at=time.now)
    return lost, [LogEvent("group.records_lost", {**fields, "for_seconds": lost.longest_wait})]


def withdrawn(
    group: ManagedGroup, incarnation: Incarnation, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in that an announcement was deleted: by its member, or by the planner itself."""
    if incarnation in group.ledger.ended:  # by the planner
        return group, []
    group = _without_conflict(_seen(group, incarnation, time), incarnation)
    return group.leave(incarnation, time)


def _departed(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    group = _without_conflict(group, incarnation)
    if incarnation not in group.ledger.holdings:
        if incarnation in group.ledger.ended:
            return replace(group, ledger=group.ledger.end(incarnation)), []
        group, events = records_lost(group, record, time)
        if record.owned:
            group, evicted = _claim(group, incarnation, record, time)
            return group, [*events, *evicted]
        # Nothing was granted to it. It deletes its announcement itself, unless it died before.
        return replace(group, ledger=group.ledger.end(incarnation)), events
    if not record.owned:
        return group.leave(incarnation, time)
    group = replace(group, ledger=group.ledger.acknowledge(record, time))
    if group.ledger.holdings[incarnation].evicted:
        return group, []
    return group.evict(incarnation, "left with partitions", time)


def _join(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    instance = incarnation.instance
    older = [other for other in (*group.live, *group.refused) if other.instance == instance]
    conflict = group.conflicts.get(instance, InstanceConflict()).joined(
        incarnation.incarnation,
        replaces=older[0].incarnation if older else None,
        now=time.readable,
    )
    if older or conflict.open:
        group = replace(group, conflicts={**group.conflicts, instance: conflict})
    if conflict.open and not older:
        return group, []  # logged when the conflict began
    reason = (
        "several processes use its instance name"
        if conflict.open
        else "a newer incarnation of its instance has joined"
    )
    events: list[LogEvent] = []
    for other in older:
        group, evicted = group.evict(other, reason, time)
        events += evicted
    if conflict.open:
        fields: dict[str, object] = {"group": group.name, "instance": instance}
        return group, [*events, LogEvent("member.duplicate_instance", fields)]
    group, joined = _admit(group, incarnation, record, time)
    return group, [*joined, *events]


def _admit(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Make an incarnation a member, or tell it that the planner cannot serve it.

    What the member reports besides is taken in like that of a heartbeat: at a start, it may claim
    partitions, or have failed to start some.
    """
    group = replace(group, ledger=group.ledger.join(record))
    if refusal := group.ledger.holdings[incarnation].refused:
        group, events = _acknowledged(group, incarnation, record, time)
        fields = {**group.member_fields(incarnation), "reason": refusal}
        refused = {**group.refused, incarnation: Live(record, time.readable)}
        return replace(group, refused=refused), [LogEvent("member.refused", fields), *events]
    fields = {
        **group.member_fields(incarnation),
        "rack": record.rack,
        "topics": list(record.topics),
        **({} if record.pattern is None else {"pattern": record.pattern}),
    }
    entered = record if record.nack is None else replace(record, nack=None)
    if not group.live:
        # What was due while nobody was there is no plan for the first member alone: those that come
        # together, as after a deployment that stopped all of them, settle first.
        group = replace(group, policy=group.policy.resettled(time.now))
    live = {**group.live, incarnation: Live(entered, time.readable)}
    group = replace(group, live=live).membership_changed(time.now)
    group, events = _heartbeat(group, incarnation, record, time)
    return group, [LogEvent("member.joined", fields), *events]


def _heartbeat(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    before = group.live[incarnation].record
    group, events = _acknowledged(group, incarnation, record, time)
    ledger = group.ledger
    # An epoch that is not published yet would be proven by the same announcement later.
    proven = record.acked_epoch <= ledger.epoch
    live = Live(record, time.readable, ledger.holdings.get(incarnation) if proven else None)
    group = replace(group, live={**group.live, incarnation: live})
    if Profile.of(before) != Profile.of(record):
        group = group.changed(Cause.MEMBERSHIP, time.now)
    if record.nack is None or record.nack == before.nack:
        return group, events
    nack = {"code": record.nack.code, "epoch": record.nack.epoch}
    events.append(LogEvent("member.nacked", {**group.member_fields(incarnation), **nack}))
    if failed := group.ledger.holdings[incarnation].start_failed(record):
        group, taken_back = group.take_back(incarnation, failed, "the member cannot start it", time)
        events += taken_back
    return group, events


def _acknowledged(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in what a known incarnation uses, and hold for it what no record gives to it."""
    claims = group.ledger.holdings[incarnation].claims(record)
    group = replace(group, ledger=group.ledger.acknowledge(record, time))
    if not claims:
        return group, []
    partitions = ranges.texts(ranges.by_topic(claims))
    fields = {**group.member_fields(incarnation), "partitions": partitions}
    return group, [LogEvent("member.claimed", fields)]


def _claim(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Evict an unknown incarnation that uses partitions, and hold them for it until then."""
    reason = "owns partitions that levelwind did not grant to it"
    fields = {**group.member_fields(incarnation), "reason": reason}
    claimed = replace(group, ledger=group.ledger.claim(record, time))
    return claimed, [LogEvent("member.evicted", fields)]


def _evicted(
    group: ManagedGroup, incarnation: Incarnation, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in an announcement of an evicted member, which does not make it live again.

    It may still free the member's partitions.
    """
    ledger = group.ledger.acknowledge(record, time)
    holding = ledger.holdings[incarnation]
    waited = time.readable - (holding.eviction.at if holding.eviction else 0.0)
    if (
        not record.owned
        or waited < holding.waits.patience
        or time.readable - holding.holds_on_at < HOLDS_ON_SECONDS
    ):
        return replace(group, ledger=ledger), []
    fields = {
        **group.member_fields(incarnation),
        "partitions": ranges.texts(record.owned),
        "seconds": round(waited, 1),
    }
    logged = replace(group, ledger=ledger.holds_on(incarnation, time))
    return logged, [LogEvent("member.holds_on", fields)]


def _seen(group: ManagedGroup, incarnation: Incarnation, time: PlannerTime) -> ManagedGroup:
    """Tell the conflict of an instance that an incarnation has announced something."""
    conflict = group.conflicts.get(incarnation.instance)
    if conflict is None:
        return group
    after = conflict.seen(incarnation.incarnation, time.readable)
    if after is conflict:
        return group
    return replace(group, conflicts={**group.conflicts, incarnation.instance: after})


def _without_conflict(group: ManagedGroup, incarnation: Incarnation) -> ManagedGroup:
    """Note that an incarnation of an open conflict is gone."""
    conflict = group.conflicts.get(incarnation.instance)
    if conflict is None or incarnation.incarnation not in conflict.last_seen:
        return group
    after = conflict.without(incarnation.incarnation)
    return replace(group, conflicts={**group.conflicts, incarnation.instance: after})
