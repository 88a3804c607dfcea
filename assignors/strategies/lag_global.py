"""`lag-global`: lag spread over all topics at once, with as few moves as that allows.

Source: KAFKA-5337's open wishes (across topics, sticky, with a bound on how far counts may differ).
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    radix,
)
from assignors.problem.group import Group
from assignors.sticky import kept_claims

WIDEST = 64  # partitions of a member that are tried in exchanges: the heaviest of the giver, the lightest of the taker
FEW_MEMBERS = 64  # below it a heap beats an array's sort of each round
TAKERS = 8  # members that are tried as takers: the least loaded ones


def lag_global_strategy(
    group: Group, *, max_count_skew: int = 1, stick_within: float = 1.25
) -> Assignment:
    """Level what members have to catch up with, lag over capacity, over all topics together.

    Law: claims stay. What nobody holds is dealt by decreasing lag to the reader with the least load among those that have
    fewer than `max_count_skew` partitions more than the reader with the fewest. Then, first, counts that differ by more
    than `max_count_skew` are narrowed by moving the least lag; and while the most loaded member has more than
    `stick_within` times the mean, it passes on or exchanges what brings the pair of them lowest.
    Ties: partitions of equal lag by topic and number; members of equal load by count, then id.
    Cost: O(P log M) with equal subscriptions, O(S x partitions) otherwise; and O(M + widest²) a move.
    """
    desk = _Desk(group, kept_claims(group), max_count_skew)
    free = np.flatnonzero((desk.owner < 0) & group.has_reader())
    free = free[np.argsort(-group.lag[free], kind="stable")]
    if group.equal_subscriptions:
        desk.deal(free)
    else:
        desk.deal_to_readers(free)
    desk.dealt()
    desk.narrow_counts()
    desk.level(stick_within)
    return Assignment(desk.owner)


@dataclass(frozen=True, slots=True)
class _Move:
    """A partition to another member, and perhaps one back for it."""

    peak: float  # what the more loaded of the two has then
    taker: int
    partition: int
    back: int = NOBODY


class _Desk:
    """Who has what while it is dealt and moved."""

    __slots__ = ("count", "group", "load", "mine", "owner", "reading", "skew")

    def __init__(self, group: Group, owner: Ints, skew: int) -> None:
        self.group, self.owner, self.skew = group, owner, skew
        self.mine: list[Longs] = []  # by member, once all is dealt: its partitions
        self.reading = np.flatnonzero(np.diff(group.subscribed_start)[group.subscription] > 0)
        owned = owner >= 0
        members = len(group.members)
        self.count: Longs = np.bincount(owner[owned], minlength=members)
        self.load: Floats = (
            np.bincount(owner[owned], weights=group.lag[owned], minlength=members) / group.capacity
        )

    def _put(self, partition: int, member: int) -> None:
        before = self.owner[partition]
        if before >= 0:
            self.count[before] -= 1
            self.load[before] -= self.group.lag[partition] / self.group.capacity[before]
        self.owner[partition] = member
        self.count[member] += 1
        self.load[member] += self.group.lag[partition] / self.group.capacity[member]

    def _hand_over(self, partition: int, member: int) -> None:
        before = int(self.owner[partition])
        self.mine[before] = self.mine[before][self.mine[before] != partition]
        self.mine[member] = np.append(self.mine[member], partition)
        self._put(partition, member)

    def dealt(self) -> None:
        """Sort the partitions by their owners, for what moves them."""
        order = radix(self.owner, len(self.count))
        order = order[np.searchsorted(self.owner[order], 0) :]
        self.mine = np.split(order, np.cumsum(self.count)[:-1]) if len(self.count) else []

    def deal(self, partitions: Longs) -> None:
        """Where everybody reads everything."""
        if self.skew == 1 and len(self.count) >= FEW_MEMBERS:
            self._deal_in_rounds(partitions)
        else:
            self._deal_one_by_one(partitions)

    def _deal_in_rounds(self, partitions: Longs) -> None:
        """Nobody may get ahead, so a round goes to all that have the fewest, the least loaded first."""
        begin, gained = 0, self.group.lag[partitions]
        while begin < len(partitions):
            able = np.flatnonzero(self.count == self.count.min())
            able = able[np.argsort(self.load[able], kind="stable")][: len(partitions) - begin]
            end = begin + len(able)
            self.owner[partitions[begin:end]] = able
            self.load[able] += gained[begin:end] / self.group.capacity[able]
            self.count[able] += 1
            begin = end

    def _deal_one_by_one(self, partitions: Longs) -> None:
        """A heap of those that may get one, the others parked by their counts."""
        count, load, capacity = (
            self.count.tolist(),
            self.load.tolist(),
            self.group.capacity.tolist(),
        )
        fewest = min(count, default=0)
        parked: dict[int, list[int]] = {}
        at: dict[int, int] = {}
        for member, has in enumerate(count):
            at[has] = at.get(has, 0) + 1
            if has >= fewest + self.skew:
                parked.setdefault(has, []).append(member)
        heap = [(load[m], count[m], m) for m in range(len(count)) if count[m] < fewest + self.skew]
        heapify(heap)
        for partition, lag in zip(
            partitions.tolist(), self.group.lag[partitions].tolist(), strict=True
        ):
            _, has, member = heappop(heap)
            self.owner[partition] = member
            load[member] += lag / capacity[member]
            count[member] = has + 1
            at[has] -= 1
            at[has + 1] = at.get(has + 1, 0) + 1
            if has + 1 < fewest + self.skew:
                heappush(heap, (load[member], has + 1, member))
            else:
                parked.setdefault(has + 1, []).append(member)
            while not at[fewest]:
                for freed in parked.pop(fewest + self.skew, ()):
                    heappush(heap, (load[freed], count[freed], freed))
                fewest += 1
        self.count[:], self.load[:] = count, load

    def deal_to_readers(self, partitions: Longs) -> None:
        """Where subscriptions differ: the same rule among each topic's readers."""
        for partition in partitions.tolist():
            readers = self.group.readers(int(self.group.partition_topic[partition]))
            count = self.count[readers]
            able = readers[count < count.min() + self.skew]
            load = self.load[able]
            least = able[load == load.min()]
            self._put(partition, int(least[np.argmin(self.count[least])]))

    def narrow_counts(self) -> None:
        """Move the least lag from who has too many to who has too few."""
        settled = np.zeros(len(self.count), dtype=np.bool_)
        while not settled.all():
            giver = int(np.argmax(np.where(settled, -1, self.count)))
            if (
                self.count[giver] - self.count[self.reading].min(initial=self.count[giver])
                <= self.skew
            ):
                break
            mine = np.sort(self.mine[giver])
            step = self._lightest(giver, mine[np.argsort(self.group.lag[mine], kind="stable")])
            if step is None:
                settled[giver] = True
            else:
                self._hand_over(*step)
                settled &= (
                    self.count <= self.count[giver] + self.skew
                )  # others may give to this one now

    def _lightest(self, giver: int, mine: Longs) -> tuple[int, int] | None:
        seen: set[int] = set()
        for partition in mine.tolist():
            topic = int(self.group.partition_topic[partition])
            reader_set = int(self.group.reader_set[topic])
            if reader_set in seen:
                continue
            seen.add(reader_set)
            readers = self.group.readers(topic)
            fewest = readers[self.count[readers] == self.count[readers].min()]
            taker = int(fewest[np.argmin(self.load[fewest])])
            if self.count[giver] - self.count[taker] > self.skew:
                return partition, taker
        return None

    def level(self, within: float) -> None:
        """Lower the most loaded member until it has no more than so many times the mean, or nothing lowers it."""
        while len(self.reading):
            giver = int(self.reading[np.argmax(self.load[self.reading])])
            if self.load[giver] <= within * self.load[self.reading].mean():
                break
            move = self._best(giver)
            if move is None:
                break
            self._hand_over(move.partition, move.taker)
            if move.back != NOBODY:
                self._hand_over(move.back, giver)

    def _best(self, giver: int) -> _Move | None:
        mine = np.sort(self.mine[giver])
        mine = mine[np.argsort(-self.group.lag[mine], kind="stable")][:WIDEST]
        mine = mine[self.group.lag[mine] > 0]
        takers = self.reading[np.argsort(self.load[self.reading], kind="stable")][: TAKERS + 1]
        found: list[_Move] = []
        for taker in takers[takers != giver].tolist():
            theirs = mine[self._readable(taker, mine)]
            if len(theirs):
                found += self._moves(giver, taker, theirs)
        found.sort(key=lambda move: (move.peak, move.back != NOBODY, move.partition, move.taker))
        for move in found:
            if move.peak >= self.load[giver] * (1 - 1e-9):
                break
            if self.group.equal_subscriptions or self._keeps_counts(giver, move):
                return move
        return None

    def _keeps_counts(self, giver: int, move: _Move) -> bool:
        """Whether nobody could then narrow counts: else the next plan would move what this one has just placed."""
        shift = int(move.back == NOBODY)
        count = self.count.copy()
        count[giver] -= shift
        count[move.taker] += shift
        owner = self.owner.copy()
        owner[move.partition] = move.taker
        if not shift:
            owner[move.back] = giver
        fewest = np.array(
            [
                count[readers].min() if len(readers) else 0
                for readers in np.split(self.group.reader, self.group.reader_start[1:-1])
            ]
        )
        owned = np.flatnonzero(owner >= 0)
        lowest = fewest[self.group.reader_set[self.group.partition_topic[owned]]]
        return bool((count[owner[owned]] - lowest <= self.skew).all())

    def _moves(self, giver: int, taker: int, mine: Longs) -> list[_Move]:
        """The best shift and the best exchange with one taker."""
        own, other = self.group.capacity[giver], self.group.capacity[taker]
        lag = self.group.lag[mine].astype(np.float64)
        moves = []
        if self._may_shift(giver, taker):
            peak = np.maximum(self.load[giver] - lag / own, self.load[taker] + lag / other)
            at = int(np.argmin(peak))
            moves.append(_Move(float(peak[at]), taker, int(mine[at])))
        back = np.sort(self.mine[taker])
        back = back[self._readable(giver, back)]
        back = back[np.argsort(self.group.lag[back], kind="stable")][:WIDEST]
        if len(back):
            gain = lag[:, None] - self.group.lag[back][None, :]
            peaks = np.maximum(self.load[giver] - gain / own, self.load[taker] + gain / other)
            best = int(np.argmin(peaks))
            row, column = divmod(best, len(back))
            moves.append(_Move(float(peaks.flat[best]), taker, int(mine[row]), int(back[column])))
        return moves

    def _may_shift(self, giver: int, taker: int) -> bool:
        """Whether the counts of those that read differ by no more afterwards than they may, or than they do."""
        count = self.count[self.reading]
        most, fewest = count.max(), count.min()
        after = max(most, self.count[taker] + 1) - min(fewest, self.count[giver] - 1)
        return bool(after <= max(most - fewest, self.skew))

    def _readable(self, member: int, partitions: Longs) -> Bools:
        return np.isin(self.group.partition_topic[partitions], self.group.subscribed(member))
