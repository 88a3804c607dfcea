"""Requests and responses in bytes, and bytes that are none."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.clients.group_join import Joiner
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerSubscription
from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    int16,
    int32,
    nullable_bytes,
    string,
    uvarint,
)
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.config_requests import BrokerSettingRequest
from levelwind.daemon.wire.consumer_heartbeat import ConsumerHeartbeatRequest
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupRequest,
    DescribeGroupRequest,
)

REQUESTS = [
    kafka.ApiVersionsRequest(),
    kafka.SaslHandshakeRequest("PLAIN"),
    kafka.SaslAuthenticateRequest(b"token"),
    DescribeGroupRequest("g"),
    DescribeConsumerGroupRequest("g"),
    kafka.JoinRequest("g", 8000, 9000, "p", "static", (("range", b"raw"),)),
    kafka.SyncRequest("g", 3, "p", "static", {"a": b"raw"}),
    kafka.HeartbeatRequest("g", 3, "p", "static"),
    kafka.LeaveRequest("g", "p"),
    kafka.LeaveRequest("g", "", "static"),
    ConsumerHeartbeatRequest(group="g", member_id="m", epoch=0, rack_id="r", topics=("t",)),
    ConsumerHeartbeatRequest(group="g", member_id="m", epoch=3),
    BrokerSettingRequest(1, "group.consumer.assignors"),
]


def compact(text):
    return b"\0" if text is None else uvarint(len(text) + 1) + text.encode()


def test_a_static_member_leaves_by_its_name_alone():
    member = string("") + string("static")
    assert kafka.LeaveRequest("g", "", "static").body() == string("g") + array([member])


def test_a_request_has_its_length_and_its_header():
    raw = kafka.encode_request(kafka.HeartbeatRequest("g", 3, "p", "s"), 7, "me")
    assert raw == bytes.fromhex(
        "00000019 000c 0003 00000007 0002 6d65"  # length, key, version, correlation, client
        "0001 67 00000003 0001 70 0001 73"  # group, generation, member, instance
    )


def test_a_member_of_kip_848_says_everything_when_it_joins_and_then_what_changes():
    joining = ConsumerHeartbeatRequest(
        group="g", member_id="m", epoch=0, rack_id="r", topics=("t",), assignor="a"
    )
    assert joining.body() == bytes.fromhex(
        "0267 026d 00000000 00 0272 0000afc8 02 0274 00 0261 01 00"
    )
    beating = ConsumerHeartbeatRequest(group="g", member_id="m", epoch=3)
    assert beating.body() == bytes.fromhex("0267 026d 00000003 00 00 ffffffff 00 00 00 00 00")


def test_a_setting_of_a_broker_is_asked_for_by_its_name_and_read_with_its_synonyms():
    request = BrokerSettingRequest(2, "group.consumer.assignors")
    name = string("group.consumer.assignors")
    assert request.body() == int32(1) + b"\4" + string("2") + int32(1) + name + b"\0"
    synonym = name + string("uniform") + b"\5"
    entry = name + string("uniform,range") + b"\1\5\0" + array([synonym])
    result = int16(0) + int16(-1) + b"\4" + string("2") + array([entry])
    assert request.read(Reader(int32(0) + array([result]))) == (0, "uniform,range")
    refused = int16(31) + string("no") + b"\4" + string("2") + array([])
    assert request.read(Reader(int32(0) + array([refused]))) == (31, None)


def test_a_join_is_written_as_its_version_says():
    body = kafka.JoinRequest("g", 8000, 9000, "", "s", (("range", b"raw"),)).body()
    expected = string("g") + int32(8000) + int32(9000) + string("") + string("s")
    assert body == expected + string("consumer") + array([string("range") + nullable_bytes(b"raw")])


def test_a_leader_gets_the_members_of_its_group():
    joiners = [
        string("a") + string("one") + nullable_bytes(b"x"),
        string("b") + int16(-1) + nullable_bytes(None),
    ]
    raw = int32(0) + int16(0) + int32(4) + string("range") + string("b") + string("b")
    response = REQUESTS[5].read(Reader(raw + array(joiners)))
    assert response.joiners == (
        Joiner(id="a", instance_id="one", offers={"range": b"x"}),
        Joiner(id="b", offers={"range": b""}),
    )
    assert (response.generation, response.leader) == (4, "b")


def test_a_flexible_request_has_tags_in_its_header_and_its_response():
    raw = kafka.encode_request(DescribeConsumerGroupRequest("g"), 1, "")
    assert raw[4:] == struct.pack(">hhih", 69, 0, 1, 0) + b"\0" + b"\2\2g\0\0"
    request = DescribeConsumerGroupRequest("g")
    group = int16(69) + compact(None) + compact("g") + compact("") + int32(0) + int32(0)
    group += compact("") + b"\1" + int32(0) + b"\0"  # without members
    fields = kafka.response_fields(request, Reader(b"\0" + int32(0) + b"\2" + group))
    assert request.read(fields).error == kafka.GROUP_ID_NOT_FOUND
    assert request.read(Reader(int32(0) + b"\1")).error == kafka.GROUP_ID_NOT_FOUND


def described(protocol_type, subscription, assignment=b""):
    """The member of a classic group with these bytes for its subscription and assignment."""
    member = string("m-1") + int16(-1) + string("app") + string("/10.0.0.1")
    member += nullable_bytes(subscription) + nullable_bytes(assignment)
    group = int16(0) + string("g") + string("Stable") + string(protocol_type) + string("range")
    raw = int32(0) + array([group + array([member]) + int32(0)])
    (found,) = DescribeGroupRequest("g").read(Reader(raw)).members
    return found


def test_a_member_of_a_classic_group_has_the_rack_and_the_topics_of_its_subscription():
    subscription = ConsumerSubscription(topics=("orders", "paid"), rack="a")
    found = described("consumer", subscription.encode())
    assert (found.rack, found.topics) == ("a", ("orders", "paid"))
    assert described("consumer", subscription.encode(1)).rack is None


@pytest.mark.parametrize("raw", [None, b"", b"\0\3\0\0"])
def test_a_torn_subscription_leaves_the_member_and_its_rack_unknown(raw):
    found = described("consumer", raw)
    assert found[:8] == ("m-1", None, "app", "/10.0.0.1", None, None, raw or b"", b"")


@pytest.mark.parametrize("assignment", [None, b"", b"bytes"])
def test_a_member_of_a_classic_group_has_the_bytes_of_its_subscription_and_assignment(assignment):
    subscription = ConsumerSubscription(topics=("orders",)).encode()
    found = described("consumer", subscription, assignment)
    assert (found.subscription, found.assignment) == (subscription, assignment or b"")


def test_the_bytes_of_another_type_of_protocol_are_no_subscription():
    subscription = ConsumerSubscription(topics=("orders",), rack="a")
    assert described("connect", subscription.encode()).topics is None


@pytest.mark.parametrize(
    ("rack", "pattern", "expected"),
    [("a", None, "a"), ("", None, None), (None, "^o", None)],
)
def test_a_member_of_kip_848_has_its_rack_and_the_topics_that_it_names(rack, pattern, expected):
    member = compact("m-1") + compact(None) + compact(rack) + int32(3) + compact("app")
    member += compact("/10.0.0.1") + b"\2" + compact("orders") + compact(pattern)
    orders = b"\2" + bytes(16) + compact("orders") + b"\3" + int32(0) + int32(4) + b"\0"
    member += b"\1\0" + orders + b"\0" + b"\0"  # assignment, target assignment, tags
    group = int16(0) + compact(None) + compact("g") + compact("Stable") + int32(1) + int32(1)
    group += compact("uniform") + b"\2"
    end = int32(0) + b"\0"  # operations, tags
    raw = int32(0) + b"\2" + group + member + end
    (found,) = DescribeConsumerGroupRequest("g").read(Reader(raw)).members
    assert (found.rack, found.topics) == (expected, ("orders",))
    assert (found.target, found.classic) == ({"orders": (0, 4)}, False)
    assert found.pattern == pattern
    typed = DescribeConsumerGroupRequest("g", typed=True)
    raw = int32(0) + b"\2" + group + member[:-1] + b"\0" + member[-1:] + end
    assert (typed.VERSION, typed.read(Reader(raw)).members[0].classic) == (1, True)
    assert typed.read(Reader(raw)).assignor == "uniform"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
@given(st.binary(max_size=60))
def test_foreign_bytes_are_no_response_or_one_and_nothing_else(request_, raw):
    with suppress(WireError):
        request_.read(kafka.response_fields(request_, Reader(raw)))
