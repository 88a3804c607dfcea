"""The sticky plan where members read different topics.

Guarantees: claims stay, and unowned partitions go to their topic's least loaded readers. Chains of
transfers (a member passes a partition to a second, which passes another to a third) then level the
loads until no chain would narrow a gap of two. Remote partitions become local without a change of
the loads, and cycles of transfers make the plan optimal among plans of these loads.
Cost: a search without success closes every member that it reached, so levelling takes at most one
search for each chain and one for each member.
"""

from collections import deque

import numpy as np

from levelwind.assignors.problem.columns import Bools, Ints
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.locality import racks_matter
from levelwind.assignors.sticky.fill import deal_rack_local, fill_least_loaded
from levelwind.assignors.sticky.member_stacks import MemberStacks
from levelwind.assignors.sticky.transfer_chains import bring_rack_local
from levelwind.assignors.sticky.transfer_cycles import cancel_cycles
from levelwind.assignors.sticky.transfer_graph import TransferGraph


def mixed_subscription_owners(group: Group, held: Ints) -> Ints:
    """Owner of each partition, from the member that holds it now, -1 for nobody."""
    owner = held.copy()
    use_racks = racks_matter(group)
    graph = TransferGraph.of(group)
    free = fill_least_loaded(group, owner)
    if use_racks:
        deal_rack_local(group, graph, owner, free)
    _level_loads(group, _PlacementState(group, owner, held))
    if use_racks:
        bring_rack_local(group, graph, owner, held)
    cancel_cycles(group, graph, owner, held)
    return owner


class _PlacementState:
    """Count and stacks by topic of each member, updated while partitions move."""

    __slots__ = ("count", "held", "owner", "stacks")

    def __init__(self, group: Group, owner: Ints, held: Ints) -> None:
        self.owner, self.held = owner, held
        self.count = np.bincount(owner[owner >= 0], minlength=len(group.members))
        self.stacks = MemberStacks(owner, held, group.partition_topic, len(group.members))

    def transfer(self, topic: int, giver: int, taker: int) -> None:
        """Transfer one partition of a topic, preferably one that the taker held before."""
        giver_stacks, taker_stacks = self.stacks[giver], self.stacks[taker]
        stack = giver_stacks[topic]
        index = next(
            (position for position, partition in enumerate(stack) if self.held[partition] == taker),
            -1,
        )
        partition = stack.pop(index)
        if not stack:
            del giver_stacks[topic]
        taker_stacks.setdefault(topic, []).append(partition)
        self.owner[partition] = taker
        self.count[giver] -= 1
        self.count[taker] += 1


def _level_loads(group: Group, state: _PlacementState) -> None:
    """Transfer partitions along chains until no chain narrows a gap of two."""
    open_members = np.diff(group.subscribed_start)[group.subscription] > 0
    while open_members.any():
        most = int(np.argmax(np.where(open_members, state.count, -1)))
        if state.count[most] - state.count[open_members].min() < 2:
            break
        for topic, giver, taker in _shortest_chain(group, state, most, open_members):
            state.transfer(topic, giver, taker)


def _shortest_chain(
    group: Group, state: _PlacementState, source: int, open_members: Bools
) -> list[tuple[int, int, int]]:
    """Shortest chain, as (topic, giver, taker), to a member with two partitions fewer.

    Without such a chain the answer is empty, and every member that was reached is closed.
    """
    goal = state.count[source] - 2
    # By member: the topic and the giver through which the search reached it.
    reached_from: dict[int, tuple[int, int]] = {}
    unreached = open_members.copy()
    unreached[source] = False
    reader_sets: set[int] = set()
    queue = deque([source])
    while queue:
        giver = queue.popleft()
        for topic in state.stacks[giver]:
            reader_set = int(group.reader_set[topic])
            if reader_set in reader_sets:
                continue
            reader_sets.add(reader_set)
            readers = group.readers(topic)
            new_readers = readers[unreached[readers]]
            if not len(new_readers):
                continue
            loads = state.count[new_readers]
            least = int(np.argmin(loads))
            if loads[least] <= goal:
                reached_from[int(new_readers[least])] = (topic, giver)
                return _chain_steps(reached_from, source, int(new_readers[least]))
            unreached[new_readers] = False
            reached = new_readers.tolist()
            reached_from.update(dict.fromkeys(reached, (topic, giver)))
            queue.extend(reached)
    open_members[source] = False
    open_members[list(reached_from)] = False
    return []


def _chain_steps(
    reached_from: dict[int, tuple[int, int]], source: int, end: int
) -> list[tuple[int, int, int]]:
    """Steps (topic, giver, taker) from the source to the end of a chain."""
    steps: list[tuple[int, int, int]] = []
    taker = end
    while taker != source:
        topic, giver = reached_from[taker]
        steps.append((topic, giver, taker))
        taker = giver
    return steps[::-1]
