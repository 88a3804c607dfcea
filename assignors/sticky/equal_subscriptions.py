"""The sticky plan where all members read the same topics.

Law: with q, e = divmod(P, M), e members have q + 1 partitions and the others q. From scratch it is Kafka's plan, step by
step. With claims, every one that balance allows is kept, the rest is placed near, and then no exchange is left that would
bring more partitions near, or as many with fewer moves. But a group at rest, whose claims are balanced and leave nothing
out, moves no partition that is near: so what Kafka places from scratch stays.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
    radix,
    starts,
    within,
)
from assignors.problem.group import Group
from assignors.problem.locality import (
    rack_remote_at,
    racks_matter,
)
from assignors.sticky.kafka_walk import Circle
from assignors.sticky.rack_flow import (
    Transport,
    classes,
)
from assignors.sticky.transfer_chains import bring_near
from assignors.sticky.transfer_cycles import improve
from assignors.sticky.transfer_graph import Network

Fill: TypeAlias = Callable[
    [Longs, Longs], Longs
]  # from each member's room and who gets one more, to members in order


def equal(group: Group, held: Ints, *, together: bool = False) -> Ints:
    """The owners, from what is held already; in turns over the members, or each one's share together."""
    read = np.flatnonzero(group.has_reader())
    if not len(read):
        return np.full(group.partition_count, NOBODY, dtype=np.int32)
    near = racks_matter(group)
    if not together and not (held >= 0).any():
        return _from_scratch(group, read, near=near)
    fill = shares if together else turns
    owner = _settled(group, read, held, held, near=near, fill=fill)
    if np.array_equal(owner, held):
        if near:
            _stir(group, read, owner, fill)
    elif ((owner != held) & (held >= 0)).any() or rack_remote_at(group, owner).any():
        network = Network.of(group)
        bring_near(group, network, owner, held)
        improve(group, network, owner, held)
    return owner


def _stir(group: Group, read: Longs, owner: Ints, fill: Fill) -> None:
    """Bring near what can be in a group at rest, in place, by moving nothing but what is far.

    A member whose rack is unknown is no nearer than any other here: Kafka's circle gives it what comes, and that stays.
    """
    held = owner.copy()
    loose = _loosened(group, held)
    better = _settled(group, read, loose, held, near=True, fill=fill)
    if np.count_nonzero(rack_remote_at(group, better)) < np.count_nonzero(
        rack_remote_at(group, held)
    ):
        owner[:] = better
    network = Network.of(group)
    far = network.far.copy()
    far[:, -1] = far.any(axis=1)
    improve(group, replace(network, far=far), owner, held, movable=loose < 0)


def _loosened(group: Group, owner: Ints) -> Ints:
    """Without what has no replica in its owner's rack, so that its place is free for what has."""
    claimed = np.flatnonzero(owner >= 0)
    placed = claimed[group.member_rack[owner[claimed]] >= 0]
    loose = owner.copy()
    loose[placed[~group.local(owner[placed], placed)]] = NOBODY
    return loose


def _settled(
    group: Group, read: Longs, claims: Ints, held: Ints, *, near: bool, fill: Fill
) -> Ints:
    """Keep the claims up to the quotas, then place the rest: locally, with its last holder, in turn."""
    quota, extras = divmod(len(read), len(group.members))
    owner, longer = _within_quotas(group, claims, quota, extras)
    desk = _Desk(group, owner, held, quota, extras - longer)
    if near:
        desk.place_near(read)
    desk.give_back(read)
    desk.fill_up(read, fill)
    return desk.owner


def _within_quotas(group: Group, claims: Ints, quota: int, extras: int) -> tuple[Ints, int]:
    """What stays, and how many members have one more than the quota; of too many claims, local and low ones stay."""
    owner = claims.copy()
    claimed = np.flatnonzero(owner >= 0)
    count = np.bincount(owner[claimed], minlength=len(group.members))
    may = np.full(len(count), quota, dtype=np.int64)
    longer = np.flatnonzero(count > quota)[:extras]
    may[longer] += 1
    if (count > may).any():
        wrong = rack_remote_at(group, owner)[claimed]
        number = claimed - group.topic_start[group.partition_topic[claimed]]
        order = np.lexsort((claimed, number, wrong, owner[claimed]))
        rank = np.empty(len(claimed), dtype=np.int64)
        rank[order] = within(count)
        owner[claimed[rank >= may[owner[claimed]]]] = NOBODY
    return owner, len(longer)


class _Desk:
    """Partitions being placed: who has how many, and how many may still have one more than the quota."""

    __slots__ = ("count", "extras", "group", "held", "owner", "quota")

    def __init__(self, group: Group, owner: Ints, held: Ints, quota: int, extras: int) -> None:
        self.group, self.owner, self.held = group, owner, held
        self.quota, self.extras = quota, extras
        self.count = np.bincount(owner[owner >= 0], minlength=len(group.members))

    def place_near(self, read: Longs) -> None:
        """As many as possible to members in the racks of their replicas."""
        free = read[self.owner[read] < 0]
        rack = self.group.member_rack
        useful = np.zeros(len(self.group.racks), dtype=np.bool_)
        useful[rack[rack >= 0]] = True
        kind, racks = classes(self.group, free, useful)
        room = np.maximum(self.quota - self.count, 0)
        supply = np.bincount(kind, minlength=len(racks)).tolist()
        placed = Transport(
            supply=[*supply],
            racks=racks,
            base=[int(room[rack == r].sum()) for r in range(len(useful))],
            extra=[int((self.count[rack == r] <= self.quota).sum()) for r in range(len(useful))],
            pool=self.extras,
        ).solve()
        to = np.full(len(free), NOBODY)
        bounds, by_kind = starts(supply).tolist(), radix(kind, len(racks))
        for begin, sent in zip(bounds, placed, strict=False):
            amounts = sorted(sent.items())
            near = np.repeat([r for r, _ in amounts], [amount for _, amount in amounts])
            to[by_kind[begin : begin + len(near)]] = near
        for r in range(len(useful)):
            self._fill(free[to == r], rack == r)

    def _fill(self, partitions: Longs, members: Bools) -> None:
        """Slots below the quota that no claim waits for, then those that one waits for, then one more than the quota."""
        waiting = self.held[(self.held >= 0) & (self.owner < 0)]
        waited = np.bincount(waiting, minlength=len(self.count))
        room = np.where(members, np.maximum(self.quota - self.count, 0), 0)
        spare = np.maximum(room - waited, 0)
        slots = _in_turns(spare)[: len(partitions)]
        if len(slots) < len(partitions):
            slots = np.concatenate([slots, _in_turns(room - spare)])[: len(partitions)]
        more = np.flatnonzero(members & (self.count <= self.quota))
        more = more[np.argsort(waited[more], kind="stable")][: len(partitions) - len(slots)]
        self._give(partitions, np.concatenate([slots, more]))

    def give_back(self, read: Longs) -> None:
        """To the last holder, where it has room."""
        free = read[(self.owner[read] < 0) & (self.held[read] >= 0)]
        if not len(free):
            return
        holder = self.held[free]
        order = radix(holder, len(self.count))
        rank = np.empty(len(free), dtype=np.int64)
        rank[order] = within(np.bincount(holder, minlength=len(self.count)))
        after = self.count[holder] + rank
        back = after < self.quota
        longer = np.flatnonzero(after == self.quota)[: self.extras]
        back[longer] = True
        self._give(free[back], holder[back])

    def fill_up(self, read: Longs, fill: Fill) -> None:
        """To whoever is below the quota, then one more to the first members that have none more yet.

        What nobody is near to goes to members of unknown racks first: there it costs nothing that is known.
        """
        free = read[self.owner[read] < 0]
        if not len(free):
            return
        room = np.maximum(self.quota - self.count, 0)
        rackless = self.group.member_rack < 0
        more = np.flatnonzero(self.count <= self.quota)
        more = more[np.argsort(~rackless[more], kind="stable")][: len(free) - room.sum()]
        members = fill(room, more)
        unknown = ~self.group.racks_known()[free]
        members = members[np.argsort(~rackless[members], kind="stable")]
        self._give(free[np.argsort(unknown, kind="stable")], members)

    def _give(self, partitions: Longs, members: Ints | Longs) -> None:
        self.owner[partitions] = members
        before = np.count_nonzero(self.count > self.quota)
        self.count += np.bincount(members, minlength=len(self.count))
        self.extras -= int(np.count_nonzero(self.count > self.quota) - before)


def turns(room: Longs, more: Longs) -> Longs:
    """Members as often as each has room, in turns by id, and then the ones that get one more."""
    return np.concatenate([_in_turns(room), more])


def shares(room: Longs, more: Longs) -> Longs:
    """Members as often as each has room, the ones that get one more at once with it; all of a member's together."""
    room = room.copy()
    room[more] += 1
    return np.repeat(np.arange(len(room)), room)


def _in_turns(room: Longs) -> Longs:
    turn = within(room)
    return np.repeat(np.arange(len(room)), room)[radix(turn, int(room.max(initial=0)))]


def _from_scratch(group: Group, read: Longs, *, near: bool) -> Ints:
    """Kafka's own placing: what has the fewest near members first, then in turns over the members by id."""
    owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
    members = len(group.members)
    if not near:
        owner[read] = np.arange(len(read)) % members
        return owner
    circle = Circle(group.member_rack.tolist(), len(group.racks), *divmod(len(read), members))
    there = np.bincount(group.member_rack[group.member_rack >= 0], minlength=len(group.racks))
    near_racks = group.rack_local[:, :-1]
    scarcity = np.unique(near_racks @ there, return_inverse=True)[1]
    order = read[radix(scarcity[group.rack_set[read]], len(scarcity))]
    racks = [np.flatnonzero(theirs).tolist() for theirs in near_racks]
    owner[order] = circle.place_near(group.rack_set[order].tolist(), racks)
    left = order[owner[order] < 0]
    owner[left] = circle.places(len(left))
    return owner
