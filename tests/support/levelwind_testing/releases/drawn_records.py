"""Records of every kind, drawn by the strategies of their declarations."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol import records as r
from levelwind.assignors.protocol.records import schemas
from levelwind_testing.record_strategies import RECORDS

DRAWN = 300
"""Records of a kind from which a corpus takes those that show something new."""
RawRecord = tuple[str, bytes, bytes]
"""Topic, key and value."""


def drawn(strategy: "st.SearchStrategy[r.Record]", count: int) -> list[r.Record]:
    """Return records of a strategy, the same ones each time."""
    found: list[r.Record] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(record: r.Record) -> None:
        found.append(record)

    keep()
    return found


def completed(before: Iterable[RawRecord]) -> Iterator[RawRecord]:
    """Yield records as today's code writes them, with every field, absent too, and each choice.

    Args:
        before: the records of an earlier corpus; drawn ones show what these do not.
    """
    read = [(topic, r.decode(topic, key, value)) for topic, key, value in before]
    for (topic, kind), strategy in RECORDS.items():
        known = frozenset(fields_of(schemas.load(kind.KIND)))
        shown: set[str] = set()
        kept = [record for of, record in read if of == topic and isinstance(record, kind)]
        for number, record in enumerate([*kept, *drawn(strategy, DRAWN)]):
            key, value = r.encode(record)
            found = shown_by(json.loads(value), known)
            if number < len(kept) or not found <= shown:
                shown |= found
                yield topic, key, value


def fields_of(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of a schema: fields, choices of closed lists, and what may be null."""
    yield from (f"{path} = {choice}" for choice in schema.get("enum", ()))
    if "null" in schema.get("type", ()):
        yield f"{path} = None"
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from fields_of(inner, f"{path}.{name}")
    for word, step in (("additionalProperties", ".*"), ("items", "[]"), ("then", ""), ("else", "")):
        if isinstance(inner := schema.get(word), dict):
            yield from fields_of(inner, path + step)
    for branch in schema.get("anyOf", ()):
        yield from fields_of(branch, path)


def shown_by(value: Any, known: Collection[str], path: str = "") -> set[str]:
    """Return those of the known paths of a schema that a value has; an absent field is null."""
    found = {path, f"{path} = {value}"}
    if isinstance(value, dict):
        for name, inner in value.items():
            step = f".{name}" if f"{path}.{name}" in known else ".*"
            found |= shown_by(inner, known, path + step)
        optional = (each.removesuffix(" = None") for each in known if each.endswith(" = None"))
        for outer, _, name in (each.rpartition(".") for each in optional):
            if outer == path and name not in {*value, "*"}:
                found.add(f"{path}.{name} = None")
    elif isinstance(value, list):
        for inner in value:
            found |= shown_by(inner, known, f"{path}[]")
    return found & {*known}
