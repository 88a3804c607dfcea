"""Canonical JSON of any document, and short forms of it for people.

Written JSON has sorted keys, no white space, UTF-8 and no NaN. A text that was read can be written
again, and input that is too deep is only refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

import msgspec

from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

Document = TypeVar("Document")

MAX_INT64 = 2**63 - 1
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970: no record has a later time."""
SHOWN_CHARACTERS = 40
"""Number of characters of a refused value that a reason repeats."""

_canonical = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
"""The text; made once, since making an encoder takes longer than encoding a key."""


def dumps(document: object) -> bytes:
    """The bytes of a decision's body; raises `WireError` for what JSON cannot express, as NaN.

    Not by `declared.declaration.canonical`, which writes a number as 0.00001 where this writes
    1e-05: the ids of decisions and the digests in them rest on these bytes.
    """
    try:
        return _canonical(document).encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise WireError(f"cannot be written: {error}") from error


def loads(
    raw: bytes | msgspec.Raw, decode: Callable[[str], Document] = msgspec.json.decode
) -> Document:
    """What `decode` makes of the JSON in `raw`, a document; raises `WireError` if it is not one."""
    try:
        return decode(str(raw, "utf-8"))
    except RecursionError:
        raise WireError("not readable: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"not JSON: {brief(str(error))}") from None


def brief(text: str) -> str:
    """A text that is short enough to be logged."""
    # Reasons are logged and stored, so the repeated text must be short and encodable.
    shown = text if len(text) <= 2 * SHOWN_CHARACTERS else text[: 2 * SHOWN_CHARACTERS] + "…"
    return shown.encode(errors="replace").decode()


def show(value: object) -> str:
    """A short description of a refused value, safe to log."""
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > MAX_INT64:
        return "an integer of more than 64 bits"
    return brief(repr(value)[:SHOWN_CHARACTERS])
