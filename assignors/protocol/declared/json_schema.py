"""JSON Schemas of records by their declarations, for readers in any language.

A field that may be missing may be null, which says the same. Descriptions are the docstrings of the
fields; the schema of the key is at `$defs/key`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise, takewhile
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct

from levelwind.assignors.protocol.declared.declaration import declaration_of
from levelwind.assignors.protocol.declared.json_form import form_of, is_struct
from levelwind.assignors.protocol.declared.marks import Cases, Shape, marks_of, without_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from levelwind.assignors.protocol.declared.declaration import Declared
    from levelwind.assignors.protocol.declared.json_form import JsonForm

Schema = dict[str, Any]

_BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
}
_TYPES: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    msgspec.Raw: {"type": "object"},
}


def record_schema(record_type: type[Declared], keys: Iterable[Sequence[Schema]]) -> Schema:
    """The schema of a kind of record.

    Args:
        record_type: its class.
        keys: the schemas of the parts of each kind of key that it may have.
    """
    form = declaration_of(record_type).form
    key = [_key(parts) for parts in keys]
    value = _object(form)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:levelwind:{record_type.KIND}:{record_type.V}",
        **_prose_of(record_type),
        "$defs": {"key": key[0] if len(key) == 1 else {"anyOf": key}},
        **value,
        "required": sorted(["v", *value["required"]]),
        "properties": {"v": {"const": record_type.V}, **value["properties"]},
    }


def _prose_of(record_type: type[Declared]) -> Schema:
    """The first paragraph of a class's docstring, and the others."""
    title, *others = (inspect.getdoc(record_type) or "").split("\n\n")
    prose = {"title": _paragraph(title), "description": _paragraph(" ".join(others))}
    return {word: text for word, text in prose.items() if text}


def schema_of(hint: Any) -> Schema:
    """The schema of the values of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if shapes := marks_of(hint, Shape):
            return schema_of(shapes[0].wire)
        bounded = schema_of(arguments[0])
        for bounds in marks_of(hint, msgspec.Meta):
            given = {word: getattr(bounds, name) for name, word in _BOUNDS.items()}
            bounded |= {word: bound for word, bound in given.items() if bound is not None}
            bounded |= bounds.extra_json_schema or {}
        return bounded
    if origin is Literal:
        return {"enum": list(arguments)}
    if is_struct(hint):
        return _object(form_of(hint))
    if origin in {Union, UnionType}:
        return _or_null(schema_of(without_none(hint)))
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin in {Mapping, dict}:
        names = {word: bound for word, bound in schema_of(arguments[0]).items() if word != "type"}
        named = {"propertyNames": names} if names else {}
        return {"type": "object", **named, "additionalProperties": schema_of(arguments[1])}
    return dict(_TYPES[hint])


def _object(form: JsonForm[Any]) -> Schema:
    """The schema of the object that a struct becomes."""
    docs = field_docs(form.part_type)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    objects: dict[str, Schema] = {
        within: {"type": "object", "required": [], "properties": {}} for within in form.objects
    }
    for column in form.columns:
        hint = form.hints[column.name]
        may_miss = column.default is not NODEFAULT
        schema = schema_of(without_none(hint) if may_miss else hint)
        if may_miss and column.nullable:
            schema = _or_null(schema)
        described = _described(schema, docs.get(column.name))
        held = objects.get(column.within or "")
        (properties if held is None else held["properties"])[column.wire_name] = described
        if column.default is NODEFAULT:
            (required if held is None else held["required"]).append(column.wire_name)
    for name, spread in form.spreads.items():
        for part, hint in spread.parts.items():
            properties[part] = schema_of(without_none(hint))
            if part == name:
                properties[part] = _described(properties[part], docs.get(name))
            if NoneType not in get_args(hint):
                required.append(part)
    return {
        "type": "object",
        "required": sorted([*required, *objects]),
        "properties": properties | objects,
        **_by_case(form),
    }


def _by_case(form: JsonForm[Any]) -> Schema:
    """The schemas of a part whose kind another field names."""
    for name, hint in form.hints.items():
        for cases in marks_of(hint, Cases):
            (first, then), (_, otherwise) = (
                (kind, {"properties": {name: schema_of(part)}})
                for kind, part in cases.kinds.items()
            )
            named = {"properties": {cases.tag: {"const": first}}}
            return {"if": named, "then": then, "else": otherwise}
    return {}


def _key(parts: Sequence[Schema]) -> Schema:
    return {
        "type": "array",
        "prefixItems": list(parts),
        "minItems": len(parts),
        "maxItems": len(parts),
    }


def _or_null(schema: Schema) -> Schema:
    if "null" in schema.get("type", ()):
        return schema
    if isinstance(of := schema.get("type"), str) and of != "object":
        return schema | {"type": [of, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _described(schema: Schema, doc: str | None) -> Schema:
    if doc is None:
        return schema
    return schema | {"description": doc.replace(". None", ". Null").replace("None", "null")}


def field_docs(part_type: type) -> dict[str, str]:
    """The docstrings of a struct's fields by name, each as one paragraph."""
    docs: dict[str, str] = {}
    bases = [*takewhile(lambda base: base is not Struct, part_type.__mro__)]
    for base in reversed(bases):
        body = _definition(base).body
        docs |= {
            str(field.target.id): _paragraph(inspect.cleandoc(doc.value.value))
            for field, doc in pairwise(body)
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
            and isinstance(doc.value.value, str)
        }
    return docs


@cache
def _definition(part_type: type) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(sys.modules[part_type.__module__]))
    return next(
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == part_type.__name__
    )


def _paragraph(doc: str) -> str:
    return " ".join(doc.split())
