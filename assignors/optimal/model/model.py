"""The problem in this strategy's terms: what a partition weighs, who may have it, and how many a member gets.

Law: nothing here but `held` and `before` depends on who owns what now, so neither does what is made of the rest. Members that
read the same, are avoided or pinned alike, stand in one rack and (of few capacities) have the same one are one *kind*; partitions with the same possible owners are
one *audience*.
"""

from dataclasses import dataclass, replace

import numpy as np

from assignors.optimal.model.even_counts import (
    Components,
    blocks,
)
from assignors.optimal.model.plan_options import Options
from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    numbered,
)
from assignors.problem.group import Group
from assignors.problem.locality import rack_sets

SPEEDS = 8  # capacities that make kinds of their own; of more, none does
HEAVIEST = 2**36  # of all traffic together, so that sums of it and of moves beside it stay whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """P partitions, M members, A audiences, G signatures, C kinds of members, K rack sets, B blocks."""

    group: Group
    wishes: Options
    load: Floats  # P: records to work through
    weight: Longs  # P: what it costs when it crosses racks
    reader_set: Longs  # P: -1 nobody may have it
    kind: Longs  # M
    signature: Longs  # C: of a kind
    rack: Longs  # C: of a kind, -1 unknown
    wanted: Bools  # A x C: whether wishes and subscriptions let the kind have it
    allowed: Bools  # A x C: whether counts at their most even do so too
    rackset: Longs  # P
    far: Bools  # K x racks + 1, the unknown one last
    blocks: Components
    least: Longs  # M: partitions that a member gets at least
    most: Longs  # M: and at most
    held: Ints  # P: who has it and may keep it, -1 nobody
    before: Ints  # P: who has it, -1 nobody

    @property
    def taken(self) -> Bools:
        """P: somebody may have it."""
        return np.asarray(self.reader_set >= 0)

    @property
    def capacity(self) -> Floats:
        """M: relative speeds."""
        return self.group.capacity

    @property
    def block(self) -> Longs:
        """M: the block of a member, -1 none."""
        return self.blocks.of_signature[self.signature[self.kind]]

    def may(self, partitions: Longs | Ints, members: Longs | Ints) -> Bools:
        """Whether each partition may go to its member; broadcasts."""
        return self.allowed[self.reader_set[partitions], self.kind[members]]

    def crossing(self, partitions: Longs | Ints, members: Longs | Ints) -> Longs:
        """What each pair of a partition and a member costs in traffic between racks; broadcasts."""
        away = self.far[self.rackset[partitions], self.rack[self.kind[members]]]
        return np.where(away, self.weight[partitions], 0)

    def count(self, owner: Ints) -> Longs:
        """M: partitions of each member."""
        return np.bincount(owner[owner >= 0], minlength=len(self.kind))

    def work(self, owner: Ints) -> Floats:
        """M: what each member has to work through."""
        owned = owner >= 0
        return summed(owner[owned], self.load[owned], len(self.kind))

    def drain(self, owner: Ints) -> float:
        """The longest time to drain."""
        return float((self.work(owner) / self.capacity).max(initial=0.0))

    def crossed(self, owner: Ints) -> int:
        """The weight of what crosses racks."""
        owned = np.flatnonzero(owner >= 0)
        return int(self.crossing(owned, owner[owned]).sum())

    def moved(self, owner: Ints) -> Bools:
        """P: somebody had it and has it no more."""
        return np.asarray((self.before >= 0) & (self.before != owner))

    def even(self, owner: Ints) -> bool:
        """Whether counts are what they should be, and everybody may have what it has."""
        owned = np.flatnonzero(owner >= 0)
        if not np.array_equal(owner >= 0, self.taken) or not bool(
            self.may(owned, owner[owned]).all()
        ):
            return False
        count = self.count(owner)
        return bool(np.all((count >= self.least) & (count <= self.most)))


def summed(places: Longs | Ints, figures: Floats, size: int) -> Floats:
    """By place: the sum of its figures, added in their order."""
    return np.asarray(np.bincount(places, weights=figures, minlength=size), dtype=np.float64)


def terms(group: Group, wishes: Options) -> Model:
    """Put a group and its wishes into columns."""
    avoided = _avoided(group, wishes)
    reader_set, pinned = _audiences(group, wishes)
    signature_of, signature = _signatures(group, avoided, pinned)
    allowed = _allowed(group, avoided, pinned, signature_of, len(signature))
    possible = np.asarray(allowed.any(axis=1))
    reader_set[~possible[reader_set]] = -1
    supply = np.bincount(reader_set[reader_set >= 0], minlength=len(allowed))
    size = np.bincount(signature_of, minlength=len(signature))
    cut = blocks(supply, allowed, size)
    same = cut.of_audience[:, None] == cut.of_signature[None, :]
    width = len(group.racks) + 1
    pair = signature_of * width + group.member_rack + 1
    speeds = np.unique(group.capacity)
    speed = (
        np.searchsorted(speeds, group.capacity) if len(speeds) <= SPEEDS else np.zeros_like(pair)
    )
    kind = numbered(pair * SPEEDS + speed)
    sample = np.zeros(int(kind.max(initial=-1)) + 1, dtype=np.int64)
    sample[kind] = pair
    of_kind = sample // width
    least, most = _limits(cut, signature_of, wishes.count_slack)
    rackset, near = rack_sets(group)
    # Where a partition's racks or the member's are unknown, nothing is far.
    far = np.zeros((len(near), near.shape[1] + 1), dtype=np.bool_)
    far[:, :-1] = ~near & near.any(axis=1, keepdims=True)
    before = Assignment.held(group).owner
    made = Model(
        group=group,
        wishes=wishes,
        load=np.rint(group.lag + group.rate * wishes.horizon),
        weight=_weights(group.traffic),
        reader_set=reader_set,
        kind=kind,
        signature=of_kind,
        rack=sample % width - 1,
        wanted=allowed[:, of_kind],
        allowed=(allowed & same)[:, of_kind],
        rackset=rackset,
        far=far,
        blocks=cut,
        least=least,
        most=most,
        held=before,
        before=before,
    )
    return replace(made, held=_keepable(made, before))


def _keepable(made: Model, before: Ints) -> Ints:
    held = np.where(made.taken, before, NOBODY).astype(np.int32)
    claimed = np.flatnonzero(held >= 0)
    held[claimed[~made.may(claimed, held[claimed])]] = NOBODY
    return held


def _avoided(group: Group, wishes: Options) -> Bools:
    """M: gets nothing where another reads it."""
    avoided = np.isin(np.array(group.members, dtype=object), wishes.drain) if wishes.drain else None
    gone = [rack for rack, name in enumerate(group.racks) if name in wishes.evacuate]
    away: Bools = np.isin(group.member_rack, gone)
    return away if avoided is None else away | avoided


def _audiences(group: Group, wishes: Options) -> tuple[Longs, Longs]:
    """P: the topic's audience, or one of its own for each member that has pins; and these members."""
    reader_set = group.reader_set[group.partition_topic].astype(np.int64)
    topic_of = {name: number for number, name in enumerate(group.topics)} if wishes.pins else {}
    member_of = {name: number for number, name in enumerate(group.members)} if wishes.pins else {}
    there: dict[int, int] = {}
    for name, theirs in wishes.pins.items():
        topic = topic_of.get(name)
        if topic is None:
            continue
        first, end = group.topic_start[topic : topic + 2].tolist()
        readers = set(group.readers(topic).tolist())
        for place, who in theirs.items():
            if place < end - first and member_of.get(who) in readers:
                there[first + place] = member_of[who]
    pinned = np.array(sorted(set(there.values())), dtype=np.int64)
    if there:
        places = np.array(list(there), dtype=np.int64)
        members = np.array(list(there.values()), dtype=np.int64)
        reader_set[places] = len(group.reader_start) - 1 + np.searchsorted(pinned, members)
    return reader_set, pinned


def _signatures(group: Group, avoided: Bools, pinned: Longs) -> tuple[Longs, Longs]:
    """M: a number shared by members that differ at most in rack, capacity and claims; and what it stands for."""
    key = (group.subscription.astype(np.int64) * 2 + avoided) * (len(pinned) + 1)
    key[pinned] += 1 + np.arange(len(pinned))
    signature = numbered(key)
    return signature, np.unique(key)


def _allowed(group: Group, avoided: Bools, pinned: Longs, signature: Longs, width: int) -> Bools:
    """A x G: who may have what, counts aside."""
    reader_sets = len(group.reader_start) - 1
    allowed = np.zeros((reader_sets + len(pinned), width), dtype=np.bool_)
    for reader_set in range(reader_sets):
        readers = group.reader[group.reader_start[reader_set] : group.reader_start[reader_set + 1]]
        wanted = readers[~avoided[readers]]
        allowed[reader_set, signature[wanted if len(wanted) else readers]] = True
    allowed[reader_sets + np.arange(len(pinned)), signature[pinned]] = True
    return allowed


def _limits(cut: Components, signature_of: Longs, slack: int) -> tuple[Longs, Longs]:
    block = cut.of_signature[signature_of]
    inside = block >= 0
    least = np.zeros(len(block), dtype=np.int64)
    most = np.zeros(len(block), dtype=np.int64)
    least[inside] = np.maximum(cut.level[block[inside]] - slack, 0)
    most[inside] = (cut.level + (cut.extras > 0))[block[inside]] + slack
    return least, most


def _weights(traffic: Floats) -> Longs:
    """Whole weights in proportion to the traffic; as they are where they are whole and not too many."""
    total = float(traffic.sum())
    if total <= HEAVIEST and bool((traffic == np.rint(traffic)).all()):
        return traffic.astype(np.int64)
    return np.rint(traffic * (HEAVIEST / total)).astype(np.int64)
