"""The sticky plan where all members read the same topics.

Guarantees: with q, e = divmod(P, M), e members have q + 1 partitions and the others q. From scratch
the plan is Kafka's, step by step. With claims, it keeps every claim that balance allows and places
the rest rack-locally; then no exchange of partitions would make more of them local, or as many with
fewer moves. In a group at rest, whose claims are balanced and cover every partition, no local
partition moves, so that a plan which Kafka made from scratch stays.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Bools, Ints, Longs, radix, starts, within
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.locality import locality_varies, rack_remote_at, racks_matter
from levelwind.assignors.sticky.kafka_walk import KafkaWalk
from levelwind.assignors.sticky.rack_flow import RackFlow, rack_classes
from levelwind.assignors.sticky.transfer_chains import bring_rack_local
from levelwind.assignors.sticky.transfer_cycles import cancel_cycles
from levelwind.assignors.sticky.transfer_graph import TransferGraph

SlotOrder: TypeAlias = Callable[[Longs, Longs], Longs]
"""Members in the order in which they take partitions, one entry a slot, from the room that each
member has below the quota and the members that take one more than the quota."""


def equal_subscription_owners(group: Group, held: Ints, *, fill_by_member: bool = False) -> Ints:
    """Owner of each partition, from the member that holds it now, -1 for nobody.

    Unowned partitions go to the members in rounds, and from scratch as in Kafka's plan; with
    `fill_by_member` they go to one member after another.
    """
    readable = np.flatnonzero(group.has_reader())
    if not len(readable):
        return np.full(group.partition_count, NOBODY, dtype=np.int32)
    use_racks = locality_varies(group) if fill_by_member else racks_matter(group)
    if not fill_by_member and not (held >= 0).any():
        return _from_scratch(group, readable, use_racks=use_racks)
    slot_order = slots_by_member if fill_by_member else slots_by_round
    owner = _keep_and_assign(
        group, readable, held, held, use_racks=use_racks, slot_order=slot_order
    )
    if np.array_equal(owner, held):
        if use_racks:
            _improve_at_rest(group, readable, owner, slot_order)
    elif ((owner != held) & (held >= 0)).any() or rack_remote_at(group, owner).any():
        graph = TransferGraph.of(group)
        bring_rack_local(group, graph, owner, held)
        cancel_cycles(group, graph, owner, held)
    return owner


def _improve_at_rest(group: Group, readable: Longs, owner: Ints, slot_order: SlotOrder) -> None:
    """Make remote partitions of a group at rest local, in place; move no others.

    A member of unknown rack counts as no more local than any other here: Kafka's walk gives such a
    member whatever comes, and that stays.
    """
    held = owner.copy()
    kept = _without_remote_claims(group, held)
    better = _keep_and_assign(group, readable, kept, held, use_racks=True, slot_order=slot_order)
    if np.count_nonzero(rack_remote_at(group, better)) < np.count_nonzero(
        rack_remote_at(group, held)
    ):
        owner[:] = better
    graph = TransferGraph.of(group)
    rack_remote = graph.rack_remote.copy()
    rack_remote[:, -1] = rack_remote.any(axis=1)
    cancel_cycles(group, replace(graph, rack_remote=rack_remote), owner, held, movable=kept < 0)


def _without_remote_claims(group: Group, owner: Ints) -> Ints:
    """The owners without rack-remote partitions, whose slots become free for local ones."""
    claimed = np.flatnonzero(owner >= 0)
    placed = claimed[group.member_rack[owner[claimed]] >= 0]
    kept = owner.copy()
    kept[placed[~group.local(owner[placed], placed)]] = NOBODY
    return kept


def _keep_and_assign(
    group: Group,
    readable: Longs,
    claims: Ints,
    held: Ints,
    *,
    use_racks: bool,
    slot_order: SlotOrder,
) -> Ints:
    """Keep claims up to the quotas; assign the rest locally, to holders, in slot order."""
    quota, extras = divmod(len(readable), len(group.members))
    owner, used_extras = _claims_within_quotas(group, claims, quota, extras)
    placement = _QuotaPlacement(group, owner, held, quota, extras - used_extras)
    if use_racks:
        placement.assign_rack_local(readable)
    placement.return_to_holders(readable)
    placement.fill_remaining(readable, slot_order)
    return placement.owner


def _claims_within_quotas(group: Group, claims: Ints, quota: int, extras: int) -> tuple[Ints, int]:
    """The claims that stay, and the number of members with one more than the quota.

    Of too many claims of a member, local ones stay before remote ones, then low partition numbers.
    """
    owner = claims.copy()
    claimed = np.flatnonzero(owner >= 0)
    count = np.bincount(owner[claimed], minlength=len(group.members))
    limit = np.full(len(count), quota, dtype=np.int64)
    above_quota = np.flatnonzero(count > quota)[:extras]
    limit[above_quota] += 1
    if (count > limit).any():
        remote = rack_remote_at(group, owner)[claimed]
        number = claimed - group.topic_start[group.partition_topic[claimed]]
        order = np.lexsort((claimed, number, remote, owner[claimed]))
        rank = np.empty(len(claimed), dtype=np.int64)
        rank[order] = within(count)
        owner[claimed[rank >= limit[owner[claimed]]]] = NOBODY
    return owner, len(above_quota)


class _QuotaPlacement:
    """Owners and counts while partitions are placed.

    `extras` is the number of members that may still take one more than the quota.
    """

    __slots__ = ("count", "extras", "group", "held", "owner", "quota")

    def __init__(self, group: Group, owner: Ints, held: Ints, quota: int, extras: int) -> None:
        self.group, self.owner, self.held = group, owner, held
        self.quota, self.extras = quota, extras
        self.count = np.bincount(owner[owner >= 0], minlength=len(group.members))

    def assign_rack_local(self, readable: Longs) -> None:
        """Place as many partitions as possible with members in the racks of their replicas."""
        free = readable[self.owner[readable] < 0]
        rack = self.group.member_rack
        useful = np.zeros(len(self.group.racks), dtype=np.bool_)
        useful[rack[rack >= 0]] = True
        rack_class, racks = rack_classes(self.group, free, useful)
        room = np.maximum(self.quota - self.count, 0)
        supply = np.bincount(rack_class, minlength=len(racks)).tolist()
        placed = RackFlow(
            supply=[*supply],
            racks=racks,
            base=[int(room[rack == r].sum()) for r in range(len(useful))],
            extra=[int((self.count[rack == r] <= self.quota).sum()) for r in range(len(useful))],
            pool=self.extras,
        ).solve()
        target_rack = np.full(len(free), NOBODY)
        bounds, by_class = starts(supply).tolist(), radix(rack_class, len(racks))
        for begin, sent in zip(bounds, placed, strict=False):
            amounts = sorted(sent.items())
            racks_sent = np.repeat([r for r, _ in amounts], [amount for _, amount in amounts])
            target_rack[by_class[begin : begin + len(racks_sent)]] = racks_sent
        for r in range(len(useful)):
            self._fill_rack(free[target_rack == r], rack == r)

    def _fill_rack(self, partitions: Longs, members: Bools) -> None:
        """Place partitions with members of one rack.

        Slots below the quota that no released claim awaits come first, then the awaited ones, then
        slots above the quota.
        """
        waiting = self.held[(self.held >= 0) & (self.owner < 0)]
        awaited = np.bincount(waiting, minlength=len(self.count))
        room = np.where(members, np.maximum(self.quota - self.count, 0), 0)
        spare = np.maximum(room - awaited, 0)
        slots = _slots_in_rounds(spare)[: len(partitions)]
        if len(slots) < len(partitions):
            slots = np.concatenate([slots, _slots_in_rounds(room - spare)])[: len(partitions)]
        extra = np.flatnonzero(members & (self.count <= self.quota))
        extra = extra[np.argsort(awaited[extra], kind="stable")][: len(partitions) - len(slots)]
        self._assign(partitions, np.concatenate([slots, extra]))

    def return_to_holders(self, readable: Longs) -> None:
        """Return partitions to their last holder, where it has room."""
        free = readable[(self.owner[readable] < 0) & (self.held[readable] >= 0)]
        if not len(free):
            return
        holder = self.held[free]
        order = radix(holder, len(self.count))
        rank = np.empty(len(free), dtype=np.int64)
        rank[order] = within(np.bincount(holder, minlength=len(self.count)))
        count_before = self.count[holder] + rank
        returned = count_before < self.quota
        returned[np.flatnonzero(count_before == self.quota)[: self.extras]] = True
        self._assign(free[returned], holder[returned])

    def fill_remaining(self, readable: Longs, slot_order: SlotOrder) -> None:
        """Fill members up to the quota, then give extras to the first members without one.

        Members of unknown rack come first, partitions of unknown racks last: a partition that no
        member is local to is not rack-remote with a member of unknown rack.
        """
        free = readable[self.owner[readable] < 0]
        if not len(free):
            return
        room = np.maximum(self.quota - self.count, 0)
        rackless = self.group.member_rack < 0
        extra = np.flatnonzero(self.count <= self.quota)
        extra = extra[np.argsort(~rackless[extra], kind="stable")][: len(free) - room.sum()]
        members = slot_order(room, extra)
        unknown = ~self.group.racks_known()[free]
        members = members[np.argsort(~rackless[members], kind="stable")]
        self._assign(free[np.argsort(unknown, kind="stable")], members)

    def _assign(self, partitions: Longs, members: Ints | Longs) -> None:
        """Give each partition to the member beside it, and keep counts and extras current."""
        self.owner[partitions] = members
        extras_before = np.count_nonzero(self.count > self.quota)
        self.count += np.bincount(members, minlength=len(self.count))
        self.extras -= int(np.count_nonzero(self.count > self.quota) - extras_before)


def slots_by_round(room: Longs, extra: Longs) -> Longs:
    """Slots in rounds over the members by id, then the extras."""
    return np.concatenate([_slots_in_rounds(room), extra])


def slots_by_member(room: Longs, extra: Longs) -> Longs:
    """Slots member by member, each with its extra."""
    room = room.copy()
    room[extra] += 1
    return np.repeat(np.arange(len(room)), room)


def _slots_in_rounds(room: Longs) -> Longs:
    """Members with room, once in each round, by id within a round."""
    round_number = within(room)
    members = np.repeat(np.arange(len(room)), room)
    return members[radix(round_number, int(room.max(initial=0)))]


def _from_scratch(group: Group, readable: Longs, *, use_racks: bool) -> Ints:
    """Kafka's placement: partitions with the fewest local members first, then rounds by id."""
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    members = len(group.members)
    if not use_racks:
        owner[readable] = np.arange(len(readable)) % members
        return owner
    walk = KafkaWalk(group.member_rack.tolist(), len(group.racks), *divmod(len(readable), members))
    members_per_rack = np.bincount(
        group.member_rack[group.member_rack >= 0], minlength=len(group.racks)
    )
    local_racks = group.rack_local[:, :-1]
    scarcity = np.unique(local_racks @ members_per_rack, return_inverse=True)[1]
    order = readable[radix(scarcity[group.rack_set[readable]], len(scarcity))]
    racks = [np.flatnonzero(row).tolist() for row in local_racks]
    owner[order] = walk.assign_rack_local(group.rack_set[order].tolist(), racks)
    unplaced = order[owner[order] < 0]
    owner[unplaced] = walk.assign_rest(len(unplaced))
    return owner
