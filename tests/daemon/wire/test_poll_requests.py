"""Requests for groups and their commits in bytes, and responses as brokers write them."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    compact_array,
    compact_string,
    int16,
    int32,
    nullable_bytes,
    nullable_string,
    string,
)
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.wire import poll_requests as kafka
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupsRequest,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
)
from levelwind.daemon.wire.group_requests import encode_request

REQUESTS = [
    kafka.BrokersRequest(),
    kafka.ListGroupsRequest(typed=True),
    kafka.ListGroupsRequest(typed=False),
    kafka.FindCoordinatorsRequest(("g", "h")),
    kafka.FetchOffsetsRequest(("g", "h")),
    kafka.FetchOffsetsRequest(("g",), {"g": {"t": b"\1"}}),
    DescribeGroupsRequest(("g",)),
    DescribeConsumerGroupsRequest(("g",)),
]
PARTITION = st.tuples(
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**62),
    st.integers(-1, 9),
    st.sampled_from(["", "", "", "note", "n" * 200]),
    st.sampled_from([0, 0, 0, 0, 3, 88]),
)


def partition(number, offset, epoch, metadata, error):
    head = struct.pack(">iqi", number, offset, epoch)
    return head + compact_string(metadata) + int16(error) + b"\0"


def topic(name, partitions):
    return compact_string(name) + compact_array([partition(*one) for one in partitions]) + b"\0"


def fetched(groups):
    """A response with topics by group."""
    each = [
        compact_string(name)
        + compact_array([topic(*one) for one in topics.items()])
        + int16(0)
        + b"\0"
        for name, topics in groups.items()
    ]
    return int32(0) + compact_array(each) + b"\0"


def test_requests_are_written_as_their_versions_say():
    assert encode_request(kafka.FetchOffsetsRequest(("g", "h")), 7, "me") == bytes.fromhex(
        "00000018 0009 0008 00000007 0002 6d65 00"  # length, key, version, correlation, client
        "03 02 67 00 00 02 68 00 00"  # two groups, of each all topics
        "00 00"  # what is committed, open transactions left out
    )
    assert kafka.FindCoordinatorsRequest(("g", "h")).body() == bytes.fromhex("00 03 0267 0268 00")
    assert encode_request(kafka.ListGroupsRequest(typed=True), 1, "")[4:8].hex() == "00100005"
    assert encode_request(kafka.ListGroupsRequest(typed=False), 1, "")[4:8].hex() == "00100004"
    assert DescribeGroupsRequest(("g", "h")).body() == array([string("g"), string("h")]) + (b"\0")


def test_brokers_tell_their_addresses():
    raw = int32(0) + array([int32(2) + string("b") + int32(92) + nullable_string("rack")])
    found = kafka.BrokersRequest().read(Reader(raw + nullable_string("cluster") + int32(2)))
    assert found == {2: kafka.Broker("b", 92)}


def test_a_broker_says_who_coordinates_each_group_or_why_nobody_does():
    def found(group, error, message, host, port):
        address = int32(1) + compact_string(host) + int32(port)
        return compact_string(group) + address + int16(error) + message + b"\0"

    each = [found("g", 0, b"\0", "b", 92), found("h", 15, compact_string("none"), "", -1)]
    raw = int32(0) + compact_array(each) + b"\0"
    one, other = kafka.FindCoordinatorsRequest(("g", "h")).read(Reader(raw))
    assert (one.group, one.host, one.port, one.refusal) == ("g", "b", 92, "")
    assert (other.group, other.error) == ("h", 15)
    assert other.refusal == "the group has no coordinator: error 15 none"
    with pytest.raises(WireError, match="of 2 groups instead of 1"):
        kafka.FindCoordinatorsRequest(("g",)).read(Reader(raw))


def test_a_missing_right_to_a_group_is_no_missing_coordinator():
    """Brokers refuse it without a word since they are asked for many groups at once."""
    unauthorized = kafka.FoundCoordinator("g", 30, "")
    assert unauthorized.refusal == "this user lacks DESCRIBE on group g"


@pytest.mark.parametrize("typed", [False, True])
def test_a_broker_lists_its_groups(typed):
    kind = compact_string("Consumer") if typed else b""
    group = compact_string("g") + compact_string("consumer") + compact_string("Stable") + kind
    raw = int32(0) + int16(0) + compact_array([group + b"\0"]) + b"\0"
    (found,) = kafka.ListGroupsRequest(typed=typed).read(Reader(raw)).groups
    assert found == kafka.ListedGroup("g", "consumer", "Stable", "consumer" if typed else "")


def test_a_classic_group_is_told_with_the_bytes_of_its_clients():
    member = string("m") + nullable_string("i") + string("c") + string("/h")
    member += nullable_bytes(b"reads") + nullable_bytes(b"owns")
    group = int16(0) + string("g") + string("Stable") + string("consumer") + string("range")
    raw = int32(0) + array([group + array([member]) + int32(-1)])
    (found,) = DescribeGroupsRequest(("g",)).read(Reader(raw))
    expected = DescribedMember("m", "i", "c", "/h", subscription=b"reads", assignment=b"owns")
    assert found == DescribedGroup(0, "Stable", "consumer", "range", (expected,), "g")


def test_a_member_of_kip_848_is_told_with_its_epoch_and_its_partitions_by_topic_id():
    numbers = compact_array([int32(1), int32(3)])
    owned = compact_array([bytes(16) + compact_string("owned") + numbers + b"\0"]) + b"\0"
    member = compact_string("m") + compact_string(None) + compact_string("rack") + int32(4)
    member += compact_string("c") + compact_string("/h")
    member += compact_array([compact_string("a")]) + compact_string("^o")
    member += owned + compact_array([]) + b"\0" + b"\0"
    group = int16(0) + compact_string(None) + compact_string("g") + compact_string("Stable")
    group += int32(4) + int32(4) + compact_string("uniform") + compact_array([member])
    raw = int32(0) + compact_array([group + int32(-1) + b"\0"]) + b"\0"
    (found,) = DescribeConsumerGroupsRequest(("g",)).read(Reader(raw))
    (one,) = found.members
    assert (found.name, found.state, found.assignor) == ("g", "Stable", "uniform")
    assert (one.rack, one.epoch, one.topics, one.pattern) == ("rack", 4, ("a",), "^o")
    assert (one.assigned, one.assigned_topics) == ({bytes(16): (1, 3)}, ("owned",))


@given(
    st.dictionaries(
        st.sampled_from(["g", "h"]),
        st.dictionaries(st.sampled_from(["t", "u"]), st.lists(PARTITION, max_size=4)),
        max_size=2,
    )
)
def test_committed_offsets_are_those_of_the_response(groups):
    found = kafka.FetchOffsetsRequest(tuple(groups)).read(Reader(fetched(groups)))
    assert {one.name: {**one.topics}.keys() for one in found} == {
        name: topics.keys() for name, topics in groups.items()
    }
    for one in found:
        for name, raw in one.topics.items():
            told = {
                number: (offset, epoch)
                for number, offset, epoch, _, error in groups[one.name][name]
                if offset >= 0 and not error
            }
            assert kafka.committed_offsets(raw) == told
            assert raw == compact_array([partition(*p) for p in groups[one.name][name]])


@given(st.lists(PARTITION, max_size=4), st.lists(PARTITION, max_size=4))
def test_what_was_known_is_recognised_and_what_is_new_is_read(before, now):
    known = {"g": {"t": compact_array([partition(*one) for one in before])}}
    request = kafka.FetchOffsetsRequest(("g",), known)
    (found,) = request.read(Reader(fetched({"g": {"t": now}})))
    assert found.topics == {"t": compact_array([partition(*one) for one in now])}
    assert (found.topics["t"] is known["g"]["t"]) == (before == now)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
@given(st.binary(max_size=60))
def test_foreign_bytes_are_no_response_or_one_and_nothing_else(request_, raw):
    with suppress(WireError):
        request_.read(Reader(raw))


@given(st.binary(max_size=60))
def test_partitions_of_foreign_bytes_are_none_or_some(raw):
    with suppress(WireError):
        kafka.committed_offsets(raw)
