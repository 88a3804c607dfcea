from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from levelwind.streaming.messages import packing
from levelwind.streaming.messages.packing import (
    PackingError,
    pack,
    pack_alike,
    unpack,
    unpack_alike,
)

metas = st.dictionaries(
    st.text(max_size=5), st.integers(-(2**53), 2**53) | st.text(max_size=5) | st.none(), max_size=3
)
SPANS = (0, 1, 2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**64 - 1)
"""Differences between the least and the greatest number, about those where the type changes."""


@st.composite
def narrow_arrays(draw: st.DrawFn) -> np.ndarray:
    """Whole numbers that lie close together, with the least and the greatest of their range."""
    dtype = draw(st.sampled_from(["<i4", "<i8"]))
    limits = np.iinfo(dtype)
    span = draw(st.sampled_from(SPANS))
    low = draw(st.integers(int(limits.min), int(limits.max)))
    low = max(min(low, int(limits.max) - span), int(limits.min))
    high = min(low + span, int(limits.max))
    between = draw(st.lists(st.integers(low, high), max_size=30))
    return np.array([low, high, *between, *[high] * 16], dtype)


arrays = st.dictionaries(
    st.text(max_size=5),
    st.sampled_from(["|b1", "|u1", "<i4", "<i8", "<f8"]).flatmap(
        lambda dtype: hnp.arrays(dtype, st.integers(0, 40))
    )
    | narrow_arrays(),
    max_size=4,
)


@given(metas, arrays)
def test_what_is_packed_is_unpacked(
    meta: dict[str, object], columns: dict[str, np.ndarray]
) -> None:
    read, found = unpack(pack(meta, columns))
    assert read == meta
    assert list(found) == list(columns)
    for name, column in columns.items():
        assert found[name].dtype == column.dtype
        assert found[name].tobytes() == column.tobytes()


@given(metas, arrays, st.data())
def test_a_cut_or_lengthened_value_is_refused(
    meta: dict[str, object], columns: dict[str, np.ndarray], data: st.DataObject
) -> None:
    value = pack(meta, columns)
    with pytest.raises(PackingError):
        unpack(value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(PackingError):
        unpack(value + b"\x00")


def test_another_version_is_refused() -> None:
    with pytest.raises(PackingError, match="version 5"):
        unpack(b"\x05" + pack({}, {})[1:])


def test_object_arrays_cannot_be_smuggled_in() -> None:
    value = pack({}, {"x": np.zeros(1, np.int64)}).replace(b"<i8", b"|O8")
    with pytest.raises(PackingError):
        unpack(value)


@pytest.mark.parametrize(
    ("spread", "width"), [(0, 0), (200, 1), (60_000, 2), (4_000_000_000, 4), (2**40, 8)]
)
def test_numbers_that_lie_close_together_take_few_bytes(
    spread: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_COMPRESSED", 0)
    numbers = 10**15 + np.linspace(0, spread, 10_000).astype(np.int64)
    assert len(pack({}, {"x": numbers})) == pytest.approx(10_000 * width, abs=60)


@pytest.mark.parametrize("dense", [False, True])
def test_longer_content_is_compressed(*, dense: bool) -> None:
    columns = {"x": np.tile(np.arange(1000) ** 3, 100), "y": np.zeros(3, np.float64)}
    value = pack({"a": 1}, columns, dense=dense)
    assert len(value) < columns["x"].nbytes / 20
    meta, found = unpack(value)
    assert meta == {"a": 1}
    assert all((found[name] == column).all() for name, column in columns.items())
    assert not any(column.flags.writeable for column in found.values())


@pytest.mark.parametrize("dense", [False, True])
@given(data=st.data())
def test_damaged_content_gives_an_error_or_other_numbers(
    *, dense: bool, data: st.DataObject
) -> None:
    value = bytearray(pack({}, {"x": np.arange(20_000) ** 3}, dense=dense))
    index = data.draw(st.integers(0, len(value) - 1))
    value[index] ^= data.draw(st.integers(1, 255))
    with suppress(PackingError):
        unpack(bytes(value))


@pytest.mark.parametrize(
    ("numbers", "written", "damaged"),
    [
        (np.arange(100), b'"|u1"', b'"|u3"'),
        (np.zeros(10**7, np.int64), b"10000000", b"99999999"),
        (np.arange(100), b"100", b"-10"),
    ],
    ids=["of no such type", "more numbers than bytes could tell", "fewer than none"],
)
def test_a_damaged_narrower_type_is_refused(
    numbers: np.ndarray, written: bytes, damaged: bytes
) -> None:
    value = pack({}, {"x": numbers})
    assert written in value
    with pytest.raises(PackingError):
        unpack(value.replace(written, damaged))


@given(
    shapes=st.lists(st.sampled_from([(0, 3), (5, 3), (70, 64), (4096, 1)]), max_size=12),
    seed=st.integers(0, 2**16),
)
def test_values_that_are_alike_unpack_together_as_alone(
    shapes: list[tuple[int, int]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    values = []
    for number, (long, short) in enumerate(shapes):
        span = int(random.choice([1, 200, 2**12, 2**20, 2**40]))
        wide = random.integers(-span, span, long, np.int64)
        narrow = random.integers(-5, 5, short).astype(np.int32)
        same = np.full(long, random.integers(9), np.int64)
        texts = np.frombuffer(b"x" * (number % 3), np.uint8)
        arrays = {"wide": wide, "narrow": narrow, "same": same, "texts": texts}
        values.append(pack({"number": number}, {**arrays, "mask": wide > 0}))
    unpacked = {}
    for indices, metas, matrices in unpack_alike(values):
        for row, (index, meta) in enumerate(zip(indices, metas, strict=True)):
            unpacked[index] = meta, {name: matrix[row] for name, matrix in matrices.items()}
    assert unpacked.keys() == set(range(len(values)))
    for index, value in enumerate(values):
        (meta, arrays), (alone_meta, alone) = unpacked[index], unpack(value)
        assert meta == alone_meta
        assert arrays.keys() == alone.keys()
        for name, array in alone.items():
            assert arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(arrays[name], array)


@given(
    spans=st.lists(st.sampled_from([1, 2, 200, 2**12, 2**20, 2**40]), min_size=1, max_size=8),
    size=st.sampled_from([0, 1, 63, 64, 700]),
    seed=st.integers(0, 2**16),
)
def test_values_that_are_alike_are_packed_together_as_alone(
    spans: list[int], size: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    span = np.array(spans)[:, None]
    matrices = {
        "wide": random.integers(-span, span, (len(spans), size)),
        "narrow": random.integers(-9, np.minimum(span, 2**20), (len(spans), size)).astype("<i4"),
        "texts": np.full((len(spans), size % 7), 120, np.uint8),
        "masks": random.integers(0, 2, (size, len(spans))).astype(np.bool_).T,
        "seconds": random.random((len(spans), 3)),
    }
    metas = [{"number": number, "span": span} for number, span in enumerate(spans)]
    alone = [
        pack(meta, {name: matrix[row] for name, matrix in matrices.items()}, dense=True)
        for row, meta in enumerate(metas)
    ]
    assert pack_alike(metas, matrices, dense=True) == alone
