"""Pauses that double between attempts that fail."""

from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.doubling_pause import DoublingPause


def test_pauses_double_up_to_the_longest():
    pauses = DoublingPause(0.5, 3.0)
    assert [pauses.of(failures) for failures in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert pauses.of(10**9) == 3.0


@given(st.integers(1, 200), st.floats(1e-3, 1e3), st.floats(1.0, 1e9))
def test_a_pause_after_another_is_that_of_one_failure_more(failures, first, ratio):
    pauses = DoublingPause(first, first * ratio)
    pause = None
    for _ in range(failures):
        pause = pauses.after(pause)
    assert pause == pauses.of(failures)
