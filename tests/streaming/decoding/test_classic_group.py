"""Classic group metadata: real records, each version by hand, and bytes that lie."""

import contextlib
import struct
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.streaming.decoding import classic_group
from levelwind.streaming.errors import UnknownVersion
from levelwind_testing.pipeline.offsets_reference_codec import Golden, compact, string, uvarint


def test_two_members_in_racks_own_what_their_leader_gave_them(golden: Mapping[str, Golden]) -> None:
    read = classic_group.decode(golden["classic_group_with_two_members"].value or b"")
    assert (read.generation, read.protocol) == (1, "range")
    dynamic, static = read.members
    assert (dynamic.client_id, dynamic.instance_id, dynamic.rack) == ("c1", None, "a")
    assert (static.client_id, static.instance_id, static.rack) == ("c2", "static-2", "b")
    assert (dynamic.assigned, static.assigned) == ({"golden": (0, 2)}, {"golden": (1,)})


def test_an_empty_group_has_no_members(golden: Mapping[str, Golden]) -> None:
    read = classic_group.decode(golden["classic_group_without_members"].value or b"")
    assert (read.generation, read.members) == (0, ())


def bytes32(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


SUBSCRIPTION = struct.pack(">hi", 1, 1) + string("t") + struct.pack(">ii", -1, 0)
ASSIGNMENT = (
    struct.pack(">hi", 0, 2)
    + string("t")
    + struct.pack(">iii", 2, 3, 1)
    + string("u")
    + struct.pack(">ii", 1, 0)
)
ASSIGNMENT += struct.pack(">i", -1)


def value(
    version: int, protocol_type: str = "consumer", subscription: bytes = SUBSCRIPTION
) -> bytes:
    flexible = version >= 4

    def text(content: str) -> bytes:
        return compact(content.encode()) if flexible else string(content)

    def raw(content: bytes) -> bytes:
        return compact(content) if flexible else bytes32(content)

    null = uvarint(0) if flexible else struct.pack(">h", -1)
    member = text("id") + (null if version >= 3 else b"") + text("client") + text("/host")
    member += (struct.pack(">i", 300) if version >= 1 else b"") + struct.pack(">i", 45)
    member += raw(subscription) + raw(ASSIGNMENT) + (b"\x00" if flexible else b"")
    members = (uvarint(2) if flexible else struct.pack(">i", 1)) + member
    head = (
        struct.pack(">h", version)
        + text(protocol_type)
        + struct.pack(">i", 8)
        + text("range")
        + null
    )
    return (
        head
        + (struct.pack(">q", 99) if version >= 2 else b"")
        + members
        + (b"\x00" if flexible else b"")
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_read(version: int) -> None:
    read = classic_group.decode(value(version))
    assert read.generation == 8
    (member,) = read.members
    assert (member.member_id, member.client_id, member.rack) == ("id", "client", None)
    assert member.assigned == {"t": (1, 3), "u": (0,)}


def test_members_of_other_protocol_types_own_nothing_that_we_know() -> None:
    assert classic_group.decode(value(3, "connect", b"its own bytes")).members == ()


def test_a_newer_version_is_told_apart_from_garbage() -> None:
    with pytest.raises(UnknownVersion):
        classic_group.decode(b"\x00\x05rest")


def test_a_member_without_partitions_may_have_zero_bytes(golden: Mapping[str, Golden]) -> None:
    raw = golden["classic_group_with_two_members"].value or b""
    assignment = (
        struct.pack(">i", 26)
        + struct.pack(">hi", 0, 1)
        + string("golden")
        + struct.pack(">iii", 1, 1, 0)
    )
    assert assignment in raw
    _, static = classic_group.decode(raw.replace(assignment, struct.pack(">i", 0))).members
    assert static.assigned == {}


def test_a_v1_subscription_without_owned_partitions_costs_a_rack_and_nothing_else() -> None:
    (member,) = classic_group.decode(value(3, subscription=SUBSCRIPTION[:-4])).members
    assert (member.rack, member.assigned) == (None, {"t": (1, 3), "u": (0,)})


@given(
    st.integers(0, 4).flatmap(
        lambda version: st.binary(max_size=80).map(value(version)[:2].__add__)
    )
)
def test_random_bytes_are_malformed_or_read_but_never_crash(raw: bytes) -> None:
    with contextlib.suppress(WireError, UnknownVersion):
        classic_group.decode(raw)


@given(st.integers(0, 4), st.data())
def test_a_damaged_record_never_crashes_and_a_cut_one_is_malformed(
    version: int, data: st.DataObject
) -> None:
    raw = value(version)
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(WireError):
        classic_group.decode(raw[:cut])
    changed = bytearray(raw)
    changed[cut] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError, UnknownVersion):
        classic_group.decode(bytes(changed))


def test_a_huge_array_length_takes_no_memory() -> None:
    with pytest.raises(WireError, match="an array of 2147483647"):
        classic_group.decode(
            struct.pack(">h", 0)
            + string("consumer")
            + struct.pack(">i", 1)
            + string("p") * 2
            + b"\x7f\xff\xff\xff"
        )
