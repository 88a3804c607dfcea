"""How the replay's consumers read: the oldest records first, whatever their partition."""

import numpy as np

from levelwind_testing.drain.prefetching_reader import PrefetchingReader

TWO = np.array([0, 0])
READABLE = np.array([True, True])


def reads(reader: PrefetchingReader, lag: list[int], budget: int) -> list[int]:
    return reader(np.array(lag), TWO, np.array([budget]), READABLE).tolist()


def test_what_arrived_first_is_read_first():
    reader = PrefetchingReader(9, 2)
    reader.arrive(np.array([10, 0]))
    reader.arrive(np.array([0, 10]))
    assert reads(reader, [10, 10], 7) == [7, 0]
    assert reads(reader, [3, 10], 7) == [3, 4]
    assert reads(reader, [0, 6], 7) == [0, 6]


def test_records_of_one_tick_are_shared_in_proportion_and_none_is_left_over():
    reader = PrefetchingReader(9, 2)
    reader.arrive(np.array([30, 10]))
    assert reads(reader, [30, 10], 8) == [6, 2]
    assert sum(reads(reader, [24, 8], 7)) == 7


def test_a_partition_that_moves_keeps_the_age_of_its_records():
    reader = PrefetchingReader(9, 2)
    reader.arrive(np.array([10, 0]))
    reader.arrive(np.array([0, 10]))
    owner, budget = np.array([1, 0]), np.array([4, 4])
    assert reader(np.array([10, 10]), owner, budget, READABLE).tolist() == [4, 4]
    # Both with member 0 from now on: what is left of the first partition is older.
    assert reader(np.array([6, 6]), TWO, budget, READABLE).tolist() == [4, 0]


def test_nothing_is_read_of_a_partition_that_is_handed_over():
    reader = PrefetchingReader(9, 2)
    reader.arrive(np.array([10, 10]))
    readable = np.array([False, True])
    assert reader(np.array([10, 10]), TWO, np.array([5]), readable).tolist() == [0, 5]


def test_as_much_is_read_as_there_is_or_as_the_member_can():
    draw = np.random.default_rng(1)
    reader = PrefetchingReader(200, 6)
    owner, budget = np.array([0, 0, 0, 1, 1, -1]), np.array([40, 25])
    lag = np.zeros(6, dtype=np.int64)
    for _ in range(200):
        records = draw.poisson([20, 5, 20, 15, 5, 3])
        reader.arrive(records)
        lag += records
        done = reader(lag, owner, budget, np.ones(6, dtype=bool))
        assert (done <= lag).all()
        for member in (0, 1):
            own = owner == member
            assert done[own].sum() == min(budget[member], lag[own].sum())
        assert done[5] == 0
        lag -= done


def test_dear_records_take_more_of_the_budget_and_the_last_one_is_paid_off_later():
    reader = PrefetchingReader(9, 2, np.array([4.0, 1.0]))
    reader.arrive(np.array([2, 0]))
    reader.arrive(np.array([0, 9]))
    assert reads(reader, [2, 9], 6) == [2, 0]  # two over the budget
    assert reads(reader, [0, 9], 6) == [0, 4]
    assert reads(reader, [0, 5], 6) == [0, 5]
