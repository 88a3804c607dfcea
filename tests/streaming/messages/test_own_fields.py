"""The fields and records of many groups are what each group alone would be written as."""

import numpy as np
import pyarrow as pa
import pytest

from levelwind.streaming.messages import lag_json, packing
from levelwind.streaming.messages.lag_json import Claim, OwnFields, SharedFields
from levelwind.streaming.messages.own_fields import OwnColumns, own_columns


def matrices(groups: int, partitions: int, seed: int) -> dict[str, np.ndarray]:
    """Columns of some groups: every third group has something of each optional field."""
    random = np.random.default_rng(seed)
    shape = (groups, partitions)
    numbers = {
        name: random.integers(-1, 10**12, shape) for name in ("committed", "committed_at", "lag")
    }
    every_third = (np.arange(groups) % 3 == 0)[:, None]
    masks = {
        name: (random.random(shape) < 0.5) & every_third
        for name in ("lag_upper_bound", "reset", "seconds_lower_bound", "stale", "uncommitted")
    }
    figures = {
        name: np.where(random.random(shape) < 0.3, np.nan, random.integers(0, 10**5, shape) / 100)
        for name in ("seconds", "velocity")
    }
    figures["velocity"][: groups // 2] = np.nan
    return {**numbers, "lost": np.zeros(shape, np.int64), **masks, **figures}


def alone(columns: dict[str, np.ndarray], group: int, source: str) -> OwnFields:
    """The fields of one group, joined one by one."""
    row = {name: column[[group]] for name, column in columns.items()}

    def lists(name: str) -> str:
        return lag_json.integers(row[name])[0]

    def indices(name: str) -> str | None:
        return lag_json.set_indices(row[name])[0].as_py() if row[name].any() else None

    def figures(name: str) -> str | None:
        return lag_json.decimals(row[name])[0]

    return OwnFields(
        lag_json.fields(("committed", lists("committed")), ("committed_at", lists("committed_at"))),
        lag_json.fields(("lag", lists("lag")), ("lag_upper_bound", indices("lag_upper_bound"))),
        lag_json.fields(("lost", lists("lost"))),
        lag_json.fields(
            ("reset", indices("reset")),
            ("seconds", figures("seconds")),
            ("seconds_lower_bound", indices("seconds_lower_bound")),
            ("source", source),
            ("stale", indices("stale") or "[]"),
        ),
        lag_json.fields(("velocity", figures("velocity"))),
        indices("uncommitted") or "",
    )


def sliced(columns: OwnColumns, first: int, size: int) -> OwnColumns:
    """Columns that are slices of others: their texts do not begin with the first byte."""
    return OwnColumns(
        size,
        tuple(
            column if isinstance(column, str) else column.slice(first, size)
            for column in columns.columns
        ),
    )


def unpacked(columns: OwnColumns) -> list[OwnFields]:
    """The fields of each group, after the way from one operator to the other."""
    same, arrays = columns.pack()
    read = OwnColumns.unpack(columns.size, same, packing.unpack(packing.pack({}, arrays))[1])
    return [read.row(index) for index in range(columns.size)]


@pytest.mark.parametrize(
    ("groups", "partitions"), [(1, 1), (2, 3), (7, 5), (90, 7), (5, 0), (9, 70)]
)
def test_the_fields_of_many_groups_are_those_of_each(groups: int, partitions: int) -> None:
    columns = matrices(groups, partitions, seed=groups)
    sources = [f'{{"offsets/ü":{group}}}' for group in range(groups)]
    own = own_columns(source=pa.array(sources), **columns)
    assert unpacked(own) == [alone(columns, group, sources[group]) for group in range(groups)]


def test_the_fields_of_some_groups_are_taken_in_their_order() -> None:
    own = own_columns(source=pa.array(["{}"] * 20), **matrices(20, 4, seed=3))
    whole = unpacked(own)
    assert unpacked(own.take(np.array([4, 2, 17]))) == [whole[4], whole[2], whole[17]]
    assert unpacked(own.take(np.arange(20))) == whole
    assert unpacked(own.take(np.arange(0))) == []
    assert unpacked(sliced(own, 5, 3)) == whole[5:8]
    assert unpacked(sliced(own, 5, 0)) == []


@pytest.mark.parametrize("partitions", [1, 5])
def test_the_records_of_many_groups_are_those_of_each(partitions: int) -> None:
    columns = matrices(30, partitions, seed=5)
    own = own_columns(source="{}", **columns)
    shared = SharedFields(*[f',"{name}":[]' for name in SharedFields._fields])
    owner = np.arange(partitions) % 3 - 1
    members = ["", lag_json.owner_fields([("ü", "a"), ("b", None)], owner)] * 15
    local = ["", ',"local":[true]', ""] * 10
    claims = np.arange(30) % 7 % 3
    together = own.records(shared, pa.array(local), pa.array(members), claims)
    assert [value.decode() for value in together] == [
        lag_json.record_text(shared, fields, local[index], members[index], Claim(claims[index]))
        for index, fields in enumerate(unpacked(own))
    ]
    without_owners = own.records(shared, "", "", claims)
    assert [value.decode() for value in without_owners] == [
        lag_json.record_text(shared, fields, claim=Claim(claims[index]))
        for index, fields in enumerate(unpacked(own))
    ]


def test_groups_without_any_optional_field_share_their_texts() -> None:
    none = np.zeros((300, 3), np.bool_)
    zeros = np.zeros((300, 3), np.int64)
    own = own_columns(
        committed=zeros,
        committed_at=zeros,
        lag=zeros,
        lag_upper_bound=none,
        lost=zeros,
        reset=none,
        seconds=zeros.astype(np.float64),
        seconds_lower_bound=none,
        source="{}",
        stale=none,
        velocity=np.full((300, 3), np.nan),
        uncommitted=none,
    )
    assert set(unpacked(own)) == {
        OwnFields(
            ',"committed":[0,0,0],"committed_at":[0,0,0]',
            ',"lag":[0,0,0]',
            ',"lost":[0,0,0]',
            ',"seconds":[0,0,0],"source":{},"stale":[]',
            "",
        )
    }
    assert None not in own.pack()[0]
