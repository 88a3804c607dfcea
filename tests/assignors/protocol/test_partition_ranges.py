"""Partitions as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.partition_ranges import WireError

numbers = st.sets(st.integers(0, 200) | st.integers(0, ranges.HIGHEST_PARTITION))


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("", ()),
        ("0", (0,)),
        ("0-9,14", (*range(10), 14)),
        ("1,3,5", (1, 3, 5)),
        ("2147483647", (2147483647,)),
    ],
)
def test_examples(text, partitions):
    assert ranges.parse(text) == partitions
    assert ranges.format(partitions) == text


def test_neighbours_are_joined_and_order_does_not_matter():
    assert ranges.format([4, 2, 3, 9, 2]) == "2-4,9"


@given(numbers)
def test_what_is_written_is_read(partitions):
    assert ranges.parse(ranges.format(partitions)) == tuple(sorted(partitions))


@given(st.text(alphabet="0123456789-, ", max_size=12))
def test_a_text_is_read_only_if_it_is_the_one_that_would_be_written(text):
    try:
        read = ranges.parse(text, limit=10_000)
    except WireError:
        return
    assert ranges.format(read) == text


@pytest.mark.parametrize(
    "text",
    [
        "-",
        "1-",
        "-1",
        "1-1",
        "2-1",
        "1,1",
        "2,1",
        "1,2",
        "0-2,3",
        "01",
        "1,",
        ",1",
        " 1",
        "+1",
        "1_0",
        "٣",
        "²",
        "1-2-3",
        "a",
        "2147483648",
        "9" * 5000,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(WireError):
        ranges.parse(text)


def test_a_partition_is_read_behind_the_last_slash():
    assert ranges.parse_partition("orders.placed/3") == ("orders.placed", 3)
    assert ranges.parse_partition("a/b/0") == ("a/b", 0)


@pytest.mark.parametrize("text", ["", "t", "t/", "/1", "t/03", "t/-1", "t/+1", "t/²", "t-1", "t/x"])
def test_no_other_text_is_a_partition(text):
    with pytest.raises(WireError, match="write TOPIC/NUMBER"):
        ranges.parse_partition(text)


def test_a_few_bytes_cannot_ask_for_more_than_the_limit():
    with pytest.raises(WireError, match="more than 1000000 partitions"):
        ranges.parse("0-2147483647")
    with pytest.raises(WireError, match="more than 10 partitions"):
        ranges.parse("0-4,6-11", limit=10)
    assert len(ranges.parse("0-4,6-10", limit=10)) == 10


@given(st.sets(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 20))))
def test_pairs_and_partitions_by_topic_are_the_same(pairs):
    assert ranges.pairs(ranges.by_topic(pairs)) == pairs
    assert list(ranges.by_topic(pairs)) == sorted({topic for topic, _ in pairs})
