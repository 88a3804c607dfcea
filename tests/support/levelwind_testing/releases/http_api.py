"""The HTTP API by its OpenAPI document: operations, what they take, and what they answer."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry

from levelwind.daemon.api.api_context import ApiContext
from levelwind.daemon.api.event_stream import EventStreams
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.api.views.record_tap import RecordTap
from levelwind.daemon.api.web_app import web_app
from levelwind.daemon.config.settings import Settings
from levelwind_testing.page.served_page import GivenDecisions


@cache
def _document() -> dict[str, Any]:
    view = LiveView(RecordTap())
    context = ApiContext(settings=Settings, version="0", view=view, registry=CollectorRegistry())
    app: Any = web_app(context, GivenDecisions(), EventStreams(view, context.status_document))
    document: dict[str, Any] = app._app.openapi()
    return document


def operations() -> Iterator[str]:
    """Yield each operation, its parameters, the fields that it takes, and those of its answers."""
    for where, operation in _operations():
        yield where
        yield from (f"{where} ?{each['name']}" for each in operation.get("parameters", ()))
        for schema in _taken(operation):
            yield from (f"{where} takes {field}" for field in _fields(schema))
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                yield f"{where} {status} {kind}"
                for field in _fields(content.get("schema", {})):
                    yield f"{where} {status} {field}"


def needed() -> Iterator[str]:
    """Yield the parameters and fields that a request cannot do without."""
    for where, operation in _operations():
        for each in operation.get("parameters", ()):
            if each.get("required"):
                yield f"{where} ?{each['name']}"
        for schema in _taken(operation):
            yield from (f"{where} takes .{name}" for name in _resolved(schema)["required"])


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, by_method in _document()["paths"].items():
        for method, operation in by_method.items():
            yield f"{method.upper()} {path}", operation


def _taken(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield content["schema"]


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    found: dict[str, Any] = _document()["components"]["schemas"][name]
    return found


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    whole = _resolved(schema)
    for branch in whole.get("anyOf", ()):
        yield from _fields(branch, path)
    if path and isinstance(kind := whole.get("type"), str) and kind not in {"object", "null"}:
        yield f"{path}:{kind}"
    yield from (f"{path}={choice}" for choice in whole.get("enum", ()))
    for name, inner in whole.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _fields(inner, f"{path}.{name}")
    if "items" in whole:
        yield from _fields(whole["items"], f"{path}[]")
    if isinstance(inner := whole.get("additionalProperties"), dict):
        yield from _fields(inner, f"{path}.*")
