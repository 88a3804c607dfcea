"""Bring partitions near to their owners, and back to those that held them, without a change of the loads.

Law: first within each topic, whose owners exchange partitions by an exact transport problem; then what is still far shifts to
a near reader with one fewer, or is exchanged with one, or goes round a longer circle of members; last what lost its holder goes back by a shift or an exchange that
makes nothing far. Each step makes more partitions local or more of them kept, so it ends.
"""

from collections import deque

import numpy as np

from assignors.columns import Bools, Ints, Longs
from assignors.group import Group
from assignors.near import Transport, classes, nonlocal_at

ROUNDS = 4  # each shifts and exchanges what it can; more bring hardly anything
SEARCHES = 2000  # members looked at for longer exchanges: every one in small groups, few in large ones, where short ones do


def give_back(group: Group, owner: Ints, held: Ints) -> None:
    """Return what moved, in place, where that costs nothing."""
    lost = np.flatnonzero((held >= 0) & (owner != held))
    if len(lost):
        search = _Search(group, owner, held)
        for partition in lost.tolist():
            search.give_back(partition)


def bring_near(group: Group, owner: Ints, held: Ints) -> None:
    """Improve the locality of the owners in place."""
    far = nonlocal_at(group, owner)
    useful = np.zeros(len(group.racks), dtype=np.bool_)
    useful[group.member_rack[group.member_rack >= 0]] = True
    for topic in np.unique(group.partition_topic[far]).tolist():
        _within_topic(group, owner, held, far, topic, useful)
    search = _Search(group, owner, held)
    for _ in range(ROUNDS):
        far = nonlocal_at(group, owner)
        if not sum(search.improve(partition) for partition in np.flatnonzero(far).tolist()):
            break


def _within_topic(group: Group, owner: Ints, held: Ints, far: Bools, topic: int, useful: Bools) -> None:
    """Deal the topic's far and free partitions anew over the same members."""
    begin, end = group.topic_start[topic : topic + 2]
    mine = np.arange(begin, end)
    loose = mine[(owner[mine] >= 0) & (far[mine] | (owner[mine] != held[mine]))]
    kind, racks = classes(group, loose, useful)
    rack = group.member_rack[owner[loose]]
    base = np.bincount(rack[rack >= 0], minlength=len(useful))
    flow = Transport(
        supply=np.bincount(kind, minlength=len(racks)).tolist(),
        racks=racks,
        base=base.tolist(),
        extra=[0] * len(base),
        pool=0,
    ).solve()
    slots = owner[loose].copy()  # a place of a member each, in the order of `loose`
    taken = np.zeros(len(loose), dtype=np.bool_)
    placed = np.zeros(len(loose), dtype=np.bool_)
    for k, sent in enumerate(flow):
        for r, amount in sorted(sent.items()):
            there = ~taken & (group.member_rack[slots] == r)
            chosen, places = _matched(held[loose], slots, ~placed & (kind == k), there, amount)
            taken[places] = placed[chosen] = True
            owner[loose[chosen]] = slots[places]
    back, places = _holders(held[loose], slots, ~placed, ~taken)
    taken[places] = placed[back] = True
    owner[loose[back]] = slots[places]
    rest, open_ = np.flatnonzero(~placed), np.flatnonzero(~taken)
    stay = np.intersect1d(rest, open_)  # what found no near place keeps its own where that is left
    owner[loose[stay]] = slots[stay]
    owner[loose[np.setdiff1d(rest, stay)]] = slots[np.setdiff1d(open_, stay)]


def _matched(holder: Ints, slots: Ints, ready: Bools, open_: Bools, amount: int) -> tuple[Longs, Longs]:
    """So many ready partitions and an open place for each: with their holders first, then where they are, then anywhere."""
    back, places = _holders(holder, slots, ready, open_)
    back, places = back[:amount], places[:amount]
    ready, open_ = ready.copy(), open_.copy()
    ready[back] = open_[places] = False
    own = np.flatnonzero(ready & open_)[: amount - len(back)]
    ready[own] = open_[own] = False
    left = amount - len(back) - len(own)
    others, elsewhere = np.flatnonzero(ready)[:left], np.flatnonzero(open_)[:left]
    return np.concatenate([back, own, others]), np.concatenate([places, own, elsewhere])


def _holders(holder: Ints, slots: Ints, ready: Bools, open_: Bools) -> tuple[Longs, Longs]:
    """The ready partitions whose holder has an open place, with that place."""
    by_member: dict[int, list[int]] = {}
    for place in np.flatnonzero(open_).tolist():
        by_member.setdefault(int(slots[place]), []).append(place)
    pairs = [
        (partition, by_member[member].pop())
        for partition, member in zip(np.flatnonzero(ready).tolist(), holder[ready].tolist(), strict=True)
        if by_member.get(member)
    ]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


class _Search:
    """Shifts and exchanges across topics, one partition at a time."""

    __slots__ = ("count", "group", "held", "keys", "mine", "owner", "searches", "width")

    def __init__(self, group: Group, owner: Ints, held: Ints) -> None:
        self.searches = SEARCHES
        self.group, self.owner, self.held = group, owner, held
        self.count = np.bincount(owner[owner >= 0], minlength=len(group.members))
        self.width = max(len(group.racks), 1)
        row = np.repeat(np.arange(len(owner), dtype=np.int64), np.diff(group.replica_start))
        self.keys = row * self.width + group.replica_rack
        order = np.argsort(owner, kind="stable")
        order = order[np.searchsorted(owner[order], 0) :]
        self.mine: list[list[int]] = [part.tolist() for part in np.split(order, np.cumsum(self.count)[:-1])]

    def far(self, members: Ints | Longs | int, partitions: Longs) -> Bools:
        """For each pair: both racks are known, and no replica is there."""
        if not len(self.keys):
            return np.zeros(len(partitions), dtype=np.bool_)
        rack = np.broadcast_to(self.group.member_rack[members], partitions.shape)
        asked = partitions * self.width + rack
        found = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
        known = np.diff(self.group.replica_start)[partitions] > 0
        return np.asarray(known & (rack >= 0) & (self.keys[found] != asked))

    def improve(self, partition: int) -> bool:
        """Bring one far partition near, if it can be at no cost to the loads and to others."""
        group, giver = self.group, int(self.owner[partition])
        if not self.far(giver, np.array([partition]))[0]:
            return False
        readers = group.readers(int(group.partition_topic[partition]))
        near = readers[~self.far(readers, np.full(len(readers), partition))]
        fewer = near[self.count[near] < self.count[giver]]
        if len(fewer):
            self._move(partition, int(fewer[np.argmin(self.count[fewer])]))
            self.count[giver] -= 1
            self.count[self.owner[partition]] += 1
            return True
        return self._exchange(partition, giver, near) or self._circle(partition, giver, near)

    def give_back(self, partition: int) -> None:
        """Return one partition to who held it, if that makes nothing far."""
        owner, holder = int(self.owner[partition]), int(self.held[partition])
        if owner == holder:
            return
        alone = np.array([partition])
        gain = int(self.far(owner, alone)[0]) - int(self.far(holder, alone)[0])
        if self.count[holder] < self.count[owner] and gain >= 0:
            self._move(partition, holder)
            self.count[owner] -= 1
            self.count[holder] += 1
            return
        offered = np.array([q for q in self.mine[holder] if self.held[q] != holder], dtype=np.int64)
        offered = offered[np.isin(self.group.partition_topic[offered], self.group.subscribed(owner))]
        gains = gain + self.far(holder, offered).astype(np.int64) - self.far(owner, offered)
        offered = offered[gains >= 0]
        if len(offered):
            other = int(offered[np.argmin(self.held[offered] != owner)])
            self._move(other, owner)
            self._move(partition, holder)

    def _exchange(self, partition: int, giver: int, near: Ints) -> bool:
        offered = np.array([q for member in near.tolist() for q in self.mine[member]], dtype=np.int64)
        if not len(offered):
            return False
        topics = self.group.partition_topic[offered]
        fits = np.isin(topics, self.group.subscribed(giver), assume_unique=False)
        fits &= ~self.far(giver, offered) | self.far(self.owner[offered], offered)
        offered = offered[fits]
        if not len(offered):
            return False
        # Best one that the giver held before, else one that its owner did not.
        cost = np.where(
            self.held[offered] == giver, 0, np.where(self.held[offered] != self.owner[offered], 1, 2)
        )
        other = int(offered[np.argmin(cost)])
        taker = int(self.owner[other])
        self._move(other, giver)
        self._move(partition, taker)
        return True

    def _circle(self, partition: int, giver: int, near: Ints) -> bool:
        """The partition to a near member, one of its own on to a third, and so on, back to the giver or to one with fewer."""
        came: dict[int, tuple[int, int]] = dict.fromkeys(near.tolist(), (partition, giver))
        queue = deque(came)
        while queue and self.searches:
            self.searches -= 1
            member = queue.popleft()
            for passed in self.mine[member]:
                for taker in self._takers(passed, member).tolist():
                    if taker == giver or self.count[taker] < self.count[giver]:
                        self._pass_on(came, giver, (passed, member), taker)
                        return True
                    if taker not in came:
                        came[taker] = (passed, member)
                        queue.append(taker)
        return False

    def _takers(self, partition: int, owner: int) -> Ints:
        """Who may get a partition without making it far."""
        readers = self.group.readers(int(self.group.partition_topic[partition]))
        if self.far(owner, np.array([partition]))[0]:
            return readers
        return readers[~self.far(readers, np.full(len(readers), partition))]

    def _pass_on(
        self, came: dict[int, tuple[int, int]], giver: int, step: tuple[int, int], taker: int
    ) -> None:
        self.count[giver] -= 1
        self.count[taker] += 1
        while True:
            partition, owner = step
            self._move(partition, taker)
            if owner == giver:
                break
            taker, step = owner, came[owner]

    def _move(self, partition: int, taker: int) -> None:
        self.mine[self.owner[partition]].remove(partition)
        self.mine[taker].append(partition)
        self.owner[partition] = taker
