"""The scenarios that are only replayed: their arrivals, members and costs, and what they show."""

import numpy as np
import pytest

from levelwind.daemon.config.settings import load
from levelwind_testing.drain.drain_candidates import CANDIDATES
from levelwind_testing.drain.drain_replay import replay
from levelwind_testing.drain.drain_scenarios import (
    CHANGING,
    HOT_PARTITIONS,
    PARTITIONS,
    burst_partitions,
    burst_sizes,
    hot_rates,
    partition_rates,
)


def test_other_partitions_are_hot_in_each_turn_and_the_arrivals_stay_the_same():
    scenario = CHANGING["S7"]
    even = partition_rates(scenario, 1)
    assert (hot_rates(scenario, even, 1, -1.0) == even).all()
    before: set[int] = set()
    for turn in range(12):
        rates = hot_rates(scenario, even, 1, turn * 40.0)
        hot = set(np.flatnonzero(rates == 180).tolist())
        assert len(hot) == HOT_PARTITIONS
        assert not hot & before
        assert rates.sum() == pytest.approx(scenario.arrivals)
        assert (rates == hot_rates(scenario, even, 1, turn * 40.0 + 39.9)).all()
        before = hot


def test_the_members_of_a_scenario_change_in_order():
    frozen = [(at, change) for at, change, _ in CHANGING["S8"].changes]
    assert frozen == [(20, "freeze"), (40, "thaw"), (110, "freeze"), (130, "thaw")]
    doubled = CHANGING["S10"].changes
    assert [(at, change) for at, change, _ in doubled] == [(10, "start")] * 6 + [(80, "stop")] * 6
    assert {member for *_, member in doubled} == set(range(6, 12))


def test_a_burst_on_one_partition_has_three_others_on_the_next_member():
    scenario = CHANGING["S11"]
    owners = [number % 6 for number in range(PARTITIONS)]
    burst = burst_partitions(scenario, 1, owners)
    assert [owners[partition] for partition in burst] == [0, 1, 1, 1]
    assert burst_sizes(scenario, burst)[list(burst)].tolist() == [45_000, 9_000, 9_000, 9_000]


def test_a_burst_of_dear_records_is_on_the_topic_whose_records_are_dear():
    scenario = CHANGING["S9"]
    burst = burst_partitions(scenario, 1, [0] * PARTITIONS)
    assert (scenario.costs[list(burst)] == 10).all()


@pytest.mark.slow
def test_hot_partitions_that_change_are_followed_almost_as_if_their_rates_were_known():
    ours, ideal = (
        [
            replay(CHANGING["S7"], CANDIDATES["levelwind"], seed, load(), true_rates=true_rates)
            for seed in (1, 2, 3)
        ]
        for true_rates in (False, True)
    )
    # A plan that is better by chance makes the difference of a single seed.
    assert sum(r.mean for r in ours) <= 1.5 * sum(r.mean for r in ideal)
    assert sum(r.most_lag for r in ours) <= 2 * sum(r.most_lag for r in ideal)
