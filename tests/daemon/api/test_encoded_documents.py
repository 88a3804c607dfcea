"""Encoded documents: the same JSON as in one piece, made once as long as nothing changed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.api.views.encoded_documents import EncodedDocuments, encoded

LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
VALUES = st.recursive(
    LEAVES.filter(lambda leaf: leaf not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(VALUES)
def test_the_json_is_that_of_the_whole(value):
    assert json.loads(encoded(value)) == value


def test_a_number_that_json_has_not_is_no_document():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoded({"a": [{"b": [float("nan")]}]})


def test_the_bytes_of_a_state_are_kept_and_the_oldest_go_first():
    documents = EncodedDocuments(most=2)
    assert documents.known("g", 1) is None
    documents.keep("g", 1, b"{}")
    assert documents.known("g", 1) == b"{}"
    assert documents.known("g", 2) is None
    for name in ("h", "g", "i"):
        documents.keep(name, 2, name.encode())
    assert [documents.known(name, 2) for name in ("g", "h", "i")] == [b"g", None, b"i"]
