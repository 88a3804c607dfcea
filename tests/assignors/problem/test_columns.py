import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.problem.columns import distinct, firsts, numbered, radix

keys = st.lists(st.integers(0, 40), max_size=60).map(
    lambda listed: np.array(listed, dtype=np.int64)
)
SPARSE = 10**6  # beyond it no table is made, and keys are sorted


@pytest.mark.parametrize("top", [41, SPARSE])
@given(keys=keys)
def test_by_a_table_or_by_sorting_keys_are_the_same(keys, top):
    once, first, rank = np.unique(keys, return_index=True, return_inverse=True)
    assert distinct(keys, top).tolist() == once.tolist()
    assert firsts(keys, top).tolist() == first.tolist()
    assert numbered(keys).tolist() == rank.tolist()
    assert numbered(keys * 1000).tolist() == rank.tolist()


@pytest.mark.parametrize("top", [41, SPARSE])
@given(keys=keys)
def test_what_is_equal_stays_in_order(keys, top):
    assert radix(keys - 1, top).tolist() == np.argsort(keys, kind="stable").tolist()
