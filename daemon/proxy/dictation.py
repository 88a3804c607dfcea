"""The assignment that the proxy dictates to a group that it leads, or why it dictates none. Pure.

Guarantees: a partition goes to at most one member, to one that subscribes to its topic, and under a
cooperative protocol to nobody while another member still claims it. Every partition of the members'
topics has an owner, or is withheld for one round. Whatever stands against that is a `Refusal`: the
proxy then leaves, and the group goes on by its own assignor.

A newer plan places the partitions of the members that it names, and a local strategy the others.
Without one, members keep what they were given last. A member that neither knows gets its part at
once: the local strategy then moves as little as it can. Plans name a member by its
`group.instance.id`, or by its member id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelwind.assignors.clients.classic.plan_application import (
    as_planned,
    completed,
    planned_owners,
    present_shares,
)
from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.clients.group_join import read_members, sync_assignments
from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError, Topic
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.registry import strategy_named
from levelwind.assignors.strategies.cooperative_sticky import withhold_claimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.clients.group_join import Joiner
    from levelwind.assignors.problem.inputs import Member
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records import TopicRecord

EAGER = frozenset({"range", "roundrobin", "sticky"})
"""Protocols whose members give up everything before they join."""

COOPERATIVE = frozenset({"cooperative-sticky"})
"""Protocols whose members keep what they have while they join (KIP-429)."""

PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Protocols that the proxy can lead."""

NO_EPOCH = PlanEpoch(0, 0)

LOCAL_STRATEGY = "sticky"
"""Strategy for what the plan leaves open; it keeps what is placed already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dictation:
    """What the leader answers a group with."""

    assignments: Mapping[str, bytes]
    """Bytes of each member's assignment, by member id."""
    shares: Mapping[str, Partitions]
    """Partitions by the members' names: with those that are withheld for a round."""
    epoch: PlanEpoch | None
    """Epoch of the plan that was applied; None without any."""
    layouts: Mapping[str, TopicRecord]
    """Layouts of the topics that were assigned, by name."""
    planned: int
    """Partitions that the plan placed."""
    local: int
    """Partitions that the local strategy placed."""
    members: tuple[Member, ...]
    """The members, as they asked to join."""
    withheld: int
    """Partitions that wait for another member to give them up."""


class LastDictation(NamedTuple):
    """The dictation of the generation before; empty if the proxy did not lead it."""

    shares: Mapping[str, Partitions]
    """Partitions by the members' names."""
    epoch: PlanEpoch | None
    """Epoch of the newest plan that was applied."""


NOT_LED = LastDictation({}, None)
"""Another member led the generation before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the proxy dictates nothing."""

    reason: str
    action: str
    """What an operator can do."""
    deserted: bool = False
    """Whether no member but the proxy reads anything."""


def dictate(
    protocol: str,
    joiners: Iterable[Joiner],
    proxy: str,
    layouts: Mapping[str, TopicRecord],
    plan: PublishedPlan | None,
    last: LastDictation,
) -> Dictation | Refusal:
    """Assign a group's partitions to its members.

    Args:
        protocol: the protocol that the group chose.
        joiners: the members of the group, as the broker gives them to the leader.
        proxy: member id of the proxy.
        layouts: the layouts of topics that the daemon knows, by name.
        plan: the newest plan; None without any.
        last: the last dictation.
    """
    if protocol not in PROTOCOLS:
        return Refusal(
            reason=f"the group chose the protocol {protocol!r}, of which the proxy knows nothing",
            action=f"let the members use one of {', '.join(PROTOCOLS)}, or end the mode",
        )
    others = [joiner for joiner in joiners if joiner.id != proxy]
    try:
        _, members = read_members(others, protocol)
    except ProblemError as error:
        return Refusal(
            reason=str(error), action="find out which client that member is, or end the mode"
        )
    subscribed = {topic for member in members for topic in member.topics}
    if not subscribed:
        return Refusal(reason="no member reads any topic", action="none", deserted=True)
    # The daemon's table changes meanwhile: each layout is looked up once.
    known = {topic: layouts.get(topic) for topic in sorted(subscribed)}
    found = {topic: layout for topic, layout in known.items() if layout is not None}
    unknown = sorted(known.keys() - found.keys())
    if unknown:
        return Refusal(
            reason=f"the daemon has no layout of {', '.join(map(repr, unknown[:5]))}",
            action="let the observer see every topic that the members subscribe to, and the members"
            " subscribe to topics that exist",
        )
    try:
        return _dictation(protocol, members, proxy, found, plan, last)
    except (ProblemError, WireError) as error:
        return Refusal(reason=str(error), action="end the mode, and report this line")


def _dictation(
    protocol: str,
    members: Sequence[Member],
    proxy: str,
    layouts: Mapping[str, TopicRecord],
    plan: PublishedPlan | None,
    last: LastDictation,
) -> Dictation | Refusal:
    names = {member.id: member.instance_id or member.id for member in members}
    topics = {
        name: Topic(partitions=layout.partitions, replica_racks=layout.racks)
        for name, layout in layouts.items()
    }
    basis = PublishedPlan(epoch=NO_EPOCH, assignments=last.shares)
    if plan is not None and (last.epoch is None or plan.epoch > last.epoch):
        basis = plan
    shares = present_shares(basis, names, members)
    real = Group.build(topics, members)
    wanted = Group.build(topics, as_planned(members, shares))
    planned = planned_owners(wanted, shares)
    known = basis.assignments.keys() | last.shares.keys()
    newcomers = any(member.topics and names[member.id] not in known for member in members)
    fixed = np.full_like(planned, NOBODY) if newcomers else planned
    target = completed(fixed, wanted, strategy_named(LOCAL_STRATEGY, {}))
    by_plan = (planned != NOBODY) & (target == planned)
    answer = withhold_claimed(real, target) if protocol in COOPERATIVE else Assignment(target)
    if broken := violations(real, answer):
        return Refusal(
            reason=f"the assignment would not be valid: {broken[0]}",
            action="end the mode, and report this line",
        )
    own = {proxy: ConsumerAssignment(partitions={}).encode()}
    return Dictation(
        assignments=sync_assignments(real, answer) | own,
        shares={
            names[member]: {topic: tuple(numbers) for topic, numbers in share.items()}
            for member, share in Assignment(target).to_names(real).items()
        },
        epoch=last.epoch if plan is None else plan.epoch,
        layouts=layouts,
        planned=int(by_plan.sum()),
        local=int(((target != NOBODY) & ~by_plan).sum()),
        members=tuple(members),
        withheld=0 if answer.withheld is None else int((answer.withheld != NOBODY).sum()),
    )
