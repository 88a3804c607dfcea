"""The columns of lag records are what `LagRecord` writes, to the byte."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from msgspec.structs import replace

from levelwind.assignors.protocol.records import LagRecord, encode
from levelwind.streaming.messages import lag_json

shapes = st.tuples(st.integers(1, 4), st.integers(0, 5))
large_shapes = st.tuples(st.integers(4, 6), st.integers(lag_json.LEAST_FOR_ARROW // 4, 70))
"""Shapes of matrices that become text in Arrow."""
numbers = shapes.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(-1, 2**62)))
known = st.integers(0, 2**50).map(lambda hundredths: hundredths / 100) | st.sampled_from(
    [0.0, 1.0, 100.0, 0.05]
)
decimals = shapes.flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=known | st.just(float("nan")))
)


few_decimals = st.integers(0, 10**12).map(lambda hundredths: hundredths / 100)
large_numbers = large_shapes.flatmap(
    lambda shape: hnp.arrays(
        np.int64, shape, elements=st.integers(-(2**63), 2**63 - 1), fill=st.integers(-1, 10)
    )
)
large_decimals = large_shapes.flatmap(
    lambda shape: hnp.arrays(
        np.float64,
        shape,
        elements=few_decimals | known | st.floats(0.001, 1e12),
        fill=few_decimals | st.just(float("nan")),
    )
)


def record(size: int, **columns: object) -> LagRecord:
    none = (0,) * size
    values = (
        dict.fromkeys(("committed", "committed_at", "begin", "end", "lag", "lost"), none) | columns
    )
    return LagRecord(
        group="g",
        topic="t",
        at=1,
        id="i",
        end_kind="stable",
        stale=(),
        source={},
        **({"racks": ((),) * size} | values),
    )


def field(written: LagRecord, name: str) -> str | None:
    value = json.loads(encode(written)[1])
    return lag_json.text(value[name]) if name in value else None


@given(numbers | large_numbers)
def test_rows_of_integers_are_written_as_the_record_writes_them(matrix: np.ndarray) -> None:
    for row, written in zip(matrix.tolist(), lag_json.integers(matrix), strict=True):
        assert written == field(record(len(row), committed=tuple(row)), "committed")


@given(decimals | large_decimals)
def test_rows_of_figures_are_written_as_the_record_writes_them(matrix: np.ndarray) -> None:
    for row, written in zip(matrix, lag_json.decimals(matrix), strict=True):
        values = (
            None
            if np.isnan(row).all()
            else tuple(None if np.isnan(value) else value for value in row.tolist())
        )
        assert written == field(record(row.size, rate=values), "rate")


@pytest.mark.parametrize("most", [10**4, lag_json.MAX_HUNDREDTHS, 10**17])
def test_many_figures_are_written_as_python_writes_them(most: int) -> None:
    figures = np.random.default_rng(7).integers(0, most, (40, 500)) / 100
    for row, written in zip(figures.tolist(), lag_json.decimals(figures), strict=True):
        assert written == lag_json.text([int(x) if x == int(x) and x < 1e16 else x for x in row])


@given(shapes.flatmap(lambda shape: hnp.arrays(np.bool_, shape)))
def test_places_are_those_that_are_set(mask: np.ndarray) -> None:
    assert [json.loads(row) for row in lag_json.set_indices(mask).to_pylist()] == [
        np.flatnonzero(row).tolist() for row in mask
    ]


@pytest.mark.parametrize("every_field", [True, False])
def test_a_record_is_joined_of_its_fields_in_their_order(*, every_field: bool) -> None:
    optional = {
        "rate": (1.5, None),
        "velocity": (None, 2.0),
        "seconds": (0.0, 3.5),
        "seconds_lower_bound": (1,),
        "end_read_at": (1, 2),
        "data_end": (-1, 9),
        "members": ("ü", "b"),
        "member_racks": ("a", None),
        "owner": (0, -1),
        "others": ("c", "d"),
        "other_racks": (None, "ü"),
        "non_readers": ("c", "b"),
        "local": (True, None),
        "lag_upper_bound": (1,),
        "reset": (0,),
        "unclaimed": (-1, 9),
    }
    whole = replace(
        record(2, racks=(("a", "b"), ())), source={"x/0": 1}, **optional if every_field else {}
    )
    value = json.loads(encode(whole)[1])

    def named(*names: str) -> str:
        return lag_json.fields(
            *((name, lag_json.text(value[name]) if name in value else None) for name in names)
        )

    shared = lag_json.SharedFields(
        named("at", "begin"),
        named("data_end", "end", "end_kind", "end_read_at", "id"),
        named("racks", "rate"),
        named("v"),
        lag_json.text(value["racks"]),
    )
    own = lag_json.OwnFields(
        named("committed", "committed_at"),
        named("lag", "lag_upper_bound"),
        named("lost"),
        named("reset", "seconds", "seconds_lower_bound", "source", "stale", "unclaimed"),
        named("velocity"),
    )
    of_members = ("member_racks", "members", "non_readers", "other_racks", "others", "owner")
    written = lag_json.record_text(shared, own, named("local"), named(*of_members))
    if every_field:
        owners = lag_json.owner_fields(
            [("ü", "a"), ("b", None)], np.array([0, -1]), [("c", None), ("d", "ü")], ["c", "b"]
        )
        assert owners == named(*of_members)
    assert written.encode() == encode(whole)[1]
