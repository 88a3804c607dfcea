"""Plans while planning is frozen: owners keep what they have, and orphans get a reader. Pure.

A plan that was made so is not the last word: its cause stays due, and gets a whole plan when
planning thaws. What the freeze refuses keeps nothing else waiting: an order of an operator is set
aside while members and topics are looked at, and is put back after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.daemon.control.freeze.freeze_reason import BINDING, FreezeReason
from levelwind.daemon.control.policy import Change, Objection, Suppression
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.policy import PolicyState
    from levelwind.daemon.control.snapshot import GroupSnapshot

LOOK_AGAIN_SECONDS = 5.0
"""Seconds after which a cause that waits for the thaw is looked at again."""

CHANGES = frozenset({Cause.MEMBERSHIP, Cause.TOPICS})
"""Causes of a plan that change the basis: who reads, and what is read."""


def freeze_reasons(snapshot: GroupSnapshot) -> frozenset[FreezeReason]:
    """Return why planning is frozen for a group; empty if it is not."""
    reasons = frozenset(snapshot.context.frozen)
    return reasons | {FreezeReason.LAG} if snapshot.stale_lags else reasons


def objection_of_freeze(
    group: ManagedGroup, cause: Cause, snapshot: GroupSnapshot
) -> Suppression | None:
    """Return the objection to any plan for a cause while planning is frozen; None without one."""
    reasons = freeze_reasons(snapshot)
    if cause is Cause.OPERATOR:
        reasons &= BINDING
    if not reasons or (cause in CHANGES and not _covers_what_exists(group, snapshot)):
        return None
    return Suppression(Objection.FROZEN, snapshot.context.now + LOOK_AGAIN_SECONDS)


def keeps_owners(group: ManagedGroup, cause: Cause, snapshot: GroupSnapshot) -> bool:
    """Whether a plan for a cause now moves nothing but orphans."""
    return (
        cause in CHANGES
        and any(group.target.get(instance) for instance in snapshot.members)
        and bool(freeze_reasons(snapshot))
    )


def kept_owners(group: ManagedGroup, snapshot: GroupSnapshot) -> Mapping[TopicPartition, str]:
    """Return the member that keeps each partition: what the plan in force gives to live members.

    A hand-over under way goes on: a partition that is on its way counts as arrived.
    """
    planned = {
        partition: instance
        for instance in snapshot.members
        for partition in group.target.get(instance, ())
    }
    return {**snapshot.owners, **planned}


def unsettled(group: ManagedGroup, cause: Cause, now: float) -> ManagedGroup:
    """Leave a cause due although a plan was made for it."""
    return replace(group, basis=None, policy=group.policy.changed(cause, now + LOOK_AGAIN_SECONDS))


def put_off(group: ManagedGroup, causes: Collection[Cause], until: float) -> ManagedGroup:
    """Let the changes of these causes wait until a time, and those of others as they are."""
    changes = {
        cause: Change(until, until) if cause in causes else change
        for cause, change in group.policy.changes.items()
    }
    return replace(group, policy=replace(group.policy, changes=changes))


def has_order(group: ManagedGroup) -> bool:
    """Whether an operator asks for a plan: by a request, or by a lever."""
    return group.operator is not None or Cause.OPERATOR in group.policy.changes


def order_alone(policy: PolicyState) -> PolicyState:
    """Return the policy as if an operator's order were all that asks for a plan."""
    change = policy.changes.get(Cause.OPERATOR)
    changes = {} if change is None else {Cause.OPERATOR: change}
    return replace(policy, changes=changes)


def without_order(group: ManagedGroup) -> ManagedGroup:
    """Set an operator's order aside: a plan for another cause leaves it as it is."""
    policy = group.policy.without_change(Cause.OPERATOR)
    return replace(group, operator=None, policy=policy)


def with_order_of(before: ManagedGroup, group: ManagedGroup) -> ManagedGroup:
    """Put the order back that was set aside, and why it waits, after a decision without it."""
    policy, waiting = group.policy, before.policy
    if Cause.OPERATOR in waiting.changes:
        changes = {**policy.changes, Cause.OPERATOR: waiting.changes[Cause.OPERATOR]}
        policy = replace(policy, changes=changes)
    if Cause.OPERATOR in waiting.suppressed:
        policy = policy.suppress(Cause.OPERATOR, waiting.suppressed[Cause.OPERATOR])
    return replace(group, operator=before.operator, policy=policy)


def _covers_what_exists(group: ManagedGroup, snapshot: GroupSnapshot) -> bool:
    """Whether live members have the partitions of the topics that they read, and no others.

    A topic may have come back with fewer partitions than the plan in force gives.
    """
    reading = {
        (instance, topic)
        for instance, member in snapshot.members.items()
        for topic in member.topics
        if topic in snapshot.topics
    }
    planned = {
        partition
        for instance in snapshot.members
        for partition in group.target.get(instance, ())
        if (instance, partition[0]) in reading
    }
    return planned == {
        (name, number)
        for name, topic in snapshot.topics.items()
        for number in range(topic.partitions)
    }
