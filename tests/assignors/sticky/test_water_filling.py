import numpy as np
import pytest

from levelwind.assignors.sticky.water_filling import water_fill, water_fill_order


@pytest.mark.parametrize(
    ("levels", "amount", "gained"),
    [
        ([0, 0, 0], 4, [2, 1, 1]),
        ([5, 0, 2], 3, [0, 3, 0]),
        ([5, 0, 2], 5, [0, 4, 1]),
        ([1, 1], 0, [0, 0]),
        ([7], 2, [2]),
    ],
)
def test_water_finds_its_level(levels, amount, gained):
    assert water_fill(np.array(levels), amount).tolist() == gained


def test_units_go_to_the_lowest_and_of_equal_ones_to_the_first():
    levels = np.array([1, 0, 1])
    assert water_fill_order(levels, water_fill(levels, 5)).tolist() == [1, 0, 1, 2, 0]
