"""A change of a rate is found in seconds, and neither noise, a burst nor batches are one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.streaming.rules import rate_changes as module
from levelwind.streaming.rules.arrival_rate import RATE_MS, arrival_rate
from levelwind.streaming.rules.rate_changes import (
    NO_CHANGE,
    column_sums,
    rate_changes,
    time_quantile,
)
from levelwind.streaming.topic.end_history import EndOffsetHistory
from levelwind_testing.examples import examples

STEP = 300
"""Second at which a rate changes."""


def histories(records: np.ndarray, period: int = 1):
    """The history after each sample, of records by second and partition."""
    known, ends = EndOffsetHistory.empty(), np.cumsum(records, axis=0)
    for second in range(0, len(records), period):
        known = known.with_sample(second * 1000, ends[second])
        yield second, known


def stepping(before: float, after: float, *, seconds: int = STEP + 100, seed: int = 1):
    """Poisson arrivals of eight partitions, whose rates change at `STEP`."""
    rates = np.where(np.arange(seconds) >= STEP, after, before)[:, None]
    records = np.random.default_rng(seed).poisson(np.broadcast_to(rates, (seconds, 8)))
    records[0] += 1  # a partition without records has no rate yet
    return records


def hot_for(held: int, *levels: float):
    """Poisson arrivals of eight partitions; a rate lasts `held` s, the last one from `STEP` on."""
    left = np.clip((STEP + held - 1 - np.arange(STEP + 100)) // held, 0, len(levels) - 1)
    rates = np.array(levels[::-1], float)[left][:, None]
    records = np.random.default_rng(2).poisson(np.broadcast_to(rates, (STEP + 100, 8)))
    records[0] += 1
    return records


def changes(known: EndOffsetHistory) -> np.ndarray:
    return rate_changes(known.at, known.end, int(known.at[-1]) - RATE_MS)


def rates_at(records: np.ndarray, *seconds: int, period: int = 1):
    """Rates of all partitions at some seconds after the change."""
    return {
        second - STEP: arrival_rate(known.at, known.end)
        for second, known in histories(records, period)
        if second - STEP in seconds
    }


@pytest.mark.parametrize(
    ("before", "after"), [(11, 180), (180, 11), (11, 44), (44, 11), (100, 400), (400, 100)]
)
def test_a_step_of_four_or_more_is_believed_within_four_seconds_and_stays_so(before, after):
    for rates in rates_at(stepping(before, after), 3, 4, 10, 20, 40, 59, 70, 99).values():
        assert np.abs(rates - after).max() <= 0.3 * abs(after - before)


@pytest.mark.parametrize("held", [12, 20, 40, 59])
@pytest.mark.parametrize("levels", [(11, 180, 11), (180, 11, 180), (100, 400, 100)])
def test_a_step_after_another_one_is_believed_within_four_seconds(levels, held):
    *_, before, after = levels
    for rates in rates_at(hot_for(held, *levels), 4, 10, 20).values():
        assert np.abs(rates - after).max() <= 0.3 * abs(after - before)


def test_with_rarer_samples_a_step_is_believed_after_three_or_four_of_them():
    (rates,) = rates_at(stepping(11, 180), 20, period=5).values()
    assert (rates > 130).all()


def test_silence_is_believed_after_half_a_minute_as_it_may_be_that_between_batches():
    rates = rates_at(stepping(40, 0), 5, 36)
    assert (rates[5] > 25).all()
    assert (rates[36] < 4).all()


def test_steady_noise_is_no_change():
    for second, known in histories(stepping(20, 20, seed=3)):
        if second > 10:
            assert (changes(known) == NO_CHANGE).all()


@pytest.mark.parametrize("batches", [0.02, 0.1, 0.4])
def test_batches_are_no_change(batches):
    records = 1000 * np.random.default_rng(5).poisson(batches, (900, 20))
    records[0] += 1
    found = sum(int((changes(known) != NO_CHANGE).sum()) for _, known in histories(records, 2))
    assert found == 0


def test_a_burst_is_no_change_while_it_is_seen():
    records = stepping(20, 20)
    records[STEP] += 9_000
    records[STEP + 1] += 9_000
    for second, known in histories(records):
        if second >= STEP:
            assert (changes(known) == NO_CHANGE).all()


def test_after_a_burst_a_partition_that_is_silent_is_not_taken_for_busy():
    records = stepping(25, 0)
    records[STEP] += 9_000
    rates = rates_at(records, 40)
    assert (rates[40] < 30).all()


def test_what_has_no_records_yet_has_the_rate_of_its_own_time():
    records = stepping(0, 180)
    records[0] = 0
    for rates in rates_at(records, 11, 30).values():
        assert (np.abs(rates - 180) < 60).all()


def test_a_partition_whose_end_was_not_known_has_no_change_then():
    at = np.arange(60) * 1000
    end = np.full((60, 1), -1)
    end[30:, 0] = 5_000 + 200 * np.arange(30)
    assert rate_changes(at, end, 0).tolist() == [NO_CHANGE]


def test_the_time_before_an_end_was_known_is_no_noise():
    at = np.arange(70) * 1000
    end = np.full((70, 1), -1)
    end[10:, 0] = 50_000 + np.cumsum(np.where(np.arange(60) < 56, 11, 180))
    assert rate_changes(at, end, 0).tolist() == [65]


@settings(max_examples=examples(40))
@given(st.data())
def test_a_partition_has_the_same_rate_alone_and_among_others(data):
    seconds = data.draw(st.integers(20, 400))
    draw = np.random.default_rng(data.draw(st.integers(0, 99)))
    levels = draw.choice([0, 1, 11, 180, 1000], (4, 6))
    of_second = np.minimum(np.arange(seconds) // max(seconds // 4, 1), 3)
    *_, (_, known) = histories(draw.poisson(levels[of_second]))
    together = arrival_rate(known.at, known.end)
    alone = [arrival_rate(known.at, known.end[:, [column]])[0] for column in range(6)]
    np.testing.assert_array_equal(together, alone)


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=8),
    st.sampled_from([0.25, 0.5]),
)
def test_a_quantile_is_that_of_the_seconds_one_by_one(intervals, share):
    rates = np.array([[float(rate)] for rate, _ in intervals])
    seconds = np.array([[float(length)] for _, length in intervals])
    each = sorted(rate for rate, length in intervals for _ in range(length * 4))
    place = max(int(np.ceil(share * len(each))), 1) - 1
    assert time_quantile(rates, seconds, share).tolist() == [each[place]]


def test_a_column_has_the_same_sum_to_the_bit_whichever_others_there_are() -> None:
    values = np.random.default_rng(1).random((61, 20))
    alone = [column_sums(values[:, [column]]) for column in range(20)]
    assert column_sums(values).tobytes() == np.concatenate(alone).tobytes()


@given(seed=st.integers(0, 2**32), points=st.integers(5, 70), partitions=st.integers(1, 60))
@settings(max_examples=examples(400))
def test_what_does_not_exceed_noise_is_no_change_however_long_it_lasts(seed, points, partitions):
    """The quick test leaves out nothing that the whole one believes."""
    draw = np.random.default_rng(seed)
    steps = np.maximum(draw.normal(draw.choice([500, 1000, 3000]), 300, points), 1)
    at = np.cumsum(steps.astype(np.int64)) + 10**12
    rates = np.repeat(draw.choice([0, 0.1, 1, 10, 100, 1000], (1, partitions)), points, axis=0)
    for _ in range(draw.integers(0, 4)):
        changed = draw.integers(0, partitions, partitions // 4 + 1)
        rates[draw.integers(0, points) :, changed] *= draw.choice([0.1, 0.25, 4, 10])
    batch = draw.choice([1, 5, 50, 1000], partitions)
    records = draw.poisson(rates * steps[:, None] / 1000 / batch) * batch
    end = np.cumsum(records, axis=0) + draw.choice([0, 1, 1000], partitions)
    end[: points // 3, draw.random(partitions) < 0.05] = -1
    found = rate_changes(at, end, int(at[-1]) - RATE_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_exceeds_noise", lambda window, *_: window.columns >= 0)
        assert (rate_changes(at, end, int(at[-1]) - RATE_MS) == found).all()
