"""The sticky plan where members read different topics.

Law: claims stay, what is left is poured into each topic's least loaded readers, and then chains of hand-overs (one member
passes a partition to a second, which passes another to a third) level the loads until no chain is left that would narrow a
gap of two. What is far is brought near without a change of the loads, and the last circles of hand-overs make the plan the
best of its kind. A search that finds no chain closes every member that it reached, so levelling costs one search for each
chain and each member at most.
"""

from collections import deque

import numpy as np

from assignors.problem.columns import (
    Bools,
    Ints,
)
from assignors.problem.group import Group
from assignors.problem.locality import racks_matter
from assignors.sticky.fill import (
    deal_near,
    pour,
)
from assignors.sticky.member_stacks import Piles
from assignors.sticky.transfer_chains import bring_near
from assignors.sticky.transfer_cycles import improve
from assignors.sticky.transfer_graph import Network


def unequal(group: Group, held: Ints) -> Ints:
    """The owners, from what is held already."""
    owner = held.copy()
    near = racks_matter(group)
    network = Network.of(group)
    free = pour(group, owner)
    if near:
        deal_near(group, network, owner, free)
    _level(group, _Books(group, owner, held))
    if near:
        bring_near(group, network, owner, held)
    improve(group, network, owner, held)
    return owner


class _Books:
    """Who has how many, and which: kept up to date while partitions are passed on."""

    __slots__ = ("count", "held", "owner", "piles")

    def __init__(self, group: Group, owner: Ints, held: Ints) -> None:
        self.owner, self.held = owner, held
        self.count = np.bincount(owner[owner >= 0], minlength=len(group.members))
        self.piles = Piles(owner, held, group.partition_topic, len(group.members))

    def hand_over(self, topic: int, giver: int, taker: int) -> None:
        """One partition of a topic, best one that the taker held before."""
        mine, theirs = self.piles[giver], self.piles[taker]
        pile = mine[topic]
        back = next(
            (place for place, partition in enumerate(pile) if self.held[partition] == taker), -1
        )
        partition = pile.pop(back)
        if not pile:
            del mine[topic]
        theirs.setdefault(topic, []).append(partition)
        self.owner[partition] = taker
        self.count[giver] -= 1
        self.count[taker] += 1


def _level(group: Group, books: _Books) -> None:
    """Hand partitions along chains from the most loaded members to ones with at least two fewer."""
    open_ = np.diff(group.subscribed_start)[group.subscription] > 0
    while open_.any():
        most = int(np.argmax(np.where(open_, books.count, -1)))
        if books.count[most] - books.count[open_].min() < 2:
            break
        for topic, giver, taker in _chain(group, books, most, open_):
            books.hand_over(topic, giver, taker)


def _chain(group: Group, books: _Books, source: int, open_: Bools) -> list[tuple[int, int, int]]:
    """A shortest chain from a member to one with two fewer at least; closes all that are reached in vain."""
    goal = books.count[source] - 2
    came: dict[
        int, tuple[int, int]
    ] = {}  # by member: the topic and the member that it was reached through
    fresh = open_.copy()
    fresh[source] = False
    reader_sets: set[int] = set()
    queue = deque([source])
    while queue:
        giver = queue.popleft()
        for topic in books.piles[giver]:
            reader_set = int(group.reader_set[topic])
            if reader_set in reader_sets:
                continue
            reader_sets.add(reader_set)
            readers = group.readers(topic)
            new = readers[fresh[readers]]
            if not len(new):
                continue
            loads = books.count[new]
            least = int(np.argmin(loads))
            if loads[least] <= goal:
                came[int(new[least])] = (topic, giver)
                return _steps(came, source, int(new[least]))
            fresh[new] = False
            reached = new.tolist()
            came.update(dict.fromkeys(reached, (topic, giver)))
            queue.extend(reached)
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
