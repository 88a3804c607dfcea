"""A group as `optimal` optimises it: loads, cross-rack costs, eligible members and count limits.

Members with equal subscription, pins, drain status, rack and about the same capacity form one
*member class* (where there are more than `MAX_CAPACITIES` capacities, capacity is left out).
Partitions with the same possible owners form one *reader set*.

A model has the count limits of one *slack*; `with_slack` gives that of another one.

Guarantees: only `keepable_owner` and `current_owner` depend on the current ownership, so nothing
that is computed from the other columns does; `for_repair` alone makes count limits depend on it.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from levelwind.assignors.optimal.model.count_limits import CountLimits, count_limits
from levelwind.assignors.optimal.model.even_counts import Components, connect, decompose
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs, numbered
from levelwind.assignors.problem.drain import horizon_seconds
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.locality import rack_sets

Indices: TypeAlias = Longs | Ints | int
"""Partitions or members, or one of them."""
MAX_CAPACITIES = 8
"""Distinct capacities up to which capacity tells member classes apart."""
CAPACITY_STEP = 1.25
"""Ratio of capacities that tells member classes apart where more capacities than that differ:
learned speeds hardly ever agree."""
LOAD_BITS = 46
"""Bits that the total of all loads has: fewer than a float has, so that sums are exact."""
MAX_TOTAL_WEIGHT = 2**36
"""Largest weight of all traffic together, so that sums of weights and moves stay exact."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """The optimisation problem in columns.

    P partitions, M members, A reader sets, G eligibilities, C member classes, K rack sets, B
    components.
    """

    group: Group
    """The group that is planned."""
    options: Options
    """The options that it is planned with."""
    horizon: float
    """Seconds of arrivals that count as load."""
    load: Floats
    """P: records to work through: the lag, and the arrivals of the horizon."""
    weight: Longs
    """P: cross-rack cost of the partition, if it is read across racks: its traffic, rounded."""
    reader_set: Longs
    """P: index of the members that may own the partition; -1 if no member may."""
    member_class: Longs
    """M: index of the member's class."""
    eligibility: Longs
    """C: index of the eligibility (subscription, pins and drain status) of the class."""
    class_rack: Longs
    """C: the rack of the class; -1 if it is unknown."""
    eligible: Bools
    """A x C: subscriptions and options let the class own partitions of the reader set."""
    allowed: Bools
    """A x C: the same, and at slack 0 the most even counts let it, too."""
    rack_set: Longs
    """P: index of the racks that hold a replica."""
    rack_remote: Bools
    """K x racks + 1: the rack holds no replica; False where a rack is unknown.

    The unknown rack comes last.
    """
    even: Components
    """The components that the most even counts decompose into."""
    connected: Components
    """The components that share no possible owner, whatever the counts."""
    components: Components
    """The components of this slack: `even` at 0, else `connected`."""
    limits: CountLimits
    """Count limits of every slack."""
    slack: int
    """How far counts may depart from the most even ones, within the limits' bound."""
    min_count: Longs
    """M: partitions that the member gets at least."""
    max_count: Longs
    """M: partitions that the member gets at most. Invariant: 0 <= min_count <= max_count."""
    keepable_owner: Ints
    """P: the current owner where it may keep the partition; -1 elsewhere."""
    current_owner: Ints
    """P: the current owner; -1 if there is none."""

    @property
    def class_count(self) -> int:
        """Number of member classes, C."""
        return len(self.eligibility)

    @property
    def assignable(self) -> Bools:
        """P: whether some member may own the partition."""
        return np.asarray(self.reader_set >= 0)

    @property
    def capacity(self) -> Floats:
        """M: records per second."""
        return self.group.capacity

    @property
    def component(self) -> Longs:
        """M: the component of each member; -1 if it is in none."""
        return self.components.of_eligibility[self.eligibility[self.member_class]]

    @property
    def partition_component(self) -> Longs:
        """P: component of the partition; -1 without a possible owner."""
        return np.where(self.assignable, self.components.of_reader_set[self.reader_set], -1)

    @property
    def extra_partitions(self) -> Longs:
        """B: partitions that remain once every member has its minimum count."""
        components, inside = len(self.components.quota), self.component >= 0
        total = np.bincount(self.partition_component[self.assignable], minlength=components)
        guaranteed = np.bincount(
            self.component[inside], weights=self.min_count[inside], minlength=components
        )
        return total - guaranteed.astype(np.int64)

    def with_slack(self, slack: int) -> "Model":
        """The same problem with the count limits of a slack."""
        min_count, max_count = self.limits.of_slack(slack)
        components = self.connected if slack else self.even
        same = components.of_reader_set[:, None] == components.of_eligibility[self.eligibility]
        model = replace(
            self,
            components=components,
            slack=slack,
            min_count=min_count,
            max_count=max_count,
            allowed=self.eligible & same,
        )
        return replace(model, keepable_owner=_keepable(model))

    def for_repair(self, planned: Ints) -> "Model":
        """The same problem with the count limits of a plan that keeps what members own.

        Counts may depart from the even ones up to twice as far as load needs and by one more, since
        a partition that stays is worth more than an even count. A member that owns nothing is new:
        it gets as many as in the plan from scratch, up to the even count, however little load needs
        it; and nobody is left without any who would then look new.

        Args:
            planned: owners of the plan from scratch (P).
        """
        model = self.with_slack(min(2 * self.slack + 1, self.limits.largest_slack))
        share = np.minimum(self.member_count(planned), self.limits.even_min)
        owned = self.member_count(self.current_owner)
        least = np.where(owned > 0, np.minimum(share, 1), share)
        return replace(model, min_count=np.maximum(model.min_count, least))

    def with_shares(self, planned: Ints) -> "Model":
        """The same problem where every member gets as many as a new one, whatever it owns.

        Args:
            planned: owners of the plan from scratch (P).
        """
        share = np.minimum(self.member_count(planned), self.limits.even_min)
        return replace(self, min_count=np.maximum(self.min_count, share))

    def may_own(self, partitions: Indices, members: Indices) -> Bools:
        """Return whether each member may own its partition; the arguments broadcast."""
        return np.asarray(self.allowed[self.reader_set[partitions], self.member_class[members]])

    def takers(self, partition: int) -> Longs:
        """Members that may own a partition, ascending."""
        return np.flatnonzero(self.allowed[self.reader_set[partition]][self.member_class])

    def cross_rack_cost(self, partitions: Indices, members: Indices) -> Longs:
        """Return the cross-rack cost of each partition and member; the arguments broadcast."""
        remote = self.rack_remote[
            self.rack_set[partitions], self.class_rack[self.member_class[members]]
        ]
        return np.where(remote, self.weight[partitions], 0)

    def cross_rack_change(self, partitions: Indices, before: Indices, after: Indices) -> Longs:
        """Change of the cross-rack cost of each partition that goes to another member."""
        cost_before = self.cross_rack_cost(partitions, before)
        return np.asarray(self.cross_rack_cost(partitions, after) - cost_before)

    def member_count(self, owner: Ints) -> Longs:
        """Partitions of each member under a plan (M)."""
        return np.bincount(owner[owner >= 0], minlength=len(self.member_class))

    def member_load(self, owner: Ints) -> Floats:
        """Load of each member under a plan (M)."""
        owned = owner >= 0
        return sum_by_index(owner[owned], self.load[owned], len(self.member_class))

    def drain_time(self, owner: Ints) -> Floats:
        """Load of each member under a plan, in seconds (M)."""
        return self.member_load(owner) / self.capacity

    def max_drain_time(self, owner: Ints) -> float:
        """Largest load of any member under a plan, in seconds."""
        return float(self.drain_time(owner).max(initial=0.0))

    def total_cross_rack_cost(self, owner: Ints) -> int:
        """Weight of all partitions whose owner is in another rack than every replica."""
        member_rack = np.append(self.class_rack[self.member_class], -1)  # the last: no owner
        return int(self.weight[self.rack_remote[self.rack_set, member_rack[owner]]].sum())

    def moved(self, owner: Ints) -> Bools:
        """P: whether the plan takes the partition from its current owner."""
        return np.asarray((self.current_owner >= 0) & (self.current_owner != owner))

    def is_feasible(self, owner: Ints) -> bool:
        """Return whether a plan is complete, allowed, and within the count limits."""
        owned = np.flatnonzero(owner >= 0)
        if not np.array_equal(owner >= 0, self.assignable) or not bool(
            self.may_own(owned, owner[owned]).all()
        ):
            return False
        count = self.member_count(owner)
        return bool(np.all((count >= self.min_count) & (count <= self.max_count)))


def sum_by_index(index: Longs | Ints, values: Floats, size: int) -> Floats:
    """Sum the values of each index below `size`, added in their order."""
    return np.asarray(np.bincount(index, weights=values, minlength=size), dtype=np.float64)


def build_model(group: Group, options: Options) -> Model:
    """Put a group and its options into columns."""
    avoided = _avoided_members(group, options)
    reader_set, pinned = _partition_reader_sets(group, options)
    member_eligibility, eligibilities = _eligibilities(group, avoided, pinned)
    eligible = _eligible_pairs(group, avoided, pinned, member_eligibility, len(eligibilities))
    possible = np.asarray(eligible.any(axis=1))
    reader_set[~possible[reader_set]] = -1
    supply = np.bincount(reader_set[reader_set >= 0], minlength=len(eligible))
    size = np.bincount(member_eligibility, minlength=len(eligibilities))
    even = decompose(supply, eligible, size)
    width = len(group.racks) + 1
    pair = member_eligibility * width + group.member_rack + 1
    member_class = numbered(pair * MAX_CAPACITIES + _capacity_classes(group.capacity))
    class_pair = np.zeros(int(member_class.max(initial=-1)) + 1, dtype=np.int64)
    class_pair[member_class] = pair
    class_eligibility = class_pair // width
    of_member = even.of_eligibility[member_eligibility]
    limits = count_limits(even, of_member, group.capacity, options.slack_bound)
    min_count, max_count = limits.of_slack(0)
    rack_set, rack_local = rack_sets(group)
    # Where a partition's racks or the member's are unknown, nothing is rack-remote.
    rack_remote = np.zeros((len(rack_local), rack_local.shape[1] + 1), dtype=np.bool_)
    rack_remote[:, :-1] = ~rack_local & rack_local.any(axis=1, keepdims=True)
    current_owner = Assignment.held(group).owner
    horizon = _horizon(group, options, reader_set >= 0, of_member >= 0)
    class_eligible = eligible[:, class_eligibility]
    model = Model(
        group=group,
        options=options,
        horizon=horizon,
        load=_summable(group.lag + group.rate * horizon),
        weight=_traffic_weights(group.traffic),
        reader_set=reader_set,
        member_class=member_class,
        eligibility=class_eligibility,
        class_rack=class_pair % width - 1,
        eligible=class_eligible,
        allowed=class_eligible,
        rack_set=rack_set,
        rack_remote=rack_remote,
        even=even,
        connected=connect(supply, eligible),
        components=even,
        limits=limits,
        slack=0,
        min_count=min_count,
        max_count=max_count,
        keepable_owner=current_owner,
        current_owner=current_owner,
    )
    return model.with_slack(0)


def _keepable(model: Model) -> Ints:
    """P: the current owner where the model allows it; -1 elsewhere."""
    keepable = np.where(model.assignable, model.current_owner, NOBODY).astype(np.int32)
    owned = np.flatnonzero(keepable >= 0)
    keepable[owned[~model.may_own(owned, keepable[owned])]] = NOBODY
    return keepable


def _avoided_members(group: Group, options: Options) -> Bools:
    """M: whether the member is drained or its rack is evacuated.

    It then gets no partition that another member reads.
    """
    drained = (
        np.isin(np.array(group.members, dtype=object), options.drain) if options.drain else None
    )
    racks = [rack for rack, name in enumerate(group.racks) if name in options.evacuate]
    evacuated: Bools = np.isin(group.member_rack, racks)
    return evacuated if drained is None else evacuated | drained


def _partition_reader_sets(group: Group, options: Options) -> tuple[Longs, Longs]:
    """P: the reader set of each partition; and the members with pins.

    It is the topic's, or one of its own for each member with pins.
    """
    reader_set = group.reader_set[group.partition_topic].astype(np.int64)
    topic_of = {name: number for number, name in enumerate(group.topics)} if options.pins else {}
    member_of = {name: number for number, name in enumerate(group.members)} if options.pins else {}
    pinned_member: dict[int, int] = {}  # by partition
    for name, members in options.pins.items():
        topic = topic_of.get(name)
        if topic is None:
            continue
        first, end = group.topic_start[topic : topic + 2].tolist()
        readers = set(group.readers(topic).tolist())
        for number, member in members.items():
            if number < end - first and member_of.get(member) in readers:
                pinned_member[first + number] = member_of[member]
    pinned = np.array(sorted(set(pinned_member.values())), dtype=np.int64)
    if pinned_member:
        partitions = np.array(list(pinned_member), dtype=np.int64)
        owners = np.array(list(pinned_member.values()), dtype=np.int64)
        reader_set[partitions] = len(group.reader_start) - 1 + np.searchsorted(pinned, owners)
    return reader_set, pinned


def _eligibilities(group: Group, avoided: Bools, pinned: Longs) -> tuple[Longs, Longs]:
    """M: the eligibility of each member; and the distinct ones (G).

    It leaves rack, capacity and claims out.
    """
    key = (group.subscription.astype(np.int64) * 2 + avoided) * (len(pinned) + 1)
    key[pinned] += 1 + np.arange(len(pinned))
    return numbered(key), np.unique(key)


def _eligible_pairs(
    group: Group, avoided: Bools, pinned: Longs, eligibility: Longs, width: int
) -> Bools:
    """A x G: whether the eligibility may own partitions of the reader set, counts aside."""
    reader_sets = len(group.reader_start) - 1
    eligible = np.zeros((reader_sets + len(pinned), width), dtype=np.bool_)
    for reader_set in range(reader_sets):
        readers = group.reader[group.reader_start[reader_set] : group.reader_start[reader_set + 1]]
        preferred = readers[~avoided[readers]]
        eligible[reader_set, eligibility[preferred if len(preferred) else readers]] = True
    eligible[reader_sets + np.arange(len(pinned)), eligibility[pinned]] = True
    return eligible


def _capacity_classes(capacity: Floats) -> Longs:
    """M: a number below `MAX_CAPACITIES` that members of about the same capacity share."""
    known = np.unique(capacity)
    if len(known) <= MAX_CAPACITIES:
        return np.asarray(np.searchsorted(known, capacity), dtype=np.int64)
    step = np.rint(np.log(capacity / np.median(capacity)) / np.log(CAPACITY_STEP)).astype(np.int64)
    steps = np.unique(step)
    if len(steps) <= MAX_CAPACITIES:
        return np.asarray(np.searchsorted(steps, step), dtype=np.int64)
    return np.zeros(len(capacity), dtype=np.int64)


def _horizon(group: Group, options: Options, assignable: Bools, owning: Bools) -> float:
    """Seconds of arrivals that count: those set, else the time to drain of who may own anything."""
    if options.horizon is not None:
        return options.horizon
    every = bool(assignable.all())
    lag, rate = (
        float((column if every else column[assignable]).sum()) for column in (group.lag, group.rate)
    )
    return horizon_seconds(lag, rate, float(group.capacity[owning].sum()))


def _summable(load: Floats) -> Floats:
    """P: loads rounded to a common power of two, so that no sum depends on its order."""
    total = float(load.sum())
    if total <= 0:
        return load
    unit = 2.0 ** (math.frexp(total)[1] - LOAD_BITS)
    return np.asarray(np.rint(load / unit) * unit)


def _traffic_weights(traffic: Floats) -> Longs:
    """P: traffic as whole weights.

    Unchanged where it is whole and small enough in total, else in proportion.
    """
    total = float(traffic.sum())
    if total <= MAX_TOTAL_WEIGHT and bool((traffic == np.rint(traffic)).all()):
        return traffic.astype(np.int64)
    return np.rint(traffic * (MAX_TOTAL_WEIGHT / total)).astype(np.int64)
