import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streaming.messages.packing import PackingError, pack, unpack

metas = st.dictionaries(
    st.text(max_size=5), st.integers(-(2**53), 2**53) | st.text(max_size=5) | st.none(), max_size=3
)
arrays = st.dictionaries(
    st.text(max_size=5),
    st.sampled_from(["|b1", "|u1", "<i4", "<i8", "<f8"]).flatmap(
        lambda dtype: hnp.arrays(dtype, st.integers(0, 9))
    ),
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
    with pytest.raises(PackingError, match="version 3"):
        unpack(b"\x03" + pack({}, {})[1:])


def test_object_arrays_cannot_be_smuggled_in() -> None:
    value = pack({}, {"x": np.zeros(1, np.int64)}).replace(b"<i8", b"|O8")
    with pytest.raises(PackingError):
        unpack(value)
