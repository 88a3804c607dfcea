"""Encoded documents: the JSON of large documents, made once for all who ask, in small pieces.

The encoder holds Python's global lock while it runs, and the planner and the event loop wait for it
meanwhile. So a large document is encoded list by list, and the threads take turns between two.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MOST_DOCUMENTS = 32
"""Documents that are kept; the one that was asked for longest ago goes first."""
DEPTH = 4
"""Levels of objects and lists that are encoded by themselves: group, topics, topic, columns."""


class EncodedDocuments:
    """The bytes of documents as long as nothing changed; the event loop's thread calls all."""

    def __init__(self, most: int = MOST_DOCUMENTS) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, tuple[Hashable, asyncio.Task[bytes]]] = OrderedDict()

    async def body(self, name: Hashable, state: Hashable, make: Callable[[], object]) -> bytes:
        """Return the JSON of a document, which another thread encodes once for all who ask.

        Args:
            name: the name of the document.
            state: equal as long as the document is.
            make: makes the document; called at once and by this thread, if at all.

        Raises:
            ValueError: a number is none that JSON has; the next one to ask makes the document anew.
        """
        known = self._known.get(name)
        if known is None or known[0] != state:
            known = state, asyncio.create_task(run_in_threadpool(encoded_bytes, make()))
            known[1].add_done_callback(lambda task: self._forget_failed(name, task))
            self._known[name] = known
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        # A reader that leaves takes the document from nobody who waits with it.
        return await asyncio.shield(known[1])

    def _forget_failed(self, name: Hashable, task: asyncio.Task[bytes]) -> None:
        if task.cancelled() or task.exception() is not None:
            known = self._known.get(name)
            if known is not None and known[1] is task:
                del self._known[name]


def encoded(value: object, depth: int = DEPTH) -> str:
    """Return a value as JSON.

    Raises:
        ValueError: a number is none that JSON has.
    """
    if depth and isinstance(value, dict):
        pieces = (
            f"{json.dumps(name)}:{encoded(inner, depth - 1)}" for name, inner in value.items()
        )
        return f"{{{','.join(pieces)}}}"
    if depth and isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{','.join(encoded(inner, depth - 1) for inner in value)}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


async def json_answer(make: Callable[[], object], depth: int = DEPTH) -> Response:
    """Return the JSON of a document that another thread makes and encodes, from snapshots alone."""
    return json_response(await run_in_threadpool(lambda: encoded_bytes(make(), depth)))


def json_response(body: bytes) -> Response:
    """Return an answer whose body is JSON already."""
    return Response(body, media_type="application/json")


def encoded_bytes(value: object, depth: int = DEPTH) -> bytes:
    """Return a value as the bytes of JSON; see `encoded`."""
    return encoded(value, depth).encode()
