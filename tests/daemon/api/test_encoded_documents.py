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


def test_a_document_is_made_once_for_a_state():
    documents, made = EncodedDocuments(most=2), []
    for state in (1, 1, 2, 2):
        assert documents.get("g", state, lambda: made.append(1) or {"n": len(made)})
    assert len(made) == 2
    for name in ("h", "i", "g"):
        documents.get(name, 2, lambda: made.append(1) or {})
    assert len(made) == 5  # the first one had gone
