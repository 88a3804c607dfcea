"""When samples are taken, in which parts groups are asked, and what ends an observation."""

from itertools import pairwise

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.assessment.observing import sample_times
from levelwind.daemon.cli.options import Duration


@given(seconds=st.floats(0, 100_000))
def test_samples_end_with_the_observation_and_leave_time_for_commits(seconds):
    times = sample_times(seconds)
    assert len(times) <= 6
    assert times == sorted(times)
    if seconds:
        assert times[-1] == pytest.approx(seconds)
    assert all(later - sooner >= 4.99 for sooner, later in pairwise(times))


def test_the_first_page_rests_on_ten_seconds():
    assert sample_times(60) == [10, 20, 30, 40, 50, 60]
    assert sample_times(600)[:2] == [10, 128]
    assert sample_times(5) == [5]
    assert sample_times(0) == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("90s", 90), ("1.5m", 90), ("1h", 3600)]
)
def test_a_time_is_given_with_or_without_its_unit(text, seconds):
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5", "5d", "1e3", "nan", "inf", "5 minutes"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(click.BadParameter, match="is no time"):
        Duration().convert(text, None, None)
