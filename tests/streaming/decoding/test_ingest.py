"""Rows of a batch: the names that the commits of each topic have."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from levelwind.streaming.decoding.ingest import distinct_by_topic


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 5)), max_size=20))
def test_the_numbers_of_each_topic_are_its_own(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda pair: pair[0])
    topic = np.array([topic for topic, _ in pairs], np.int64)
    number = np.array([number for _, number in pairs], np.int64)
    distinct = distinct_by_topic(topic, number)
    assert list(distinct.names) == sorted(set(topic.tolist()))
    for name, names in distinct.names.items():
        of_topic = topic == name
        expected, index = np.unique(number[of_topic], return_inverse=True)
        assert names == expected.tolist()
        assert distinct.number[of_topic].tolist() == index.tolist()
