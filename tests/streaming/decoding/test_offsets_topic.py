"""The columnar decode of `__consumer_offsets`, against real records and a naive twin."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import levelwind_testing.pipeline.offsets_reference_codec as twin
from levelwind.streaming.decoding import consumer_group, offset_commits, offsets_topic
from levelwind.streaming.decoding.offsets_topic import DecodedBatch
from levelwind_testing.pipeline.offsets_reference_codec import (
    Golden,
    commit_key,
    commit_value,
    group_key,
    string,
)

Record = tuple[bytes | None, bytes | None]

TOPIC_ID = bytes.fromhex("3980" + "5e79650d4658a0851a703a4c1220")


def decode(records: Sequence[Record]) -> DecodedBatch:
    keys, values = ([record[side] for record in records] for side in (0, 1))
    return offsets_topic.decode(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def commits(decoded: DecodedBatch) -> dict[int, tuple[Any, ...]]:
    """By row: group, topic, partition, and offset, time and topic id, as the twin says them."""
    columns = decoded.commits
    read = {}
    for entry, row in enumerate(columns.row.tolist()):
        index = int(columns.topic_id[entry])
        read[row] = (
            columns.groups[columns.group[entry]],
            columns.topics[columns.topic[entry]],
            int(columns.partition[entry]),
            *(
                ("tombstone",)
                if columns.offset[entry] == offset_commits.TOMBSTONE
                else (
                    "commit",
                    int(columns.offset[entry]),
                    int(columns.at[entry]),
                    columns.topic_ids[index] if index >= 0 else None,
                )
            ),
        )
    return read


def one(golden: Mapping[str, Golden], name: str) -> DecodedBatch:
    return decode([(golden[name].key, golden[name].value)])


def test_a_commit_of_version_4_carries_the_topic_id(golden: Mapping[str, Golden]) -> None:
    read = commits(one(golden, "commit_v4_with_topic_id"))
    assert read == {0: ("golden-assign", "golden", 1, "commit", 5, 1795230657759, TOPIC_ID)}


def test_a_commit_with_metadata_is_read_past_it(golden: Mapping[str, Golden]) -> None:
    read = commits(one(golden, "commit_v4_with_topic_id_and_metadata"))
    assert read == {0: ("golden-assign", "golden", 0, "commit", 7, 1795230657472, TOPIC_ID)}


def test_a_transactional_commit_carries_no_topic_id(golden: Mapping[str, Golden]) -> None:
    read = commits(one(golden, "transactional_commit"))
    assert read == {0: ("golden-tx", "golden", 2, "commit", 4, 1795230659350, None)}


def test_a_deleted_offset_is_a_tombstone(golden: Mapping[str, Golden]) -> None:
    assert commits(one(golden, "offset_tombstone")) == {
        0: ("golden-assign", "golden", 0, "tombstone")
    }


@pytest.mark.parametrize(
    "name",
    ["classic_group_with_two_members", "classic_group_without_members", "classic_group_tombstone"],
)
def test_classic_group_metadata_is_handed_on_by_group(
    golden: Mapping[str, Golden], name: str
) -> None:
    decoded = one(golden, name)
    group = "golden-assign" if name == "classic_group_tombstone" else "golden-classic"
    assert (decoded.memberships, decoded.rejected) == ({0: group}, {})


def test_members_of_kip_848_groups_are_handed_on_by_group_and_the_rest_of_it_is_counted(
    golden: Mapping[str, Golden],
) -> None:
    names = [
        name
        for name in golden
        if name.startswith("kip848") and "commit" not in name and "offset" not in name
    ]
    decoded = decode([(golden[name].key, golden[name].value) for name in names])
    handed_on = {names[row]: group for row, group in decoded.memberships.items()}
    assert handed_on == dict.fromkeys(
        (
            "kip848_group_epoch",
            "kip848_member",
            "kip848_current_assignment",
            "kip848_current_assignment_tombstone",
        ),
        "golden-848",
    )
    assert decoded.skipped == {
        "consumer group partitions": 1,
        "consumer group target epoch": 1,
        "consumer group target assignment": 1,
    }
    assert (decoded.rejected, commits(decoded)) == ({}, {})


SHARE_AND_STREAMS = sorted(offsets_topic.SKIPPED.keys() - set(consumer_group.KEYS))


def test_share_and_streams_groups_are_skipped_and_counted_by_kind() -> None:
    records: list[Record] = [
        (struct.pack(">h", version) + b"?", b"?") for version in SHARE_AND_STREAMS
    ] * 2
    decoded = decode(records)
    assert decoded.skipped == {offsets_topic.SKIPPED[version]: 2 for version in SHARE_AND_STREAMS}
    assert (decoded.rejected, decoded.memberships, commits(decoded)) == ({}, {}, {})
    assert len(SHARE_AND_STREAMS) == 15


def consumer_key(version: int, group: str, member: str | None = None) -> bytes:
    return struct.pack(">h", version) + string(group) + (b"" if member is None else string(member))


def test_commits_of_kip_848_groups_are_commits_like_any(golden: Mapping[str, Golden]) -> None:
    assert commits(one(golden, "kip848_commit"))[0][:2] == ("golden-848", "golden")
    assert commits(one(golden, "kip848_offset_tombstone")) == {
        0: ("golden-848", "golden", 2, "tombstone")
    }


@pytest.mark.parametrize("key_version", [0, 1])
@pytest.mark.parametrize("version", range(5))
def test_every_older_version_of_key_and_value_is_read(key_version: int, version: int) -> None:
    record = (commit_key("g", "töpic", 7, key_version), commit_value(12, 34, version, "x" * 200))
    assert commits(decode([record])) == {0: ("g", "töpic", 7, "commit", 12, 34, None)}


@pytest.mark.parametrize("offset", [-1, -5, -(2**63)])
def test_a_negative_offset_takes_the_commit_back(offset: int) -> None:
    record = (commit_key("g", "t", 0), commit_value(offset, 2))
    assert commits(decode([record])) == {0: ("g", "t", 0, "tombstone")}


def test_tagged_fields_of_a_newer_broker_are_passed_over() -> None:
    record = (commit_key("g", "t", 0), commit_value(1, 2, tags=((0, TOPIC_ID), (5, b"news"))))
    assert commits(decode([record])) == {0: ("g", "t", 0, "commit", 1, 2, TOPIC_ID)}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ((None, b"x"), "no key"),
        ((b"", None), "malformed key"),
        ((b"\x00", None), "malformed key"),
        ((b"\x00\x01garbage", b"zz"), "malformed key"),
        ((commit_key("g", "t", 0) + b"\x00", None), "malformed key"),
        ((commit_key("g", "t", -1), None), "malformed key"),
        ((commit_key("g", "t", 2**31 - 1), None), "malformed key"),
        ((b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00", None), "malformed key"),
        ((b"\x00\x19", None), "unknown key version"),
        ((consumer_key(3, "g") + b"\x00", None), "malformed key"),
        ((consumer_key(8, "g"), None), "malformed key"),
        ((consumer_key(5, "g", "m")[:-1], None), "malformed key"),
        ((consumer_key(8, "g", "m"), b"\x00\x00\x00"), "malformed group metadata"),
        ((consumer_key(8, "g", "m"), b"\x00\x01"), "unknown group metadata version"),
        ((consumer_key(7, "g", "m"), b"\x00\x00\x09"), "malformed group metadata"),
        ((b"\xff\xff", None), "unknown key version"),
        ((commit_key("g", "t", 0), b""), "malformed commit"),
        ((commit_key("g", "t", 0), commit_value(1, 2)[:-1]), "malformed commit"),
        ((commit_key("g", "t", 0), commit_value(1, 2, 3) + b"\x00"), "malformed commit"),
        ((commit_key("g", "t", 0), commit_value(1, 2, tags=((0, b"short"),))), "malformed commit"),
        ((commit_key("g", "t", 0), b"\x00\x05" + commit_value(1, 2)[2:]), "unknown commit version"),
        ((group_key("g"), b"\x00\x09"), "unknown group metadata version"),
        ((group_key("g"), b"\x00\x03\x00"), "malformed group metadata"),
    ],
)
def test_what_cannot_be_read_is_rejected_with_its_reason(record: Record, reason: str) -> None:
    decoded = decode([(commit_key("g", "t", 0), commit_value(1, 2)), record])
    assert decoded.rejected == {1: reason}
    assert reason in offsets_topic.REASONS
    assert list(commits(decoded)) == [0]


names = st.text(max_size=6)
tags = st.lists(
    st.one_of(st.just((0, TOPIC_ID)), st.tuples(st.integers(0, 300), st.binary(max_size=20))),
    max_size=3,
    unique_by=lambda tag: tag[0],
).map(tuple)
good_keys = st.builds(commit_key, names, names, st.integers(-1, 2**31 - 1), st.integers(0, 1))
good_values = st.builds(
    commit_value,
    st.integers(-1, 2**63 - 1),
    st.integers(-2, 2**53),
    st.integers(0, 4),
    st.text(max_size=200),
    tags,
)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    raw = bytearray(draw(whole))
    if raw and draw(st.booleans()):
        del raw[draw(st.integers(0, len(raw))) :]
    if raw and draw(st.booleans()):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        raw += draw(st.binary(max_size=20))
    return bytes(raw)


keys = st.one_of(st.none(), st.binary(max_size=30), good_keys, damaged(good_keys))
values = st.one_of(st.none(), st.binary(max_size=40), good_values, damaged(good_values))


@given(st.lists(st.tuples(keys, values), max_size=12), st.integers(0, 3))
@example([(commit_key("g", "t", 0), commit_value(1, 2)), (commit_key("g", "t", 0), None)], 1)
def test_the_columnar_decode_says_what_the_naive_twin_says(records: list[Record], cut: int) -> None:
    expected_commits, expected_rejected, others = {}, {}, 0
    records = records[cut:]
    for row, (key, value) in enumerate(records):
        match twin.key(key):
            case ("rejected", reason):
                expected_rejected[row] = reason
            case ("commit", group, topic, partition):
                match twin.commit(value):
                    case ("rejected", reason):
                        expected_rejected[row] = reason
                    case said:
                        expected_commits[row] = (group, topic, partition, *said)
            case _:
                others += 1  # a group's own record: read elsewhere
    decoded = decode(records)
    assert commits(decoded) == expected_commits
    reasons = {row: why for row, why in decoded.rejected.items() if "group metadata" not in why}
    assert reasons == expected_rejected
    counted = (
        len(decoded.memberships)
        + sum(decoded.skipped.values())
        + len(decoded.rejected)
        - len(reasons)
    )
    assert counted == others


@given(st.lists(st.tuples(keys, values), min_size=3, max_size=8))
def test_a_slice_of_an_array_is_read_as_a_slice(records: list[Record]) -> None:
    whole_keys = pa.array([key for key, _ in records], pa.binary())
    whole_values = pa.array([value for _, value in records], pa.large_binary())
    decoded = offsets_topic.decode(whole_keys[1:-1], whole_values[1:-1])
    assert commits(decoded) == commits(decode(records[1:-1]))
    assert decoded.rejected == decode(records[1:-1]).rejected
