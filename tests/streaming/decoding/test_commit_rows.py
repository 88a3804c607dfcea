"""Rows of a batch: the names that the commits of each topic have."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from levelwind.streaming.decoding.commit_rows import distinct_by_topic


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 5)), max_size=20))
def test_the_numbers_of_each_topic_are_its_own(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda pair: pair[0])
    topic = np.array([topic for topic, _ in pairs], np.int64)
    number = np.array([number for _, number in pairs], np.int64)
    distinct = distinct_by_topic(topic, number)
    names = iter(distinct.distinct)
    for name, count in zip(sorted(set(topic.tolist())), distinct.counts.tolist(), strict=True):
        of_topic = topic == name
        known = sorted(set(number[of_topic].tolist()) - {-1})
        assert [next(names) for _ in range(count)] == known
        index = [known.index(n) if n >= 0 else -1 for n in number[of_topic].tolist()]
        assert distinct.number[of_topic].tolist() == index
    assert list(names) == []
