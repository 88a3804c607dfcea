"""`lag-global`: lag spread over all topics at once, with as few moves as that allows.

Source: the open requests of KAFKA-5337 (across topics, sticky, with a bound on the counts).
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs, radix
from levelwind.assignors.problem.group import Group
from levelwind.assignors.sticky import kept_claims

MAX_EXCHANGE_CANDIDATES = 64
"""Partitions of a member that are tried in exchanges: heaviest of giver, lightest of taker."""

FEW_MEMBERS = 64
"""Below this number of members, a heap is faster than NumPy's sort of each round."""

MAX_TAKERS = 8
"""Members that are tried as takers: the least loaded ones."""


def lag_global_strategy(
    group: Group, *, max_count_skew: int = 1, stick_within: float = 1.25
) -> Assignment:
    """Level each member's load, its lag over its capacity, over all topics together.

    Guarantees: claims stay. Unowned partitions are dealt by decreasing lag to the reader with the
    least load among those that have fewer than `max_count_skew` partitions more than the reader
    with the fewest. Then counts that differ by more than `max_count_skew` are narrowed by moving
    the least lag. Finally, while the most loaded member has more than `stick_within` times the
    mean, it makes the shift or exchange with another member that gives the two the lowest peak.
    Ties: partitions of equal lag by topic and number; members of equal load by count, then id.
    Cost: O(P (log P + log M)) with equal subscriptions, O(S x partitions) otherwise; and
    O(M + MAX_EXCHANGE_CANDIDATES²) a move, however many partitions the two members have.
    """
    placement = _LagPlacement(group, kept_claims(group), max_count_skew)
    free = np.flatnonzero((placement.owner < 0) & group.has_reader())
    free = free[np.argsort(-group.lag[free], kind="stable")]
    if group.equal_subscriptions:
        placement.deal(free)
    else:
        placement.deal_to_readers(free)
    placement.index_partitions()
    placement.narrow_counts()
    placement.level_loads(stick_within)
    return Assignment(placement.owner)


@dataclass(frozen=True, slots=True)
class _Move:
    """Shift of a partition to another member, or exchange for one of its partitions."""

    peak: float
    """Load of the more loaded of the two members after the move."""
    taker: int
    """Member that takes the partition."""
    partition: int
    """Partition that the giver passes on."""
    returned: int = NOBODY
    """Partition that the taker gives back; -1 for a shift."""


class _LagPlacement:
    """Owners, counts and loads while partitions are dealt and moved."""

    __slots__ = (
        "by_lag",
        "capacity",
        "count",
        "group",
        "load",
        "max_count_skew",
        "owner",
        "rank",
        "ranks_of",
        "subscribed",
    )

    def __init__(self, group: Group, owner: Ints, max_count_skew: int) -> None:
        self.group, self.owner, self.max_count_skew = group, owner, max_count_skew
        self.capacity = group.relative_capacity
        # P: partitions by lag, then by number; and each one's rank in this order.
        self.by_lag, self.rank = np.empty((2, len(owner)), dtype=np.int64)
        # By member, after `index_partitions`: ranks of its partitions, ascending. What is moved is
        # at an end or found by bisection, so that no move looks at all of them.
        self.ranks_of: list[list[int]] = []
        self.subscribed = np.flatnonzero(np.diff(group.subscribed_start)[group.subscription] > 0)
        owned = owner >= 0
        members = len(group.members)
        self.count: Longs = np.bincount(owner[owned], minlength=members)
        self.load: Floats = (
            np.bincount(owner[owned], weights=group.lag[owned], minlength=members) / self.capacity
        )

    def _assign(self, partition: int, member: int) -> None:
        """Give a partition to a member, and keep counts and loads current."""
        former_owner = self.owner[partition]
        if former_owner >= 0:
            self.count[former_owner] -= 1
            self.load[former_owner] -= self.group.lag[partition] / self.capacity[former_owner]
        self.owner[partition] = member
        self.count[member] += 1
        self.load[member] += self.group.lag[partition] / self.capacity[member]

    def _transfer(self, partition: int, member: int) -> None:
        """Move a partition to a member, after `index_partitions`."""
        rank = int(self.rank[partition])
        given = self.ranks_of[int(self.owner[partition])]
        del given[bisect_left(given, rank)]
        insort(self.ranks_of[member], rank)
        self._assign(partition, member)

    def index_partitions(self) -> None:
        """Rank the partitions of each owner, once all are dealt and before any moves."""
        self.by_lag = np.argsort(self.group.lag, kind="stable")
        self.rank[self.by_lag] = np.arange(len(self.owner))
        order = self.by_lag[radix(self.owner[self.by_lag], len(self.count))]
        order = order[np.searchsorted(self.owner[order], 0) :]
        ranks = np.split(self.rank[order], np.cumsum(self.count)[:-1]) if len(self.count) else []
        self.ranks_of = [own.tolist() for own in ranks]

    def deal(self, partitions: Longs) -> None:
        """Deal where every member reads every topic."""
        if self.max_count_skew == 1 and len(self.count) >= FEW_MEMBERS:
            self._deal_in_rounds(partitions)
        else:
            self._deal_by_heap(partitions)

    def _deal_in_rounds(self, partitions: Longs) -> None:
        """Deal a round to all members with the fewest partitions, the least loaded first."""
        begin, gained = 0, self.group.lag[partitions]
        while begin < len(partitions):
            eligible = np.flatnonzero(self.count == self.count.min())
            eligible = eligible[np.argsort(self.load[eligible], kind="stable")][
                : len(partitions) - begin
            ]
            end = begin + len(eligible)
            self.owner[partitions[begin:end]] = eligible
            self.load[eligible] += gained[begin:end] / self.capacity[eligible]
            self.count[eligible] += 1
            begin = end

    def _deal_by_heap(self, partitions: Longs) -> None:
        """Deal from a heap of the members that may take a partition, others parked by count."""
        count, load, capacity = (
            self.count.tolist(),
            self.load.tolist(),
            self.capacity.tolist(),
        )
        fewest = min(count, default=0)
        parked: dict[int, list[int]] = {}
        members_with_count: dict[int, int] = {}
        for member, member_count in enumerate(count):
            members_with_count[member_count] = members_with_count.get(member_count, 0) + 1
            if member_count >= fewest + self.max_count_skew:
                parked.setdefault(member_count, []).append(member)
        heap = [
            (load[m], count[m], m)
            for m in range(len(count))
            if count[m] < fewest + self.max_count_skew
        ]
        heapify(heap)
        for partition, lag in zip(
            partitions.tolist(), self.group.lag[partitions].tolist(), strict=True
        ):
            _, member_count, member = heappop(heap)
            self.owner[partition] = member
            load[member] += lag / capacity[member]
            count[member] = member_count + 1
            members_with_count[member_count] -= 1
            members_with_count[member_count + 1] = members_with_count.get(member_count + 1, 0) + 1
            if member_count + 1 < fewest + self.max_count_skew:
                heappush(heap, (load[member], member_count + 1, member))
            else:
                parked.setdefault(member_count + 1, []).append(member)
            while not members_with_count[fewest]:
                for freed in parked.pop(fewest + self.max_count_skew, ()):
                    heappush(heap, (load[freed], count[freed], freed))
                fewest += 1
        self.count[:], self.load[:] = count, load

    def deal_to_readers(self, partitions: Longs) -> None:
        """Deal where subscriptions differ: by the same rule among each topic's readers."""
        for partition in partitions.tolist():
            readers = self.group.readers(int(self.group.partition_topic[partition]))
            count = self.count[readers]
            eligible = readers[count < count.min() + self.max_count_skew]
            load = self.load[eligible]
            least = eligible[load == load.min()]
            self._assign(partition, int(least[np.argmin(self.count[least])]))

    def narrow_counts(self) -> None:
        """Move the least lag from members with too many partitions to members with too few."""
        stuck = np.zeros(len(self.count), dtype=np.bool_)
        while not stuck.all():
            giver = int(np.argmax(np.where(stuck, -1, self.count)))
            if (
                self.count[giver] - self.count[self.subscribed].min(initial=self.count[giver])
                <= self.max_count_skew
            ):
                break
            transfer = self._lightest_transfer(giver)
            if transfer is None:
                stuck[giver] = True
            else:
                self._transfer(*transfer)
                # Members with more than that may now give to this giver.
                stuck &= self.count <= self.count[giver] + self.max_count_skew

    def _lightest_transfer(self, giver: int) -> tuple[int, int] | None:
        """Least lag that narrows the counts, as partition and taker; None where nothing does."""
        seen: set[int] = set()
        for rank in self.ranks_of[giver]:
            partition = int(self.by_lag[rank])
            topic = int(self.group.partition_topic[partition])
            reader_set = int(self.group.reader_set[topic])
            if reader_set in seen:
                continue
            seen.add(reader_set)
            readers = self.group.readers(topic)
            fewest = readers[self.count[readers] == self.count[readers].min()]
            taker = int(fewest[np.argmin(self.load[fewest])])
            if self.count[giver] - self.count[taker] > self.max_count_skew:
                return partition, taker
        return None

    def level_loads(self, stick_within: float) -> None:
        """Lower the largest load to `stick_within` times the mean, or until no move lowers it."""
        while len(self.subscribed):
            giver = int(self.subscribed[np.argmax(self.load[self.subscribed])])
            if self.load[giver] <= stick_within * self.load[self.subscribed].mean():
                break
            move = self._best_move(giver)
            if move is None:
                break
            self._transfer(move.partition, move.taker)
            if move.returned != NOBODY:
                self._transfer(move.returned, giver)

    def _best_move(self, giver: int) -> _Move | None:
        """Move with the lowest peak; None where no move lowers the giver's load."""
        candidates = self._heaviest(giver)
        candidates = candidates[self.group.lag[candidates] > 0]
        takers = self.subscribed[np.argsort(self.load[self.subscribed], kind="stable")][
            : MAX_TAKERS + 1
        ]
        found: list[_Move] = []
        for taker in takers[takers != giver].tolist():
            readable = candidates[self._readable(taker, candidates)]
            if len(readable):
                found += self._candidate_moves(giver, taker, readable)
        found.sort(
            key=lambda move: (move.peak, move.returned != NOBODY, move.partition, move.taker)
        )
        for move in found:
            if move.peak >= self.load[giver] * (1 - 1e-9):
                break
            if self.group.equal_subscriptions or self._keeps_counts(giver, move):
                return move
        return None

    def _heaviest(self, member: int) -> Longs:
        """Heaviest partitions of a member, by lag from the most, then by number."""
        ranks = self.ranks_of[member]
        heaviest = ranks[-MAX_EXCHANGE_CANDIDATES:]
        if heaviest:
            # Of those with the least lag among them, the ones with the lowest numbers.
            least = self._lag_at(heaviest[0])
            begin = bisect_left(ranks, least, key=self._lag_at)
            end = bisect_right(ranks, least, key=self._lag_at)
            above = ranks[end:]
            heaviest = ranks[begin : begin + len(heaviest) - len(above)] + above
        partitions = np.sort(self.by_lag[heaviest])
        return partitions[np.argsort(-self.group.lag[partitions], kind="stable")]

    def _lag_at(self, rank: int) -> int:
        return int(self.group.lag[self.by_lag[rank]])

    def _lightest_readable(self, member: int, reader: int) -> Longs:
        """Lightest partitions of a member that another one reads, by lag, then by number."""
        ranks = self.ranks_of[member]
        if self.group.equal_subscriptions:
            ranks = ranks[:MAX_EXCHANGE_CANDIDATES]
        partitions = self.by_lag[ranks]
        return partitions[self._readable(reader, partitions)][:MAX_EXCHANGE_CANDIDATES]

    def _keeps_counts(self, giver: int, move: _Move) -> bool:
        """Whether a move leaves no counts to narrow; otherwise the next plan would move again."""
        shift = int(move.returned == NOBODY)
        count = self.count.copy()
        count[giver] -= shift
        count[move.taker] += shift
        owner = self.owner.copy()
        owner[move.partition] = move.taker
        if not shift:
            owner[move.returned] = giver
        sets = np.repeat(
            np.arange(len(self.group.reader_start) - 1), np.diff(self.group.reader_start)
        )
        fewest = np.full(len(self.group.reader_start) - 1, len(owner), dtype=np.int64)
        np.minimum.at(fewest, sets, count[self.group.reader])
        owned = np.flatnonzero(owner >= 0)
        lowest = fewest[self.group.reader_set[self.group.partition_topic[owned]]]
        return bool((count[owner[owned]] - lowest <= self.max_count_skew).all())

    def _candidate_moves(self, giver: int, taker: int, candidates: Longs) -> list[_Move]:
        """Best shift and best exchange with one taker."""
        giver_capacity, taker_capacity = self.capacity[giver], self.capacity[taker]
        lag = self.group.lag[candidates].astype(np.float64)
        moves = []
        if self._keeps_count_skew(giver, taker):
            peak = np.maximum(
                self.load[giver] - lag / giver_capacity, self.load[taker] + lag / taker_capacity
            )
            best_shift = int(np.argmin(peak))
            moves.append(_Move(float(peak[best_shift]), taker, int(candidates[best_shift])))
        returned = self._lightest_readable(taker, giver)
        if len(returned):
            gain = lag[:, None] - self.group.lag[returned][None, :]
            peaks = np.maximum(
                self.load[giver] - gain / giver_capacity, self.load[taker] + gain / taker_capacity
            )
            best_exchange = int(np.argmin(peaks))
            row, column = divmod(best_exchange, len(returned))
            moves.append(
                _Move(
                    float(peaks.flat[best_exchange]),
                    taker,
                    int(candidates[row]),
                    int(returned[column]),
                )
            )
        return moves

    def _keeps_count_skew(self, giver: int, taker: int) -> bool:
        """Whether after a shift the counts differ by no more than allowed, or than before."""
        count = self.count[self.subscribed]
        most, fewest = count.max(), count.min()
        after = max(most, self.count[taker] + 1) - min(fewest, self.count[giver] - 1)
        return bool(after <= max(most - fewest, self.max_count_skew))

    def _readable(self, member: int, partitions: Longs) -> Bools:
        """Whether the member reads each partition's topic."""
        return np.isin(self.group.partition_topic[partitions], self.group.subscribed(member))
