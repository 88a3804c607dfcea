from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.drain import sum_by_member
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.sticky import kept_claims
from levelwind.assignors.strategies import lag_global
from levelwind.assignors.strategies.lag_global import _LagPlacement, lag_global_strategy
from levelwind_testing.groups.examples import KAFKA_5337_TOPICS, TWO_MEMBERS, planned_names
from levelwind_testing.groups.random_groups import ProblemShape, problems

planned = partial(planned_names, lag_global_strategy)


def test_kafka_5337s_example_is_the_same_in_one_topic():
    assert planned(KAFKA_5337_TOPICS, TWO_MEMBERS) == {
        "C0": {"t0": [0]},
        "C1": {"t0": [1, 2]},
    }


def test_lag_is_spread_across_topics():
    topics = {"t": Topic(partitions=1, lags=[9]), "u": Topic(partitions=1, lags=[7])}
    members = [Member(id="a", topics="*"), Member(id="b", topics="*")]
    assert planned(topics, members) == {"a": {"t": [0]}, "b": {"u": [0]}}


def test_counts_may_differ_where_that_is_allowed():
    topics = {"t": Topic(partitions=4, lags=[90, 30, 30, 30])}
    members = [Member(id="a", topics="*"), Member(id="b", topics="*")]
    assert planned(topics, members) == {"a": {"t": [0, 3]}, "b": {"t": [1, 2]}}
    assert planned(topics, members, max_count_skew=2) == {"a": {"t": [0]}, "b": {"t": [1, 2, 3]}}


def test_a_member_of_twice_the_capacity_carries_twice_the_lag():
    topics = {"t": Topic(partitions=6, lags=[10] * 6)}
    members = [Member(id="a", topics="*", capacity=2.0), Member(id="b", topics="*")]
    assert planned(topics, members, max_count_skew=4)["a"] == {"t": [0, 2, 4, 5]}


def test_claims_stay_within_the_threshold_and_move_beyond_it():
    topics = {"t": Topic(partitions=4, lags=[30, 30, 25, 15])}
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1]}, generation=1),
        Member(id="b", topics="*", owned={"t": [2, 3]}, generation=1),
    ]
    assert planned(topics, members) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert planned(topics, members, stick_within=1.15) == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}


def test_a_hot_partition_that_cannot_be_split_ends_the_search():
    topics = {"t": Topic(partitions=3, lags=[1000, 1, 1])}
    members = [Member(id=name, topics="*") for name in "abc"]
    assert planned(topics, members) == {"a": {"t": [0]}, "b": {"t": [1]}, "c": {"t": [2]}}


def test_a_new_member_gets_the_least_lag_that_evens_the_counts():
    topics = {"t": Topic(partitions=4, lags=[4, 4, 4, 4]), "u": Topic(partitions=2, lags=[2, 2])}
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1], "u": [0]}, generation=1),
        Member(id="b", topics="*", owned={"t": [2, 3], "u": [1]}, generation=1),
        Member(id="c", topics="*"),
    ]
    assert planned(topics, members, stick_within=9) == {
        "a": {"t": [0, 1]},
        "b": {"t": [2, 3]},
        "c": {"u": [0, 1]},
    }


@given(problem=problems(), skew=st.integers(1, 3))
def test_it_is_valid_and_counts_differ_no_more_than_allowed(problem, skew):
    group = problem.group
    assignment = lag_global_strategy(group, max_count_skew=skew)
    assert violations(group, assignment) == ()
    if group.equal_subscriptions:
        assert score(group, assignment).spread <= skew


@given(problem=problems(ProblemShape(claims=False)), skew=st.integers(1, 3))
def test_from_scratch_the_deal_follows_the_rule_step_by_step(problem, skew):
    group = problem.group
    owner = np.full(group.partition_count, -1, dtype=np.int32)
    count, load = [0] * len(group.members), [0.0] * len(group.members)
    for partition in sorted(range(group.partition_count), key=lambda p: (-group.lag[p], p)):
        readers = group.readers(int(group.partition_topic[partition])).tolist()
        if not readers:
            continue
        fewest = min(count[member] for member in readers)
        eligible = [member for member in readers if count[member] < fewest + skew]
        best = min(eligible, key=lambda member: (load[member], count[member], member))
        owner[partition] = best
        count[best] += 1
        load[best] += group.lag[partition] / group.relative_capacity[best]
    dealt = lag_global_strategy(group, max_count_skew=skew, stick_within=10**9)
    if group.equal_subscriptions:  # otherwise counts are narrowed afterwards
        assert dealt.owner.tolist() == owner.tolist()


@given(problem=problems(ProblemShape(members=3, equal=True)))
def test_no_single_move_would_lower_the_most_loaded_of_a_pair_beyond_the_threshold(problem):
    group = problem.group
    plan = lag_global_strategy(group, stick_within=1.0)
    load = sum_by_member(group.lag, plan.owner, len(group.members)) / group.relative_capacity
    most = int(np.argmax(load)) if len(load) else 0
    for partition in np.flatnonzero(plan.owner == most):
        for taker in range(len(group.members)):
            for returned in np.flatnonzero(plan.owner == taker) if taker != most else ():
                gain = float(group.lag[partition] - group.lag[returned])
                after = max(
                    load[most] - gain / group.relative_capacity[most],
                    load[taker] + gain / group.relative_capacity[taker],
                )
                assert after >= load[most] * (1 - 1e-6)


@given(problem=problems())
def test_a_plan_within_the_threshold_stays(problem):
    group = problem.group
    names = Assignment(lag_global_strategy(group).owner).to_names(group)
    members = [replace(member, owned=names[member.id], generation=9) for member in problem.members]
    again = Group.build(problem.topics, members)
    assert np.array_equal(kept_claims(again), lag_global_strategy(again).owner)


@pytest.mark.parametrize("members", [1, 2])
def test_without_lag_counts_are_even(members):
    group = Group.build(
        {"t": Topic(partitions=5)}, [Member(id=f"m{n}", topics="*") for n in range(members)]
    )
    assert score(group, lag_global_strategy(group)).spread <= 1


def dealt_step_by_step(group, owner, free, skew):
    """The rule of the deal, step by step."""
    lag = group.lag.tolist()
    count = [int((owner == member).sum()) for member in range(len(group.members))]
    load = [
        group.lag[owner == member].sum() / group.relative_capacity[member]
        for member in range(len(count))
    ]
    owners = owner.tolist()
    for partition in free:
        readers = group.readers(int(group.partition_topic[partition])).tolist()
        fewest = min(count[reader] for reader in readers)
        eligible = [reader for reader in readers if count[reader] < fewest + skew]
        taker = min(eligible, key=lambda reader: (load[reader], count[reader], reader))
        owners[partition] = taker
        count[taker] += 1
        load[taker] += lag[partition] / group.relative_capacity[taker]
    return owners


@given(problem=problems(), skew=st.integers(1, 3))
def test_what_nobody_holds_is_dealt_by_lag_load_count_and_id(problem, skew):
    group = problem.group
    held = kept_claims(group)
    free = np.flatnonzero((held < 0) & group.has_reader())
    free = free[np.argsort(-group.lag[free], kind="stable")]
    expected = dealt_step_by_step(group, held, free.tolist(), skew)
    ways = [_LagPlacement._deal_by_heap, _LagPlacement.deal, _LagPlacement.deal_to_readers]
    if skew == 1:
        ways.insert(0, _LagPlacement._deal_in_rounds)
    for deal in ways if group.equal_subscriptions else ways[-1:]:
        placement = _LagPlacement(group, held.copy(), skew)
        deal(placement, free)
        assert placement.owner.tolist() == expected


@pytest.mark.parametrize("deal", [_LagPlacement.deal, _LagPlacement.deal_to_readers])
@pytest.mark.parametrize(
    ("lags", "held", "taker"),
    [
        ([100, 10, 50], [0, 1, -1], 1),  # the member with less lag
        ([0, 9], [0, -1], 1),  # of equal lag, the member with fewer partitions
    ],
)
def test_the_deal_goes_on_from_what_members_hold(deal, lags, held, taker):
    group = Group.build(
        {"t": Topic(partitions=len(lags), lags=lags)},
        [Member(id=name, topics="*") for name in "ab"],
    )
    placement = _LagPlacement(group, np.array(held, dtype=np.int32), 2)
    deal(placement, np.array([len(lags) - 1]))
    assert placement.owner[-1] == taker


def narrowed_step_by_step(group, owner, skew):
    """The rule by which counts are narrowed, step by step, over all partitions each time."""
    lag, capacity = group.lag.tolist(), group.relative_capacity
    owners = owner.tolist()
    dealt = _LagPlacement(group, owner, skew)
    count, load = dealt.count.tolist(), dealt.load.tolist()
    subscribed = dealt.subscribed.tolist()
    stuck = [False] * len(count)

    def lightest(giver):
        for partition in sorted(range(len(owners)), key=lambda p: (lag[p], p)):
            readers = group.readers(int(group.partition_topic[partition])).tolist()
            if owners[partition] == giver:
                taker = min(readers, key=lambda reader: (count[reader], load[reader], reader))
                if count[giver] - count[taker] > skew:
                    return partition, taker
        return None

    while not all(stuck):
        giver = max(range(len(count)), key=lambda m: (-1 if stuck[m] else count[m], -m))
        if count[giver] - min((count[m] for m in subscribed), default=count[giver]) <= skew:
            break
        if (move := lightest(giver)) is None:
            stuck[giver] = True
            continue
        partition, taker = move
        count[giver] -= 1
        load[giver] -= lag[partition] / capacity[giver]
        owners[partition] = taker
        count[taker] += 1
        load[taker] += lag[partition] / capacity[taker]
        stuck = [is_stuck and count[m] <= count[giver] + skew for m, is_stuck in enumerate(stuck)]
    return owners


@given(problem=problems(), skew=st.integers(1, 3), most=st.integers(1, 4))
def test_the_moved_partitions_are_those_that_sorting_all_of_a_member_gives(problem, skew, most):
    group = problem.group
    placement = _LagPlacement(group, kept_claims(group), skew)
    placement.index_partitions()
    narrowed = narrowed_step_by_step(group, placement.owner, skew)
    placement.narrow_counts()
    assert placement.owner.tolist() == narrowed
    for member in range(len(group.members)):
        own = np.flatnonzero(placement.owner == member).tolist()
        by_lag = sorted(own, key=lambda p: (group.lag[p], p))
        with pytest.MonkeyPatch.context() as few:
            few.setattr(lag_global, "MAX_EXCHANGE_CANDIDATES", most)
            heaviest = placement._heaviest(member).tolist()
            lightest = placement._lightest_readable(member, 0).tolist()
        assert heaviest == sorted(own, key=lambda p: (-group.lag[p], p))[:most]
        readable = set(group.subscribed(0).tolist())
        assert lightest == [p for p in by_lag if group.partition_topic[p] in readable][:most]


class CountingNumpy:
    """NumPy with a count of the elements that its functions are given."""

    elements = 0

    def __getattr__(self, name):
        function = getattr(np, name)
        if isinstance(function, type) or not callable(function):
            return function

        def counted(*arguments, **options):
            self.elements += sum(np.size(argument) for argument in arguments)
            return function(*arguments, **options)

        return counted


def test_a_member_that_holds_everything_gives_it_away_without_a_look_at_all_for_each(monkeypatch):
    partitions, members = 2_000, 10
    topics = {"t": Topic(partitions=partitions, lags=[7] * partitions)}
    group = Group.build(
        topics,
        [Member(id="a", topics="*", owned={"t": list(range(partitions))}, generation=1)]
        + [Member(id=f"b{number}", topics="*") for number in range(1, members)],
    )
    counting = CountingNumpy()
    monkeypatch.setattr(lag_global, "np", counting)
    plan = lag_global_strategy(group)
    assert score(group, plan).spread == 0
    assert counting.elements < 10 * partitions * members


def test_a_member_that_can_give_none_away_does_not_keep_others_from_giving():
    topics = {"own": Topic(partitions=4), "shared": Topic(partitions=3)}
    members = [
        Member(id="a", topics=["own"], owned={"own": [0, 1, 2, 3]}, generation=1),
        Member(id="b", topics=["shared"], owned={"shared": [0, 1, 2]}, generation=1),
        Member(id="c", topics=["shared"]),
    ]
    group = Group.build(topics, members)
    held = {
        member: sum(map(len, owned.values()))
        for member, owned in lag_global_strategy(group).to_names(group).items()
    }
    assert held == {"a": 4, "b": 2, "c": 1}


def test_counts_are_narrowed_towards_the_least_lag_of_the_members_with_the_fewest():
    topics = {"t": Topic(partitions=6, lags=[0, 0, 0, 0, 5, 0])}
    members = [
        Member(id="b", topics="*", owned={"t": [0, 1, 2, 3]}, generation=1),
        Member(id="c", topics="*", owned={"t": [4]}, generation=1),
        Member(id="d", topics="*", owned={"t": [5]}, generation=1),
    ]
    assert planned(topics, members) == {"b": {"t": [2, 3]}, "c": {"t": [1, 4]}, "d": {"t": [0, 5]}}


def test_a_shift_may_use_the_whole_skew_and_goes_before_an_exchange_that_levels_as_much():
    topics = {"t": Topic(partitions=4, lags=[10, 10, 0, 0])}
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1]}, generation=1),
        Member(id="b", topics="*", owned={"t": [2, 3]}, generation=1),
    ]
    assert planned(topics, members, max_count_skew=2, stick_within=1.0) == {
        "a": {"t": [1]},
        "b": {"t": [0, 2, 3]},
    }
    assert planned(topics, members, max_count_skew=1, stick_within=1.0) == {
        "a": {"t": [1, 2]},
        "b": {"t": [0, 3]},
    }


def test_lag_is_not_levelled_into_counts_that_the_next_plan_would_narrow():
    """With partition 0 of t0, b would have 2, and the next plan would give a one of c's."""
    topics = {
        "t0": Topic(partitions=2, lags=[5, 10]),
        "t1": Topic(partitions=1, lags=[0]),
        "t2": Topic(partitions=3, lags=[10, 1, 10]),
    }
    members = [
        Member(id="a", topics="*"),
        Member(id="b", topics=["t0"]),
        Member(id="c", topics="*"),
    ]
    first = {"a": {"t0": [0], "t2": [2]}, "b": {"t0": [1]}, "c": {"t1": [0], "t2": [0, 1]}}
    assert planned(topics, members) == first
    held = [replace(member, owned=first[member.id], generation=1) for member in members]
    assert planned(topics, held) == first


def test_of_two_ways_to_level_the_one_with_fewer_moves_is_taken():
    topics = {"t": Topic(partitions=3, lags=[5, 10, 5])}
    members = [
        Member(id="a", topics="*", owned={"t": [1, 2]}, generation=1),
        Member(id="b", topics="*", owned={"t": [0]}, generation=1),
    ]
    assert planned(topics, members) == {"a": {"t": [1]}, "b": {"t": [0, 2]}}
