"""When records arrived, from a history that is thinned with age."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.streaming.topic.end_history import (
    HORIZON_MS,
    MAX_GAP_SHARE,
    POINTS,
    EndOffsetHistory,
    ends_of,
    packable_ends,
    wide_steps,
)
from levelwind.streaming.topic.state import TopicState
from levelwind_testing.examples import examples

SECOND = 1000


def history(*samples: tuple[int, list[int]]) -> EndOffsetHistory:
    ends = EndOffsetHistory.empty()
    for at, end in samples:
        ends = ends.with_sample(at * SECOND, np.array(end, np.int64))
    return ends


def arrived(ends: EndOffsetHistory, *offsets: int) -> tuple[list[float], list[bool]]:
    times, _, unbounded = ends.arrived(np.array(offsets, np.int64), np.arange(len(offsets)))
    return (times / SECOND).tolist(), unbounded.tolist()


@pytest.mark.parametrize(
    ("case", "samples", "offset", "at", "unbounded"),
    [
        ("between two samples", [(10, [100]), (20, [200])], 150, 15, False),
        ("with the first record of a step", [(10, [100]), (20, [200])], 100, 10, False),
        ("after a log that stood still", [(10, [100]), (20, [100]), (30, [200])], 100, 20, False),
        ("before the history", [(10, [100]), (20, [200])], 99, 10, True),
        ("in a single sample", [(10, [100])], 50, 10, True),
        ("beyond a log that was cut off", [(10, [100]), (20, [40]), (30, [80])], 60, 25, False),
        ("below where it was cut off", [(10, [20]), (20, [100]), (30, [40])], 30, 15, False),
        ("after a clock was set back", [(10, [100]), (99, [150]), (20, [200])], 150, 15, False),
        ("where the end was not known", [(10, [-1]), (20, [100])], 50, 20, True),
    ],
)
def test_when_a_record_arrived(
    case: str, samples: list[tuple[int, list[int]]], offset: int, at: float, unbounded: bool
) -> None:
    assert arrived(history(*samples), offset) == ([at], [unbounded])


def test_a_partition_that_came_later_has_no_past() -> None:
    assert arrived(history((10, [100]), (20, [200, 50])), 150, 20) == ([15, 20], [False, True])


def test_a_steady_log_is_told_to_the_second_however_old_the_record() -> None:
    ends = history(*[(second, [10 * second]) for second in range(1, 5000)])
    assert ends.at.size == POINTS
    assert arrived(ends, 45_000)[0] == [4500]
    assert arrived(ends, 1000)[0] == [100]


@pytest.mark.integration
def test_points_stand_the_closer_the_younger_they_are() -> None:
    ends = EndOffsetHistory.empty()
    worst = 0.0
    for second in range(1, 2 * 86400):
        ends = ends.with_sample(second * SECOND, np.array([second]))
        age = second * SECOND - ends.at[:-1]
        old = age > 60 * SECOND
        if second % 101 == 0 and old.any():
            worst = max(worst, float((np.diff(ends.at)[old] / age[old]).max()))
    assert worst < MAX_GAP_SHARE


def test_what_is_older_than_the_horizon_is_forgotten() -> None:
    ends = history((0, [1]), (10, [2]), (HORIZON_MS // SECOND + 5, [3]))
    assert ends.at.tolist() == [10 * SECOND, HORIZON_MS + 5 * SECOND]


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.tuples(st.integers(1, 100), st.lists(st.integers(-1, 2**40), min_size=3, max_size=3)),
        max_size=50,
    )
)
def test_what_was_packed_is_read_back(steps: list[tuple[int, list[int]]]) -> None:
    at, ends = 0, EndOffsetHistory.empty()
    for step, end in steps:
        at += step
        ends = ends.with_sample(at, np.array(end, np.int64))
    packed = packable_ends([ends], wide=wide_steps([ends])[0])
    again = {name: matrix[0].tolist() for name, matrix in ends_of(packed).items()}
    columns = {"ends_at": ends.at.tolist(), "ends": ends.end.tolist()}
    assert again == (columns if ends.at.size else {})


def test_steps_beyond_32_bits_are_packed_wide_in_their_own_state_alone() -> None:
    states = [
        replace(TopicState.empty(), id="x", history=history((1, [0]), (2, [end])))
        for end in (5, 2**31, 7, 2**31 - 1)
    ]
    values = TopicState.pack_all(states)
    assert [b'["ends_steps","<i8",1]' in value for value in values] == [False, True, False, False]
    assert values == [state.pack() for state in states]
    steps = [state.history.end[-1].tolist() for state in TopicState.unpack_all(values)]
    assert steps == [[5], [2**31], [7], [2**31 - 1]]
