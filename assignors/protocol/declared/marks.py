"""Marks of fields: all that a declaration says beside types and bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

Conversion: TypeAlias = Callable[[Any], Any]
Found = TypeVar("Found")


class Mark(NamedTuple):
    """Something about a field that its type does not say."""

    meaning: str


class Indexed(NamedTuple):
    """A list of as many items as every other list of the dimension."""

    dimension: str


class Among(NamedTuple):
    """Numbers below the length of the lists of a dimension."""

    dimension: str


class Renamed(NamedTuple):
    """The name of a field in JSON, where its own is another."""

    name: str


class Within(NamedTuple):
    """The name of the object in JSON that a field stands in."""

    name: str


@dataclass(frozen=True)
class Shape:
    """The form of a type's values in JSON."""

    wire: Any
    """The type that is decoded."""
    read: Conversion | None = None
    """From the decoded value to the field's; None if it is the same."""
    write: Conversion | None = None
    """From the field's value to what is written; None if it is the same."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Several fields of JSON that one field of a record stands for."""

    parts: Mapping[str, Any]
    """Their types by name; one that may be None need not be there, but is not null."""
    read: Callable[..., Any]
    """The field's value, of theirs by name."""
    write: Callable[[Any], dict[str, Any]]
    """Their values by name, of the field's."""


@dataclass(frozen=True, eq=False)
class Cases:
    """A part whose kind another field of JSON names."""

    tag: str
    """The name of that field."""
    kinds: Mapping[str, type]
    """The struct of each kind."""

    def kind_of(self, part: object) -> str:
        """The kind of a part."""
        return next(kind for kind, part_type in self.kinds.items() if type(part) is part_type)


NEVER_NULL: Final = Mark("may be missing, but not null")
WRITTEN: Final = Mark("written also where it holds its default")
SHORTENED: Final = Mark("whole numbers have no fraction, which saves the '.0': most are 0")


def marks_of(hint: Any, kind: type[Found]) -> list[Found]:
    """The marks of a kind that a type has, by itself or where it is not None."""
    if get_origin(hint) is Annotated:
        return [mark for mark in hint.__metadata__ if isinstance(mark, kind)]
    if get_origin(hint) in {Union, UnionType}:
        return [mark for argument in get_args(hint) for mark in marks_of(argument, kind)]
    return []


def without_none(hint: Any) -> Any:
    """A type without None."""
    if get_origin(hint) is Annotated:
        return Annotated[(without_none(get_args(hint)[0]), *hint.__metadata__)]
    parts = [part for part in get_args(hint) if part is not NoneType]
    return parts[0] if get_origin(hint) in {Union, UnionType} and len(parts) == 1 else hint
