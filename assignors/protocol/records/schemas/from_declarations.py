"""The schemas as they follow from the declarations: `make docs` writes them beside this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints

from levelwind.assignors.protocol.declared.fields import Name, Whole
from levelwind.assignors.protocol.declared.json_schema import record_schema, schema_of
from levelwind.assignors.protocol.records import KINDS, LOG_POSITION_KINDS, CutRecord, TextShard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levelwind.assignors.protocol.declared.declaration import Declared
    from levelwind.assignors.protocol.declared.json_schema import Schema


def schemas() -> dict[str, Schema]:
    """The schema of every kind of record, by its name."""
    keys: dict[type[Declared], list[list[Schema]]] = {}
    for words in KINDS.values():
        for word, kind in words.items():
            parts = _key_parts(kind.record, kind.parts)
            keys.setdefault(kind.record, []).append([{"const": word}, *parts])
            if kind.record is TextShard:
                head = words[word.removesuffix("s")].record
                heads = [{"const": word.removesuffix("s")}, *_key_parts(head, kind.parts[:-1])]
                keys.setdefault(CutRecord, []).append(heads)
    for kind in LOG_POSITION_KINDS.values():
        keys[kind.record] = [[*_key_parts(kind.record, ("name", *kind.parts))]]
    return {record.KIND: record_schema(record, _joined(parts)) for record, parts in keys.items()}


def _joined(keys: list[list[Schema]]) -> list[list[Schema]]:
    """Keys that differ in their first word alone, as one."""
    words, others = [word for word, *_ in keys], [parts for _, *parts in keys]
    if len(keys) == 1 or others != others[:1] * len(others):
        return keys
    return [[{"enum": [word["const"] for word in words]}, *others[0]]]


def _key_parts(record: type[Declared], parts: tuple[str, ...]) -> Iterator[Schema]:
    """The schemas of a key's parts after the first, by the fields that they are."""
    hints: dict[str, Any] = get_type_hints(record, include_extras=True)
    for name, part in zip(_names(record, len(parts)), parts, strict=True):
        schema = schema_of(hints.get(name, {"name": Name, "number": Whole}[part]))
        yield schema | {"title": name} if name else schema


def _names(record: type[Declared], count: int) -> list[str]:
    """The fields that the parts of a key are; unknown where it is made of another record's."""
    fields = record.KEY_FIELDS[len(record.KEY_FIELDS) - count :]
    return [""] * count if "head_key" in record.KEY_FIELDS else list(fields)
