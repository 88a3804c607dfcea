"""userData of the assignors."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.kafka.sticky_user_data import (
    StickyUserData,
    decode_generation,
    decode_priority,
    encode_generation,
    encode_priority,
)
from levelwind.assignors.protocol.partition_ranges import WireError

int32 = st.integers(-(2**31), 2**31 - 1)
held = st.dictionaries(
    st.text(max_size=4),
    st.sets(int32, min_size=1, max_size=4).map(lambda s: tuple(sorted(s))),
    max_size=3,
)


@given(held, int32, st.binary(max_size=5))
def test_sticky_v1_is_read_as_written_and_appended_bytes_are_ignored(partitions, generation, more):
    data = StickyUserData(held=partitions, generation=generation)
    assert StickyUserData.decode(data.encode() + more) == data


@given(held, int32, st.binary(max_size=3))
def test_sticky_v0_has_no_generation(partitions, generation, rest):
    data = StickyUserData(held=partitions, generation=generation)
    assert StickyUserData.decode(data.encode(0) + rest) == StickyUserData(held=partitions)


def test_there_is_no_sticky_v2():
    with pytest.raises(WireError, match="version 2; known are 0 and 1"):
        StickyUserData(held={}).encode(2)


@given(int32)
def test_a_generation_and_a_priority_are_four_bytes_big_endian(number):
    raw = struct.pack(">i", number)
    assert encode_generation(number) == encode_priority(number) == raw
    assert decode_generation(raw) == decode_priority(raw) == number


@pytest.mark.parametrize("nothing", [None, b""])
def test_without_user_data_the_priority_is_the_highest_and_the_generation_unknown(nothing):
    assert decode_priority(nothing) == 2**31 - 1
    assert decode_generation(nothing) == -1


@pytest.mark.parametrize("read", [decode_priority, decode_generation])
def test_fewer_than_four_bytes_are_no_number(read):
    with pytest.raises(WireError, match="truncated: 4 bytes wanted, 3 left"):
        read(b"\0\0\1")
    assert read(b"\0\0\0\1more") == 1  # a newer writer may append


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_a_number_beyond_32_bits_is_not_written(number):
    with pytest.raises(WireError, match="cannot be written"):
        encode_priority(number)
