"""Canonical JSON, and strict reading of its fields.

Written JSON has sorted keys, no white space, UTF-8 and no NaN. Guarantees: reading returns exactly
what the protocol allows, or raises `WireError`. A bool is not an integer, an integer fits 64 bits,
a text can be encoded again, and input that is too deep or too long is only refused.
"""

# ruff: noqa: D102 - a method for each type of field, named after it.

from __future__ import annotations

import json
import math
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from levelwind.assignors.problem.columns import MOST_FIGURE
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.partition_ranges import MAX_PARTITIONS, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import Partitions

MAX_INT64 = 2**63 - 1
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970: no record has a later time."""
SHOWN_CHARACTERS = 40
"""Number of characters of a refused value that a reason repeats."""

Choice = TypeVar("Choice", bound=str)
Item = TypeVar("Item")


_canonical = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
"""The text; made once, since making an encoder takes longer than encoding a key."""


def _refuse_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not JSON")


_parsed = json.JSONDecoder(parse_constant=_refuse_constant).decode


def dumps(document: object) -> bytes:
    """The canonical bytes of a document; raises `WireError` for what JSON cannot express."""
    try:
        return _canonical(document).encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise WireError(f"cannot be written: {error}") from error


def loads(raw: bytes) -> object:
    """The JSON document in `raw`; raises `WireError` if it is not one."""
    try:
        document = _parsed(raw.decode())
        if b"\\u" in raw:
            # A lone surrogate, which could never be written again, gets through only as an escape.
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise WireError("not readable: nested too deeply") from None
    except ValueError as error:
        raise WireError(f"not JSON: {_brief(str(error))}") from None
    return cast("object", document)


def _brief(text: str) -> str:
    # Reasons are logged and stored, so the repeated text must be short and encodable.
    shown = text if len(text) <= 2 * SHOWN_CHARACTERS else text[: 2 * SHOWN_CHARACTERS] + "…"
    return shown.encode(errors="replace").decode()


def show(value: object) -> str:
    """A short description of a refused value, safe to log."""
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > MAX_INT64:
        return "an integer of more than 64 bits"
    return _brief(repr(value)[:SHOWN_CHARACTERS])


class Fields:
    """Fields of one JSON object, read one by one by name and type.

    Each method raises `WireError` with the field's path when its value is missing or does not fit;
    `optional_*` methods return None for null.
    """

    __slots__ = ("_document", "_path")

    def __init__(self, document: object, path: str = "value") -> None:
        if not isinstance(document, dict):
            raise WireError(f"{path}: expected an object, got {show(document)}")
        self._document: dict[str, object] = document
        self._path = path

    def has(self, name: str) -> bool:
        """Whether the object has the field; older writers leave out fields that came later."""
        return name in self._document

    def _get(self, name: str) -> object:
        try:
            return self._document[name]
        except KeyError:
            raise WireError(f"{self._path}.{name}: missing") from None

    def _fail(self, name: str, expected: str, value: object) -> WireError:
        return WireError(f"{self._path}.{name}: expected {expected}, got {show(value)}")

    def text(self, name: str, *, empty: bool = False) -> str:
        value = self._get(name)
        if type(value) is not str or not (value or empty):
            raise self._fail(name, "a text", value)
        return value

    def optional_text(self, name: str, *, empty: bool = False) -> str | None:
        return None if self._get(name) is None else self.text(name, empty=empty)

    def optional_missing_text(self, name: str) -> str | None:
        """A text; None if the field is null or missing."""
        return None if self._document.get(name) is None else self.text(name)

    def one_of(self, name: str, choices: Sequence[Choice]) -> Choice:
        value = self._get(name)
        for choice in choices:
            if value == choice:
                return choice
        raise self._fail(name, " or ".join(choices), value)

    def flag(self, name: str) -> bool:
        value = self._get(name)
        if type(value) is not bool:
            raise self._fail(name, "true or false", value)
        return value

    def optional_flag(self, name: str) -> bool | None:
        """True or false; None if the field is null or missing."""
        return None if self._document.get(name) is None else self.flag(name)

    def integer(self, name: str, *, low: int = 0, high: int = MAX_INT64) -> int:
        value = self._get(name)
        if type(value) is not int or not low <= value <= high:
            raise self._fail(name, f"an integer from {low} to {high}", value)
        return value

    def optional_integer(self, name: str, *, low: int = 0, high: int = MAX_INT64) -> int | None:
        return None if self._get(name) is None else self.integer(name, low=low, high=high)

    def number(
        self,
        name: str,
        *,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> float:
        value = _finite(self._get(name))
        if value is None or not low <= value <= high:
            bounds = f" from {low:g} to {high:g}" if high < math.inf else ""
            raise self._fail(name, "a finite number" + bounds, self._get(name))
        return value

    def optional_number(self, name: str) -> float | None:
        return None if self._get(name) is None else self.number(name)

    def integers(self, name: str, *, low: int = 0) -> tuple[int, ...]:
        value = self._get(name)
        # The usual column, without a function for its refusal.
        if type(value) is list and set(map(type, value)) == {int} and min(value) >= low:
            column = tuple(cast("list[int]", value))
            if max(column) <= MAX_INT64:
                return column
        return _integers(
            value, low, lambda refused: self._fail(name, f"integers from {low}", refused)
        )

    def optional_integers(self, name: str, *, low: int = 0) -> tuple[int, ...] | None:
        """Integers from `low`; None if the field is null or missing."""
        return None if self._document.get(name) is None else self.integers(name, low=low)

    def optional_numbers(self, name: str) -> tuple[float | None, ...] | None:
        """Numbers from 0 to `MOST_FIGURE` or nulls; None if the field is null or missing."""
        if self._document.get(name) is None:
            return None
        column = self._list(name)
        # The usual column: numbers alone, none of them so large that its type matters.
        if column and set(map(type, column)) <= {int, float}:
            figures = cast("list[float]", column)
            if min(figures) >= 0 and max(figures) <= MAX_INT64:
                return tuple(map(float, figures))
        read = tuple(map(_finite, column))
        if any(
            (number is None and given is not None) or not 0 <= (number or 0) <= MOST_FIGURE
            for number, given in zip(read, self._list(name), strict=True)
        ):
            raise self._fail(name, f"numbers from 0 to {MOST_FIGURE:g}", self._get(name))
        return read

    def optional_texts(self, name: str) -> tuple[str, ...] | None:
        """Texts; None if the field is null or missing."""
        return None if self._document.get(name) is None else self.texts(name)

    def optional_texts_or_nulls(self, name: str) -> tuple[str | None, ...] | None:
        """Texts or nulls (unknown); None if the field is null or missing."""
        if self._document.get(name) is None:
            return None
        read = tuple(self._list(name))
        if not all(value is None or (type(value) is str and value) for value in read):
            raise self._fail(name, "texts or null", self._get(name))
        return cast("tuple[str | None, ...]", read)

    def optional_flags(self, name: str) -> tuple[bool | None, ...] | None:
        """Flags or nulls (unknown); None if the field is null or missing."""
        if self._document.get(name) is None:
            return None
        read = tuple(self._list(name))
        if not set(map(type, read)) <= {bool, type(None)}:
            raise self._fail(name, "true, false or null", self._get(name))
        return cast("tuple[bool | None, ...]", read)

    def integer_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        def refuse(value: object) -> WireError:
            return self._fail(name, "lists of integers from 0", value)

        return tuple(_integers(row, 0, refuse) for row in self._list(name))

    def optional_integer_lists(self, name: str) -> tuple[tuple[int, ...], ...] | None:
        """Lists of integers from 0; None if the field is null or missing."""
        return None if self._document.get(name) is None else self.integer_lists(name)

    def texts(self, name: str) -> tuple[str, ...]:
        return _texts(self._get(name), lambda value: self._fail(name, "texts", value))

    def text_lists(self, name: str) -> tuple[tuple[str, ...], ...]:
        def refuse(value: object) -> WireError:
            return self._fail(name, "lists of texts", value)

        rows = self._list(name)
        if set(map(type, rows)) <= {list}:
            lists = cast("list[list[object]]", rows)
            if set(map(type, chain.from_iterable(lists))) <= {str}:
                return tuple(map(tuple, cast("list[list[str]]", lists)))
        return tuple(_texts(row, refuse) for row in rows)

    def partitions(self, name: str, *, limit: int = MAX_PARTITIONS) -> Partitions:
        """`{topic: ranges}` with at most `limit` partitions in all topics together."""
        left = limit
        read: dict[str, tuple[int, ...]] = {}
        for topic, text in self._object(name).items():
            if type(text) is not str:
                raise self._fail(f"{name}.{show(topic)}", "ranges", text)
            numbers = ranges.parse(text, limit=left)
            left -= len(numbers)
            if numbers and topic:
                read[topic] = numbers
            else:
                raise self._fail(name, "named topics with partitions", text)
        return read

    def partitions_by_name(self, name: str) -> dict[str, Partitions]:
        """`{name: {topic: ranges}}`, with at most `MAX_PARTITIONS` partitions in all together."""
        inner, left = self.section(name), MAX_PARTITIONS
        read: dict[str, Partitions] = {}
        for key in self._object(name):
            if not key:
                raise self._fail(name, "named shares", self._get(name))
            read[key] = inner.partitions(key, limit=left)
            left -= sum(map(len, read[key].values()))
        return read

    def counts(self, name: str, *, low: int = 0) -> dict[str, int]:
        inner = self.section(name)
        return {key: inner.integer(key, low=low) for key in self._object(name)}

    def figures(self, name: str) -> dict[str, float | None] | None:
        """Numbers or nulls by name; None if the whole field is null."""
        if self._get(name) is None:
            return None
        read: dict[str, float | None] = {}
        for key, value in self._object(name).items():
            figure = _finite(value)
            if figure is None and value is not None:
                raise self._fail(f"{name}.{show(key)}", "a finite number", value)
            read[key] = figure
        return read

    def section(self, name: str) -> Fields:
        return Fields(self._get(name), f"{self._path}.{name}")

    def optional_section(self, name: str) -> Fields | None:
        return None if self._get(name) is None else self.section(name)

    def sections(self, name: str) -> tuple[Fields, ...]:
        return tuple(
            Fields(item, f"{self._path}.{name}[{index}]")
            for index, item in enumerate(self._list(name))
        )

    def items(self) -> list[tuple[str, Fields]]:
        """All fields of this object by name, each read as an object."""
        return [(key, self.section(key)) for key in self._document]

    def by_name(self, name: str, read: Callable[[Fields], Item]) -> dict[str, Item]:
        """An object of objects, each converted by `read`."""
        return {key: read(inner) for key, inner in self.section(name).items()}

    def _list(self, name: str) -> list[object]:
        value = self._get(name)
        if not isinstance(value, list):
            raise self._fail(name, "a list", value)
        return value

    def _object(self, name: str) -> Mapping[str, object]:
        value = self._get(name)
        if not isinstance(value, dict):
            raise self._fail(name, "an object", value)
        return value


def _finite(value: object) -> float | None:
    if type(value) is int and abs(value) <= MAX_INT64:
        return float(value)
    return value if type(value) is float and math.isfinite(value) else None


def _integers(value: object, low: int, refuse: Callable[[object], WireError]) -> tuple[int, ...]:
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise refuse(value)
    if value and (min(value) < low or max(value) > MAX_INT64):
        raise refuse(value)
    return tuple(value)


def _texts(value: object, refuse: Callable[[object], WireError]) -> tuple[str, ...]:
    if not isinstance(value, list) or not set(map(type, value)) <= {str}:
        raise refuse(value)
    return tuple(cast("Any", value))
