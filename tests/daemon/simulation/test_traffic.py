import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.simulation.traffic import read


def reads(lag, owner, budget, readable=None):
    lag = np.array(lag, np.int64)
    able = np.ones(len(lag), np.bool_) if readable is None else np.array(readable)
    return read(lag, np.array(owner, np.int32), np.array(budget, np.int64), able)


def test_the_small_are_read_whole_and_the_others_share_what_is_left_evenly():
    assert reads([100, 4, 50, 7], [0, 0, 0, 1], [40, 5]).tolist() == [18, 4, 18, 5]


def test_what_does_not_divide_goes_to_the_least_a_record_each():
    assert reads([100, 50, 60], [0, 0, 0], [32]).tolist() == [10, 11, 11]


def test_nobodys_and_paused_partitions_are_not_read():
    assert reads([9, 9, 9], [-1, 0, 0], [100], [True, False, True]).tolist() == [0, 0, 9]


def by_records(lag, owner, budget, readable):
    """A twin: each consumer reads one record at a time, of its partition that was read least."""
    done = [0] * len(lag)
    for member, left in enumerate(budget):
        owned = [p for p in range(len(lag)) if owner[p] == member and readable[p]]
        for _ in range(left):
            unfinished = [p for p in owned if done[p] < lag[p]]
            if not unfinished:
                break
            done[min(unfinished, key=lambda p: (done[p], lag[p], p))] += 1
    return done


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(-1, 2), st.booleans()), min_size=1, max_size=9
    ),
    st.lists(st.integers(0, 30), min_size=3, max_size=3),
)
def test_it_is_what_reading_one_record_after_the_other_gives(partitions, budget):
    lag, owner, readable = map(list, zip(*partitions, strict=True))
    assert reads(lag, owner, budget, readable).tolist() == by_records(lag, owner, budget, readable)
