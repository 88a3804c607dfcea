"""When a batch begins: pauses where nothing is at stake, and a trigger as soon as without them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.streaming.rules.cadence import (
    AT_STAKE_MS,
    BUSY_MS,
    MOST_WAITING,
    Batch,
    Cadence,
    CadenceRule,
)
from levelwind_testing.examples import examples

RULE = CadenceRule()


def batch(
    began_at: int,
    *,
    length: int = 250,
    records: int = 100,
    cut: bool = False,
    at_stake: bool = False,
) -> Batch:
    return Batch(began_at=began_at, length_ms=length, records=records, cut=cut, at_stake=at_stake)


def after(*batches: Batch, rule: CadenceRule = RULE) -> Cadence:
    cadence = Cadence(rule=rule)
    for one in batches:
        cadence = cadence.after(one)
    return cadence


def test_a_query_without_a_batch_begins_at_once() -> None:
    assert Cadence(rule=RULE).due_at == 0


def test_a_calm_query_pauses_for_the_time_before_skew_is_a_trigger() -> None:
    assert after(batch(1_000), batch(3_300)).interval_ms == 2_000 + 550 - 250


def test_a_long_batch_shortens_the_pause() -> None:
    assert after(batch(1_000), batch(3_300, length=900)).interval_ms == 2_000 + 550 - 900
    assert after(batch(1_000), batch(3_300, length=9_000)).interval_ms == 550


def test_what_is_at_stake_is_looked_at_often_for_a_while() -> None:
    stake = after(batch(1_000), batch(3_300, at_stake=True))
    assert stake.interval_ms == 550
    ended = 3_300 + 250
    assert stake.after(batch(ended + AT_STAKE_MS - 300)).interval_ms == 550
    assert stake.after(batch(ended + AT_STAKE_MS)).interval_ms == 2_300


def test_a_backlog_is_read_without_a_pause() -> None:
    assert after(batch(1_000), batch(2_000, records=10**6, cut=True)).interval_ms == 0


def test_a_busy_cluster_has_shorter_pauses() -> None:
    """20,000 records a second: no more than 16,000 wait."""
    busy = after(batch(0), batch(1_000, records=20_000))
    assert busy.interval_ms == MOST_WAITING / 20_000 * 1_000
    assert busy.after(batch(2_000, records=50_000)).interval_ms == 550


def test_a_burst_is_expected_again_for_a_minute() -> None:
    burst = after(batch(0), batch(1_000, records=20_000))
    assert burst.after(batch(50_000)).interval_ms == 800
    assert burst.after(batch(1_250 + BUSY_MS)).interval_ms == 2_300


def test_a_fixed_interval_stays() -> None:
    fixed = CadenceRule(shortest_ms=700, longest_ms=0)
    for one in (batch(3_000), batch(3_000, at_stake=True), batch(3_000, records=10**6)):
        assert after(batch(1_000), one, rule=fixed).interval_ms == 700


@pytest.mark.parametrize("duration", [0, 500])
def test_a_short_duration_of_skew_leaves_no_time_for_pauses(duration: int) -> None:
    rule = CadenceRule(skew_duration_ms=duration)
    assert after(batch(0), batch(1_000), rule=rule).interval_ms == max(duration + 300, 550)


@st.composite
def rules(draw: st.DrawFn) -> CadenceRule:
    shortest = draw(st.integers(50, 3_000))
    return CadenceRule(
        shortest_ms=shortest,
        longest_ms=draw(st.integers(0, 60_000)),
        skew_duration_ms=draw(st.integers(0, 20_000)),
    )


@settings(max_examples=examples(300))
@given(
    rule=rules(),
    period=st.integers(200, 5_000),
    first=st.integers(0, 60_000),
    lengths=st.lists(st.integers(1, 3_000), min_size=1, max_size=7),
    records=st.sampled_from([0, 10, 1_000, 30_000]),
    publishing=st.integers(0, 300),
)
def test_a_trigger_is_raised_as_soon_as_with_the_shortest_interval(
    rule: CadenceRule,
    period: int,
    first: int,
    lengths: list[int],
    records: int,
    publishing: int,
) -> None:
    """No sample that shows a trigger waits longer for its batch than the shortest interval.

    Or than the batch before it, which may take longer. A sample is evaluated once the next one is
    read, as in `group.update`; each is published a while after its time.
    """
    # The newest sample with which the trigger is raised, and the one that lets it be evaluated.
    lasting = -(-rule.skew_duration_ms // period) * period
    shows_skew = first + period + publishing
    shows_trigger = first + lasting + period + publishing
    cadence, begin, number, longest = Cadence(rule=rule), 0, 0, 0
    while begin < shows_trigger:
        length = lengths[number % len(lengths)]
        cadence = cadence.after(
            batch(begin, length=length, records=records, at_stake=begin >= shows_skew)
        )
        longest, number = max(longest, length), number + 1
        begin = max(cadence.due_at, begin + length)
    assert begin - shows_trigger <= max(rule.shortest_ms, longest)
