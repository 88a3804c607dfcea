"""Strategies of records by their declarations: whatever a record may hold is drawn."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from msgspec.structs import fields

from levelwind.assignors.protocol import records as r
from levelwind.assignors.protocol.declared.fields import Key, Share, Shares
from levelwind.assignors.protocol.declared.json_form import is_struct
from levelwind.assignors.protocol.declared.marks import Among, Indexed, Shape, marks_of
from levelwind.assignors.protocol.records.metadata import Gaps
from levelwind.assignors.protocol.records.operators.lever import LeverRecord

MOST = 3
"""Most items of a list, and parts of an object."""
MOST_INDICES = 2

name = st.text(min_size=1, max_size=8)
whole = st.integers(0, 2**63 - 1)
HEAD_KEYS = {
    "lag": st.tuples(st.just("lag"), name, name) | st.tuples(st.just("speed"), name),
    "triggers": st.tuples(st.sampled_from(["racks", "skew"]), name),
}
"""By topic, the keys of records that are cut as text."""
partitions = st.dictionaries(
    name,
    st.sets(st.integers(0, 300), min_size=1).map(lambda drawn: tuple(sorted(drawn))),
    max_size=MOST,
)
pairs = st.lists(st.tuples(whole, whole), max_size=2).map(
    lambda drawn: tuple(sorted(offset for pair in drawn for offset in pair))
)
GIVEN = {
    Key: HEAD_KEYS["lag"] | HEAD_KEYS["triggers"],
    Share: partitions,
    Shares: st.dictionaries(name, partitions, max_size=2),
    Gaps: pairs,
}
"""Strategies of types that JSON holds in another form."""


def records_of(record_type: type, **given: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    """Draw records of a class, or parts of them; `given`: fields of another strategy."""
    hints = get_type_hints(record_type, include_extras=True)
    declared = {field.name: hints[field.name] for field in fields(record_type)}
    dimensions = {mark.dimension for hint in declared.values() for mark in marks_of(hint, Indexed)}

    @st.composite
    def draw_record(draw: Any) -> Any:
        lengths = {dimension: draw(st.integers(0, MOST)) for dimension in sorted(dimensions)}
        return record_type(
            **{
                field: draw(given[field] if field in given else _values(hint, lengths))
                for field, hint in declared.items()
            }
        )

    return draw_record()


def _values(hint: Any, lengths: Mapping[str, int]) -> "st.SearchStrategy[Any]":
    """Draw values of a type; `lengths`: of the lists of each dimension."""
    for known, strategy in GIVEN.items():
        if hint == known:
            return strategy
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        parts = [st.none() if part is NoneType else _values(part, lengths) for part in arguments]
        return st.one_of(*parts)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return _list(_values(arguments[0], {}), None)
    if origin is Mapping:
        return st.dictionaries(_values(arguments[0], {}), _values(arguments[1], {}), max_size=2)
    if origin is Annotated:
        return _annotated(hint, lengths)
    return records_of(hint) if is_struct(hint) else _numbers_and_texts(hint, [])


def _list(items: "st.SearchStrategy[Any]", length: int | None) -> "st.SearchStrategy[Any]":
    least, most = (0, 2) if length is None else (length, length)
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def _annotated(hint: Any, lengths: Mapping[str, int]) -> "st.SearchStrategy[Any]":
    bare = get_args(hint)[0]
    indexed, among = marks_of(hint, Indexed), marks_of(hint, Among)
    if indexed or among:
        for shape in marks_of(hint, Shape):
            bare = shape.wire
        items = _values(get_args(bare)[0], {})
        length = lengths[indexed[0].dimension] if indexed else None
        if among:
            most = lengths[among[0].dimension] - 1
            items = st.integers(-1 if indexed else min(0, most), most)
            length = 0 if most < 0 and length is None else length
        return _list(items, length)
    bounds = marks_of(hint, msgspec.Meta)
    return _numbers_and_texts(bare, bounds) if bare in {int, float, str} else _values(bare, lengths)


def _numbers_and_texts(kind: Any, bounds: list[msgspec.Meta]) -> "st.SearchStrategy[Any]":
    limits = {
        word: bound
        for each in bounds
        for word in ("ge", "le", "lt", "min_length")
        if (bound := getattr(each, word)) is not None
    }
    if kind is str:
        return st.text(min_size=limits.get("min_length", 0), max_size=8)
    if kind is int:
        return st.integers(limits.get("ge", 0), limits.get("le", limits.get("lt", 2**63) - 1))
    if kind is float:
        return st.floats(limits.get("ge"), limits.get("le"), allow_nan=False, allow_infinity=False)
    return {bool: st.booleans(), bytes: st.binary(max_size=5)}[kind]


def _levers() -> "st.SearchStrategy[LeverRecord]":
    """Draw levers of every kind, each with what it needs."""
    partition = st.builds("{}/{}".format, name, st.integers(0, 300))
    return st.one_of(
        *(
            records_of(
                LeverRecord,
                kind=st.just(kind),
                subject=partition if kind == "pin" else name,
                setting=name if kind in {"pin", "strategy"} else st.none() | name,
            )
            for kind in get_args(r.LeverKind)
        )
    )


RECORDS = {
    (topic, kind.record): records_of(kind.record)
    for topic, kinds in {**r.KINDS, **{t: {"": k} for t, k in r.LOG_POSITION_KINDS.items()}}.items()
    for kind in kinds.values()
} | {
    ("control", LeverRecord): _levers(),
    ("replays", r.ReplayRecord): records_of(
        r.ReplayRecord, offset=st.integers(0, 2**62), until=st.integers(2**62 + 1, 2**63 - 1)
    ),
    **{
        (topic, kind): records_of(kind, head_key=keys)
        for topic, keys in HEAD_KEYS.items()
        for kind in (r.CutRecord, r.TextShard)
    },
}
"""Strategies by topic and class."""
