"""Sizes of logs in bytes, and bytes that are none."""

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.kafka.types import Reader, array, int16, int32, string
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.wire.group_requests import encode_request
from levelwind.daemon.wire.log_requests import DescribeLogDirsRequest


def partition(number, size, *, future=False):
    return struct.pack(">iqq?", number, size, 0, future)


def directory(path, *partitions, error=0):
    topics = [string("orders") + array(partitions)] if partitions else []
    return int16(error) + string(path) + array(topics)


def read(raw):
    return DescribeLogDirsRequest({}).read(Reader(raw))


def test_a_question_is_written_as_its_version_says():
    raw = encode_request(DescribeLogDirsRequest({"orders": (0, 2)}), 7, "me")
    assert raw[4:] == (int16(35) + int16(1) + int32(7) + string("me")) + array(
        [string("orders") + array([int32(0), int32(2)])]
    )


def test_sizes_of_all_directories_are_read_and_copies_under_way_are_left_out():
    raw = int32(0) + array(
        [
            directory("/one", partition(0, 500), partition(2, 40, future=True)),
            directory("/broken", error=56),
            directory("/two", partition(2, 30)),
        ]
    )
    assert read(raw) == {("orders", 0): 500, ("orders", 2): 30}


def test_without_the_right_there_is_no_directory_and_no_size():
    assert read(int32(0) + array([])) == {}


@given(st.binary(max_size=60))
def test_foreign_bytes_are_no_response_or_one_and_nothing_else(raw):
    with suppress(WireError):
        read(raw)
