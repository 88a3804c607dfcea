"""The sticky plan where members read different topics.

Law: claims stay, what is left is poured into each topic's least loaded readers, scarcest topics first, and then chains of
moves (one member passes a partition to a second, which passes another to a third) level the loads until no chain is left
that would narrow a gap of two. A search that finds no chain closes every member that it reached, so the whole costs one
search for each chain and each member at most.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from assignors.columns import Ints, Longs
from assignors.fair import scarcest_first
from assignors.group import Group
from assignors.near import racks_matter
from assignors.pouring import poured
from assignors.sticky_swaps import bring_near, give_back


def unequal(group: Group, held: Ints) -> Ints:
    """The owners, from what is held already."""
    owner = held.copy()
    _pour(group, owner)
    books = _Books.of(group, owner, held)
    _level(group, books, free_only=True)  # what nobody held moves before what somebody did
    _level(group, books, free_only=False)
    if racks_matter(group):
        bring_near(group, owner, held)
    give_back(group, owner, held)
    return owner


def _pour(group: Group, owner: Ints) -> None:
    """Each topic's unowned partitions to its least loaded readers: fewest readers first, then most partitions, then name."""
    count = np.bincount(owner[owner >= 0], minlength=len(group.members))
    bounds = group.topic_start.tolist()
    for topic in scarcest_first(group):
        mine = owner[bounds[topic] : bounds[topic + 1]]
        free = np.flatnonzero(mine < 0)
        theirs = group.readers(topic)
        if len(free) and len(theirs):
            gained = poured(count[theirs], len(free))
            turn = np.repeat(np.arange(len(theirs)), gained)
            count[theirs] += gained
            mine[free] = theirs[turn]


@dataclass(slots=True)
class _Books:
    """Who has how many, and which: kept up to date while partitions are passed on."""

    owner: Ints  # by partition
    held: Ints  # by partition
    count: Longs  # by member
    free: list[defaultdict[int, list[int]]]  # by member and topic: partitions that it did not hold before
    kept: list[defaultdict[int, list[int]]]  # by member and topic: partitions that it did

    @classmethod
    def of(cls, group: Group, owner: Ints, held: Ints) -> "_Books":
        books = cls(
            owner=owner,
            held=held,
            count=np.bincount(owner[owner >= 0], minlength=len(group.members)),
            free=[defaultdict(list) for _ in group.members],
            kept=[defaultdict(list) for _ in group.members],
        )
        owned = np.flatnonzero(owner >= 0)
        columns = (owned, owner[owned], group.partition_topic[owned], owner[owned] == held[owned])
        for partition, member, topic, stays in zip(*(column.tolist() for column in columns), strict=True):
            (books.kept if stays else books.free)[member][topic].append(partition)
        return books

    def topics(self, member: int, *, free_only: bool) -> list[int]:
        """What a member can pass on, what it did not hold first."""
        theirs = [topic for topic, partitions in self.free[member].items() if partitions]
        if not free_only:
            theirs += [
                t
                for t, partitions in self.kept[member].items()
                if partitions and not self.free[member].get(t)
            ]
        return theirs

    def hand_over(self, topic: int, giver: int, taker: int) -> None:
        """One partition of a topic, best one that the taker held before."""
        mine = self.free[giver].get(topic) or self.kept[giver][topic]
        back = next((place for place, partition in enumerate(mine) if self.held[partition] == taker), -1)
        partition = mine.pop(back)
        self.owner[partition] = taker
        (self.kept if self.held[partition] == taker else self.free)[taker][topic].append(partition)
        self.count[giver] -= 1
        self.count[taker] += 1


def _level(group: Group, books: _Books, *, free_only: bool) -> None:
    """Hand partitions along chains from the most loaded members to ones with at least two fewer."""
    open_ = np.ones(len(group.members), dtype=np.bool_)
    while open_.any():
        most = int(np.argmax(np.where(open_, books.count, -1)))
        if books.count[most] - books.count[open_].min() < 2:
            break
        chain = _chain(group, books, most, open_, free_only=free_only)
        for topic, giver, taker in chain:
            books.hand_over(topic, giver, taker)


def _chain(
    group: Group, books: _Books, source: int, open_: np.ndarray, *, free_only: bool
) -> list[tuple[int, int, int]]:
    """The shortest chain from a member to the least loaded one that it reaches; closes all that are reached in vain."""
    goal = books.count[source] - 2
    came: dict[int, tuple[int, int]] = {}  # by member: the topic and the member that it was reached through
    fresh = open_.copy()
    fresh[source] = False
    audiences: set[int] = set()
    layer = [source]
    while layer:
        found: list[int] = []
        for giver in layer:
            for topic in books.topics(giver, free_only=free_only):
                audience = int(group.audience[topic])
                if audience in audiences:
                    continue
                audiences.add(audience)
                readers = group.readers(topic)
                new = readers[fresh[readers]]
                fresh[new] = False
                reached = new.tolist()
                came.update(dict.fromkeys(reached, (topic, giver)))
                found += reached
        if found:
            loads = books.count[found]
            best = int(np.argmin(loads))
            if loads[best] <= goal:
                return _steps(came, source, found[best])
        layer = found
    open_[source] = False
    open_[list(came)] = False
    return []


def _steps(came: dict[int, tuple[int, int]], source: int, end: int) -> list[tuple[int, int, int]]:
    steps: list[tuple[int, int, int]] = []
    taker = end
    while taker != source:
        topic, giver = came[taker]
        steps.append((topic, giver, taker))
        taker = giver
    return steps[::-1]
