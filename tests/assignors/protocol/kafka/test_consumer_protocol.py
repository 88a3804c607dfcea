"""Subscriptions and assignments: Kafka's bytes, round trips of values, and malformed bytes."""

import contextlib
import json
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    NEWEST,
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.sticky_user_data import StickyUserData, encode_generation
from levelwind.assignors.protocol.partition_ranges import WireError

GOLDEN = Path(__file__).parents[3] / "data" / "consumer_protocol.jsonl"
LINES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]

versions = st.integers(0, NEWEST)
int32 = st.integers(-(2**31), 2**31 - 1)
names = st.text(max_size=6)
held = st.dictionaries(
    names, st.sets(int32, min_size=1, max_size=4).map(lambda s: tuple(sorted(s))), max_size=3
)
user_data = st.none() | st.binary(max_size=9)
subscriptions = st.builds(
    ConsumerSubscription,
    topics=st.lists(names, max_size=4).map(tuple),
    user_data=user_data,
    owned=held,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | st.text(min_size=1, max_size=6),
)
assignments = st.builds(ConsumerAssignment, partitions=held, user_data=user_data)


def value_of(line):
    """The value of a golden line."""
    value = line["value"]
    user_bytes = None if value.get("user_data") is None else bytes.fromhex(value["user_data"])
    if line["kind"] == "subscription":
        owned = {topic: tuple(numbers) for topic, numbers in value["owned"].items()}
        return ConsumerSubscription(
            topics=tuple(value["topics"]),
            user_data=user_bytes,
            owned=owned,
            generation=value["generation"],
            rack=value["rack"],
        )
    return ConsumerAssignment(
        partitions={topic: tuple(numbers) for topic, numbers in value["partitions"].items()},
        user_data=user_bytes,
    )


def golden(*kinds):
    chosen = [line for line in LINES if line["kind"] in kinds]
    return pytest.mark.parametrize("line", chosen, ids=[line["name"] for line in chosen])


@golden("subscription", "assignment")
def test_it_writes_the_bytes_that_kafka_writes(line):
    assert value_of(line).encode(line["version"]).hex() == line["bytes"]


@golden("subscription", "assignment")
def test_it_reads_what_kafka_wrote_as_far_as_the_version_has_fields(line):
    value = value_of(line)
    read = type(value).decode(bytes.fromhex(line["bytes"]))
    assert representable(value, line["version"]) == read


@golden("sticky", "cooperative-sticky")
def test_user_data_has_kafkas_bytes(line):
    held = {topic: tuple(numbers) for topic, numbers in line["value"]["held"].items()}
    sticky = StickyUserData(held=held, generation=41)
    written = sticky.encode() if line["kind"] == "sticky" else encode_generation(41)
    assert written.hex() == line["bytes"]
    if line["kind"] == "sticky":
        assert StickyUserData.decode(written) == sticky


def representable(value, version):
    """The value as far as a version has fields for it; topics in the order of writing."""
    if isinstance(value, ConsumerAssignment):
        return value
    return ConsumerSubscription(
        topics=tuple(sorted(value.topics, key=lambda name: name.encode("utf-16-be"))),
        user_data=value.user_data,
        owned=value.owned if version >= 1 else {},
        generation=value.generation if version >= 2 else -1,
        rack=value.rack if version >= 3 else None,
    )


@given(subscriptions | assignments, versions)
@example(ConsumerSubscription(topics=("\ue000", "😀")), 0)
def test_any_value_is_read_as_it_was_written(value, version):
    assert type(value).decode(value.encode(version)) == representable(value, version)


@given(subscriptions | assignments, st.integers(NEWEST + 1, 2**15 - 1), st.binary(max_size=9))
def test_a_newer_version_is_read_as_the_newest_whatever_it_appends(value, version, more):
    raw = struct.pack(">h", version) + value.encode()[2:] + more
    assert type(value).decode(raw) == representable(value, NEWEST)


@given(subscriptions | assignments, versions, st.data())
def test_nothing_may_be_missing_or_follow_in_a_known_version(value, version, data):
    raw = value.encode(version)
    with pytest.raises(WireError, match=r"truncated|longer than its record"):
        type(value).decode(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(WireError, match="2 trailing bytes"):
        type(value).decode(raw + b"\0\0")


@given(
    st.binary(max_size=60),
    st.sampled_from([ConsumerSubscription, ConsumerAssignment, StickyUserData]),
)
def test_any_bytes_are_a_value_or_a_wire_error(raw, kind):
    with contextlib.suppress(WireError):
        kind.decode(raw)
    with contextlib.suppress(WireError):
        kind.decode(raw[:1] + b"\1" + raw)


def test_a_topic_that_is_named_twice_is_merged():
    once = struct.pack(">h1si2i", 1, b"t", 2, 5, 1)
    raw = struct.pack(">hi", 0, 2) + once + once + struct.pack(">i", -1)
    assert ConsumerAssignment.decode(raw) == ConsumerAssignment(partitions={"t": (1, 5)})


def test_equal_assignments_have_the_same_bytes():
    assert (
        ConsumerAssignment(partitions={"\ue000": (2, 1), "😀": (0,)}).encode()
        == ConsumerAssignment(partitions={"😀": (0,), "\ue000": (1, 2), "t": ()}).encode()
    )


def test_a_topic_without_partitions_is_left_out():
    raw = struct.pack(">hi h2si hii i", 0, 2, 2, b"az", 0, 0, 1, 7, -1)
    assert ConsumerAssignment.decode(raw) == ConsumerAssignment(partitions={"": (7,)})


def test_an_empty_rack_and_a_negative_generation_count_as_unknown():
    raw = ConsumerSubscription(topics=(), rack="r").encode()
    assert ConsumerSubscription.decode(raw[:-3] + b"\0\0").rack is None
    assert ConsumerSubscription.decode(raw[:-7] + b"\xff\xff\xff\xfe" + raw[-3:]).generation == -1


@pytest.mark.parametrize("version", [-1, NEWEST + 1])
def test_no_other_version_is_written(version):
    for value in (ConsumerSubscription(topics=()), ConsumerAssignment(partitions={})):
        with pytest.raises(WireError, match=f"version {version}; known are 0 to 3"):
            value.encode(version)


@pytest.mark.parametrize(
    "value",
    [
        ConsumerSubscription(topics=("x" * 2**15,)),
        ConsumerSubscription(topics=("\ud800",)),
        ConsumerSubscription(topics=(), generation=2**31),
        ConsumerAssignment(partitions={"t": (2**31,)}),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_not_written(value):
    with pytest.raises(WireError, match="cannot be written"):
        value.encode()


HUGE = b"\x7f\xff\xff\xff"


@pytest.mark.parametrize(
    ("kind", "raw", "reason"),
    [
        (ConsumerSubscription, b"", "truncated"),
        (ConsumerSubscription, b"\xff\xff", "version -1: the oldest is 0"),
        (ConsumerSubscription, b"\0\0\xff\xff\xff\xff", "an array of -1"),
        (
            ConsumerSubscription,
            b"\0\0" + HUGE + b"\0" * 40,
            "an array of 2147483647 is longer than its record",
        ),
        (
            ConsumerSubscription,
            b"\0\0\0\0\0\x15" + b"\0" * 40,
            "an array of 21 is longer than its record",
        ),
        (ConsumerSubscription, b"\0\0\0\0\0\1\xff\xff\0\0", "null where a string is required"),
        (ConsumerSubscription, b"\0\0\0\0\0\1\0\1\xff" + b"\0" * 4, "not UTF-8"),
        (
            ConsumerSubscription,
            b"\0\0\0\0\0\0" + HUGE,
            "truncated: 2147483647 bytes wanted, 0 left",
        ),
        (ConsumerSubscription, b"\0\0\0\0\0\0\xff\xff\xff\xfe", "a length of -2"),
        (ConsumerSubscription, b"\0\1\0\0\0\0\xff\xff\xff\xff" + HUGE, "an array of 2147483647"),
        (
            ConsumerAssignment,
            b"\0\0\0\0\0\1\0\1t" + b"\0\0\0\2" + b"\0" * 7,
            "an array of 2 is longer",
        ),
        (StickyUserData, HUGE, "an array of 2147483647"),
    ],
)
def test_malformed_bytes_are_refused_with_the_reason(kind, raw, reason):
    with pytest.raises(WireError, match=reason):
        kind.decode(raw)
