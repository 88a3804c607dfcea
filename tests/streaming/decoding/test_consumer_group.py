"""Decoding of group records: golden ones, those of the coordinator's classes, and damaged ones."""

import contextlib
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.streaming.decoding import classic_group, consumer_group
from levelwind.streaming.decoding.consumer_group import (
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    TargetAssignment,
    TargetEpoch,
)
from levelwind.streaming.errors import UnknownVersion
from levelwind_testing.pipeline.group_records import (
    KINDS,
    Coordinator,
    Written,
    coordinator,
    expected,
    group_of,
    record,
)
from levelwind_testing.pipeline.offsets_reference_codec import Golden

RECORDS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "group_records.jsonl")
    .read_text()
    .splitlines()
]


@pytest.fixture(scope="module")
def classes() -> Iterator[Coordinator]:
    with coordinator() as classes:
        yield classes


def read(kind: int, value: bytes) -> Any:
    return classic_group.decode(value) if kind == 2 else consumer_group.decode_value(kind, value)


@pytest.mark.parametrize(
    "line", RECORDS, ids=lambda line: f"{KINDS[line['kind']][0]}-v{line['version']}"
)
def test_what_the_coordinators_classes_write_is_read(line: Mapping[str, Any]) -> None:
    key, value = line["says"]
    written = Written(kind=line["kind"], version=line["version"], key=key, value=value)
    assert read(written.kind, bytes.fromhex(line["value"])) == expected(written)
    if written.kind != 2:
        decoded_key = consumer_group.decode_key(bytes.fromhex(line["key"]))
        assert (decoded_key.version, decoded_key.group) == (written.kind, group_of(written))
        assert [decoded_key.name] == [
            *[name for field, name in key.items() if field != "groupId"],
            None,
        ][:1]


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_any_record_of_the_coordinators_classes_is_read(classes: Coordinator, kind: int) -> None:
    rng = random.Random(kind)
    for version in KINDS[kind][2]:
        for _ in range(200):
            written = record(rng, kind, version)
            key, value = classes.encode(written)
            assert read(kind, value) == expected(written)
            if kind != 2:
                assert consumer_group.decode_key(key).group == group_of(written)


def test_what_real_brokers_wrote_is_read(golden: Mapping[str, Golden]) -> None:
    def decoded(name: str) -> Any:
        key = consumer_group.decode_key(golden[name].key)
        assert key.group == "golden-848"
        return consumer_group.decode_value(key.version, golden[name].value or b"")

    assert decoded("kip848_group_epoch") == GroupEpoch(epoch=2)
    assert decoded("kip848_target_epoch") == TargetEpoch(epoch=2)
    assert decoded("kip848_member") == MemberMetadata(
        instance_id=None,
        rack="c",
        client_id="k1",
        topics=("golden",),
        regex=None,
        assignor=None,
        protocols=None,
    )
    (topic,) = (target := decoded("kip848_target_of_a_member")).partitions
    assert target == TargetAssignment(partitions={topic: (0, 1, 2)})
    assert decoded("kip848_current_assignment") == CurrentAssignment(
        epoch=2, state=0, assigned={topic: (0, 1, 2)}, revoking={}
    )
    assert len(topic) == 22


def test_a_member_owns_what_it_has_yet_to_give_up() -> None:
    current = CurrentAssignment(
        epoch=1, state=1, assigned={"t": (0, 2)}, revoking={"t": (1,), "u": (5,)}
    )
    assert current.owned == {"t": (0, 1, 2), "u": (5,)}


def test_a_newer_version_is_told_apart_from_garbage() -> None:
    with pytest.raises(UnknownVersion):
        consumer_group.decode_value(8, b"\x00\x01anything")
    with pytest.raises(WireError):
        consumer_group.decode_value(8, b"\x00\x00anything")


@given(st.sampled_from([line for line in RECORDS if line["kind"] != 2]), st.data())
def test_a_cut_record_is_malformed_and_a_damaged_one_never_crashes(
    line: Mapping[str, Any], data: st.DataObject
) -> None:
    raw = bytes.fromhex(line["value"])
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(WireError):
        consumer_group.decode_value(line["kind"], raw[:cut])
    changed = bytearray(raw)
    changed[cut] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError, UnknownVersion):
        consumer_group.decode_value(line["kind"], bytes(changed))
    key = bytes.fromhex(line["key"])
    with contextlib.suppress(WireError):
        consumer_group.decode_key(key[: cut % len(key)])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != 2])
def test_a_huge_length_takes_no_memory(kind: int) -> None:
    with pytest.raises(WireError):
        consumer_group.decode_value(kind, b"\x00\x00" + b"\xff\xff\xff\xff\x07" * 3)
