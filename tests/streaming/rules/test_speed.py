"""Speeds are learned from commits that leave records waiting, whatever their rhythm."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.streaming.rules import speed
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.speed import FORGET_MS, SpeedColumns
from levelwind_testing.examples import examples

START = 1_000_000
MEMBERS = np.zeros(1, np.int64)


def learned(columns: SpeedColumns) -> float:
    return float(speed.speeds(columns)[0])


def take_in(columns: SpeedColumns, at: int, records: int, behind: int, latest: int) -> None:
    """One sample of a single member: what it committed, and an evaluation."""
    values = (np.array([value]) for value in (records, behind, latest))
    speed.count_commits(columns, *values)
    speed.evaluate(columns, np.array([at]))


def samples(
    seconds: float,
    *,
    consumed: Callable[[float], float],
    step: float,
    interval: float = 1.0,
    offset: float = 0.4,
    is_behind: Callable[[float], bool] = lambda _: True,
    start: float = 0.0,
) -> Iterator[tuple[int, int, int, int]]:
    """Time, records, records behind and newest commit at each sample.

    Args:
        seconds: length of the whole.
        consumed: records that were consumed up to a time.
        step: seconds between two commits.
        interval: seconds between two samples.
        offset: seconds by which the commits come after the full step.
        is_behind: whether records wait for long after the commit at a time.
        start: seconds at which it begins.
    """
    commits = np.arange(start + offset, start + seconds, step)
    before = start
    for sample in np.arange(start + interval, start + seconds + 1e-9, interval):
        records = behind = 0
        latest = UNKNOWN
        for commit in commits[(commits > before) & (commits <= sample)].tolist():
            advance = round(consumed(commit)) - round(consumed(max(commit - step, start)))
            records += advance
            if is_behind(commit):
                behind, latest = behind + advance, START + round(commit * 1000)
        before = sample
        yield START + round(sample * 1000), records, behind, latest


rates = st.floats(20, 50_000)
steps = st.floats(0.3, 5)
intervals = st.floats(0.5, 2)
offsets = st.floats(0, 0.9)


@settings(max_examples=examples(20))
@given(rates, steps, intervals, offsets)
def test_a_constant_speed_is_learned_within_five_percent_after_ten_seconds_of_lag(
    rate: float, step: float, interval: float, offset: float
) -> None:
    columns = SpeedColumns.unknown(1)
    for sample in samples(
        10 + interval, consumed=lambda at: rate * at, step=step, interval=interval, offset=offset
    ):
        take_in(columns, *sample)
    assert learned(columns) == pytest.approx(rate, rel=0.05, abs=1)
    assert speed.sureness(speed.window_counts(columns))[0] >= 0.5


@settings(max_examples=examples(20))
@given(rates, steps, offsets, st.floats(12, 30))
def test_a_stall_of_five_seconds_does_not_lower_a_speed(
    rate: float, step: float, offset: float, stall: float
) -> None:
    def consumed(at: float) -> float:
        return rate * (at - min(max(at - stall, 0), 5))

    columns = SpeedColumns.unknown(1)
    for sample in samples(60, consumed=consumed, step=step, offset=offset):
        take_in(columns, *sample)
        if sample[0] > START + 12_000:
            assert learned(columns) == pytest.approx(rate, rel=0.1, abs=1)


@settings(max_examples=examples(20))
@given(rates, steps, offsets, st.floats(0.2, 0.7))
def test_a_member_that_becomes_slower_is_known_within_thirty_seconds(
    rate: float, step: float, offset: float, share: float
) -> None:
    def consumed(at: float) -> float:
        return rate * (min(at, 40) + share * max(at - 40, 0))

    columns = SpeedColumns.unknown(1)
    for sample in samples(71, consumed=consumed, step=step, offset=offset):
        take_in(columns, *sample)
    assert learned(columns) == pytest.approx(rate * share, rel=0.05, abs=1)


@settings(max_examples=examples(20))
@given(rates, steps, offsets, st.floats(1.5, 5))
def test_a_member_that_becomes_faster_is_known_within_twenty_five_seconds(
    rate: float, step: float, offset: float, factor: float
) -> None:
    def consumed(at: float) -> float:
        return rate * (min(at, 40) + factor * max(at - 40, 0))

    columns = SpeedColumns.unknown(1)
    for sample in samples(66, consumed=consumed, step=step, offset=offset):
        take_in(columns, *sample)
    assert learned(columns) == pytest.approx(rate * factor, rel=0.05, abs=1)


@settings(max_examples=examples(20))
@given(rates, steps, st.floats(0.1, 0.9))
def test_a_member_that_keeps_pace_shows_no_speed(
    rate: float, step: float, utilisation: float
) -> None:
    columns = SpeedColumns.unknown(1)
    for sample in samples(
        60, consumed=lambda at: rate * utilisation * at, step=step, is_behind=lambda _: False
    ):
        take_in(columns, *sample)
    assert np.isnan(learned(columns))
    assert speed.sureness(speed.window_counts(columns))[0] == 0


@settings(max_examples=examples(20))
@given(rates, steps)
def test_time_at_the_end_of_the_log_counts_for_no_window(rate: float, step: float) -> None:
    def consumed(at: float) -> float:
        return rate * (min(at, 20) + 0.3 * min(max(at - 20, 0), 40) + max(at - 60, 0))

    columns = SpeedColumns.unknown(1)
    for sample in samples(90, consumed=consumed, step=step, is_behind=lambda at: not 20 < at < 66):
        take_in(columns, *sample)
    assert learned(columns) == pytest.approx(rate, rel=0.05, abs=1)


def test_a_partition_that_is_stuck_says_nothing_of_the_members_speed() -> None:
    columns = SpeedColumns.unknown(1)
    for second in range(1, 40):
        take_in(columns, START + second * 1000, 100, 1, START + second * 1000 - 100)
    assert np.isnan(learned(columns))


def test_a_speed_is_forgotten_after_a_long_silence() -> None:
    columns = SpeedColumns.unknown(1)
    for sample in samples(20, consumed=lambda at: 100 * at, step=1):
        take_in(columns, *sample)
    last = int(columns.latest[0])
    take_in(columns, last + FORGET_MS - 1, 0, 0, UNKNOWN)
    assert learned(columns) == pytest.approx(100, rel=0.05)
    take_in(columns, last + FORGET_MS, 0, 0, UNKNOWN)
    assert np.isnan(learned(columns))
    assert columns.since[0] == columns.latest[0] == UNKNOWN


def test_a_clock_that_is_set_back_begins_a_new_window() -> None:
    columns = SpeedColumns.unknown(1)
    for sample in samples(20, consumed=lambda at: 100 * at, step=1):
        take_in(columns, *sample)
    for at, records, behind, latest in samples(20, consumed=lambda at: 200 * at, step=1):
        take_in(columns, at - 500_000, records, behind, latest - 500_000)
    assert learned(columns) == pytest.approx(200, rel=0.05)


def test_what_was_committed_before_other_partitions_came_counts_for_no_window() -> None:
    columns = SpeedColumns.unknown(1)
    take_in(columns, START + 1000, 100, 100, START + 900)
    take_in(columns, START + 2000, 5_000_000, 5_000_000, START + 1900)
    speed.end_windows(columns, np.ones(1, np.bool_))
    for sample in samples(10, consumed=lambda at: 100 * at, step=1, start=3):
        take_in(columns, *sample)
    assert learned(columns) == pytest.approx(100, rel=0.05)


def test_a_speed_is_published_when_it_changed_by_five_percent_or_rests_on_more() -> None:
    columns = SpeedColumns.unknown(1)
    assert not speed.worth_publishing(columns)[0]
    columns.windows[0] = [100, 100, 100, 0, 0, 0]
    assert speed.worth_publishing(columns)[0]
    speed.mark_published(columns)
    assert not speed.worth_publishing(columns)[0]
    columns.windows[0, :3] = 104
    assert not speed.worth_publishing(columns)[0]
    columns.windows[0, :3] = 105
    assert speed.worth_publishing(columns)[0]
    columns.windows[0] = [100, 100, 100, 100, 0, 0]
    assert speed.worth_publishing(columns)[0]
    columns.windows[0] = 0
    assert speed.worth_publishing(columns)[0]


@settings(max_examples=examples(20))
@given(st.lists(st.tuples(rates, st.integers(0, 6)), min_size=2, max_size=5))
def test_members_do_not_depend_on_each_other(members: list[tuple[float, int]]) -> None:
    together = SpeedColumns.unknown(len(members))
    alone = [SpeedColumns.unknown(1) for _ in members]
    streams = [
        list(samples(30, consumed=lambda at, rate=rate: rate * at, step=1 + step / 2))
        for rate, step in members
    ]
    for row in zip(*streams, strict=True):
        columns = (np.array([sample[index] for sample in row]) for index in (1, 2, 3))
        speed.count_commits(together, *columns)
        speed.evaluate(together, np.array([sample[0] for sample in row]))
        for single, sample in zip(alone, row, strict=True):
            take_in(single, *sample)
    assert speed.speeds(together).tolist() == [learned(single) for single in alone]
