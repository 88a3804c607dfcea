"""Rates tell what usually arrives: neither a burst nor the time of a sample counts for much."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.streaming.rules.arrival_rate import INTERVAL_MS, interval_bounds
from levelwind.streaming.rules.arrival_rate import arrival_rate as arrival_rate_of
from levelwind.streaming.rules.event_time import Floats
from levelwind.streaming.topic.end_history import EndOffsetHistory
from levelwind_testing.examples import examples


def arrival_rate(known: EndOffsetHistory) -> Floats:
    return arrival_rate_of(known.at, known.end)


def history(*samples: tuple[float, list[int]]) -> EndOffsetHistory:
    known = EndOffsetHistory.empty()
    for at, ends in samples:
        known = known.with_sample(round(at * 1000), np.array(ends, np.int64))
    return known


def test_nothing_is_known_of_a_first_sample_or_of_a_partition_without_an_end() -> None:
    assert np.isnan(arrival_rate(history((1, [5]))))
    rates = arrival_rate(history((1, [5, -1]), (2, [15, 7]), (3, [25, 8])))
    assert rates[0] == 10
    assert np.isnan(rates[1])


def test_a_partition_that_is_new_has_the_rate_of_its_own_time() -> None:
    rates = arrival_rate(history((0, [0]), (10, [100, 0]), (20, [200, 50]), (26, [260, 80])))
    assert rates.tolist() == [10, 5]


def test_the_time_before_the_first_record_does_not_count() -> None:
    def end(second: int) -> int:
        return 100 * max(second - 40, 0)

    known = history(*((second, [end(second), 0]) for second in range(52)))
    assert arrival_rate(known).tolist() == [100, 0]


@settings(max_examples=examples(30))
@given(st.floats(1, 5000), st.floats(0.5, 3), st.integers(3, 150))
def test_steady_arrivals_have_their_rate(rate: float, interval: float, samples: int) -> None:
    times = np.arange(samples) * interval
    known = history(*((float(at), [int(rate * at)]) for at in times))
    assert arrival_rate(known)[0] == pytest.approx(rate, rel=0.01, abs=2 / interval)


@settings(max_examples=examples(30))
@given(st.floats(0, 500), st.integers(1000, 1_000_000), st.integers(15, 90))
def test_a_burst_is_no_rate(rate: float, burst: int, at: int) -> None:
    for samples in range(at + 1, at + 60, 7):
        known = history(
            *((second, [int(rate * second) + burst * (second > at)]) for second in range(samples))
        )
        assert rate - 1 <= arrival_rate(known)[0] <= 2.4 * rate + 2


def test_a_rate_that_changed_for_good_is_known_within_a_minute() -> None:
    def end(second: int) -> int:
        return 100 * second + 300 * max(second - 100, 0)

    def rate(until: int) -> float:
        return float(
            arrival_rate(history(*((second, [end(second)]) for second in range(until))))[0]
        )

    assert rate(100) == 100
    assert rate(111) >= 120
    assert rate(135) >= 250
    assert rate(170) == 400


def test_an_end_that_went_back_is_no_rate_below_zero() -> None:
    assert arrival_rate(history((0, [100]), (10, [50]), (20, [50]))).tolist() == [0]


def test_the_bounds_are_apart() -> None:
    at = np.cumsum(np.arange(1, 60)) * 300
    chosen = at[interval_bounds(at)]
    assert chosen[-1] == at[-1]
    assert (np.diff(chosen) >= INTERVAL_MS).all()
    assert interval_bounds(np.array([1000, 2000, 3000])).tolist() == [0, 2]
    assert interval_bounds(np.array([1000])).tolist() == [0]
