"""Encoded documents: the same JSON as in one piece, made once as long as nothing changed."""

import asyncio
import json
import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.api.views.encoded_documents import EncodedDocuments, encoded
from levelwind_testing.waiting import GENEROUS_SECONDS

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


class Maker:
    """Makes a document of each state, and counts how often."""

    def __init__(self, documents):
        self._documents = documents
        self.made = []

    def body(self, name, state, document=None):
        def make():
            self.made.append((name, state))
            return {"state": state} if document is None else document

        return self._documents.body(name, state, make)


class Waiting(dict):
    """A document whose encoding waits until the test lets it go on."""

    def __init__(self, **fields):
        super().__init__(fields)
        self.begun, self.finish = threading.Event(), threading.Event()

    def items(self):
        self.begun.set()
        assert self.finish.wait(GENEROUS_SECONDS)
        return super().items()


def test_the_bytes_of_a_state_are_kept_and_the_oldest_go_first():
    maker = Maker(EncodedDocuments(most=2))

    async def ask():
        assert await maker.body("g", 1) == await maker.body("g", 1) == b'{"state":1}'
        assert await maker.body("g", 2) == b'{"state":2}'
        for name in ("h", "g", "i", "g", "h"):
            await maker.body(name, 2)

    asyncio.run(ask())
    assert maker.made == [("g", 1), ("g", 2), ("h", 2), ("i", 2), ("h", 2)]


def test_readers_who_ask_at_the_same_time_share_one_encoding():
    maker = Maker(EncodedDocuments())
    waiting = Waiting(a=1)

    async def ask():
        readers = [asyncio.create_task(maker.body("g", 1, waiting)) for _ in range(20)]
        await asyncio.to_thread(waiting.begun.wait, GENEROUS_SECONDS)
        waiting.finish.set()
        return await asyncio.gather(*readers)

    assert asyncio.run(ask()) == [b'{"a":1}'] * 20
    assert maker.made == [("g", 1)]


def test_a_first_reader_that_leaves_takes_the_document_from_nobody():
    maker = Maker(EncodedDocuments())
    waiting = Waiting(a=1)

    async def ask():
        first, second = (asyncio.create_task(maker.body("g", 1, waiting)) for _ in range(2))
        await asyncio.to_thread(waiting.begun.wait, GENEROUS_SECONDS)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        waiting.finish.set()
        assert await second == await maker.body("g", 1) == b'{"a":1}'

    asyncio.run(ask())
    assert maker.made == [("g", 1)]


def test_all_who_wait_learn_of_an_error_and_the_next_one_makes_the_document_anew():
    maker = Maker(EncodedDocuments())
    waiting = Waiting(a=math.nan)

    async def ask():
        readers = [asyncio.create_task(maker.body("g", 1, waiting)) for _ in range(3)]
        await asyncio.to_thread(waiting.begun.wait, GENEROUS_SECONDS)
        waiting.finish.set()
        errors = await asyncio.gather(*readers, return_exceptions=True)
        assert [type(error) for error in errors] == [ValueError] * 3
        assert await maker.body("g", 1) == b'{"state":1}'

    asyncio.run(ask())
    assert maker.made == [("g", 1)] * 2
