"""Encoded documents: the JSON of large documents, made once for all who ask, in small pieces.

The encoder holds Python's global lock while it runs, and the planner and the event loop wait for it
meanwhile. So a large document is encoded list by list, and the threads take turns between two.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

MOST_DOCUMENTS = 32
"""Documents that are kept; the one that was asked for longest ago goes first."""
DEPTH = 4
"""Levels of objects and lists that are encoded by themselves: group, topics, topic, columns."""


class EncodedDocuments:
    """The bytes of documents as long as nothing changed; one thread calls all methods."""

    def __init__(self, most: int = MOST_DOCUMENTS) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, tuple[Hashable, bytes]] = OrderedDict()

    def known(self, name: Hashable, state: Hashable) -> bytes | None:
        """Return the JSON of a document; None where that of this state is not kept.

        Args:
            name: the name of the document.
            state: equal as long as the document is.
        """
        known = self._known.get(name)
        if known is None or known[0] != state:
            return None
        self._known.move_to_end(name)
        return known[1]

    def keep(self, name: Hashable, state: Hashable, body: bytes) -> None:
        """Keep the JSON of a document in place of that of another state."""
        self._known[name] = state, body
        self._known.move_to_end(name)
        if len(self._known) > self._most:
            self._known.popitem(last=False)


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


def encoded_bytes(value: object) -> bytes:
    """Return a value as the bytes of JSON; see `encoded`."""
    return encoded(value).encode()
